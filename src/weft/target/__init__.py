"""The target: a live process, its memory, its mappings and its files."""
