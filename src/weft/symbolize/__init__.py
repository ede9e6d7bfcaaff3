"""From addresses in modules to functions, files and lines."""
