"""A recording as tables, what can be asked of them, and how far they can be trusted."""
