"""The live view of a recording, or of a capture."""
