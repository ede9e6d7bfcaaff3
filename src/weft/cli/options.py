"""Options that several verbs have."""

from __future__ import annotations

import click

native_option = click.option(
    "--native/--no-native",
    default=True,
    show_default=True,
    help="Native frames (C, C++, Rust; as root the kernel's) woven with those of Python, or Python's alone.",
)
all_frames_option = click.option(
    "--all-frames", is_flag=True, help="Show the interpreter's own frames (eval loop, call helpers), too."
)
idle_option = click.option("--idle", is_flag=True, help="Show the time in which threads were blocked, too.")
