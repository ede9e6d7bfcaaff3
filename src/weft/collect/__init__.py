"""Collectors: what takes the samples."""
