"""weft: a sampling profiler for Python programs that run native code."""
