"""A difference for people: on the terminal, in a pull request, as stacks for flame graph tools."""
