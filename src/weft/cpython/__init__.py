"""CPython inside the target: where its runtime is, how its structs are laid out, and what its tables mean."""
