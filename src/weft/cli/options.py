"""Options that several verbs have."""

from __future__ import annotations

import re

import click

MAX_RATE_HZ = 20_000

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


class _Rate(click.ParamType[int]):
    """Samples a second: 99, 1khz, 2.5kHz."""

    name = "rate"

    def convert(self, value: str | int, param: click.Parameter | None, ctx: click.Context | None) -> int:
        match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(k?)(?:hz)?\s*", str(value), re.IGNORECASE)
        rate = round(float(match[1]) * (1000 if match[2] else 1)) if match else 0
        if not 1 <= rate <= MAX_RATE_HZ:
            self.fail(f"{value!r} is no rate from 1 to {MAX_RATE_HZ:,} Hz, such as 99 or 1khz", param, ctx)
        return rate


rate_option = click.option(
    "-r", "--rate", type=_Rate(), default=99, show_default=True, metavar="HZ", help="Samples a second: 99, 1khz."
)
