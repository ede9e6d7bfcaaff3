"""Views of a capture while it grows."""
