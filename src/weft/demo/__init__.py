"""The bundled example that `weft demo` records: program.py, run as a script of its own."""
