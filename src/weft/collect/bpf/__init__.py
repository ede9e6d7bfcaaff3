"""Collector bpf: the kernel takes the stacks, on the thread itself."""
