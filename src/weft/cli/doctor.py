"""weft doctor: says what works here, what does not, and what to do about it."""

from __future__ import annotations

import json

import click

EPILOG = """\b
Examples:
  weft doctor          can programs be recorded here?
  weft doctor 1234     can this one be?
  weft doctor --json | jq '.checks[] | select(.verdict != "ok")'
"""

_COLOURS = {"ok": "green", "warning": "yellow", "no": "red"}


@click.command(epilog=EPILOG)
@click.argument("pid", type=click.IntRange(min=1), required=False)
@click.option("--json", "as_json", is_flag=True, help="The same as data; docs/doctor.md tells the keys.")
def doctor(pid: int | None, *, as_json: bool) -> int:
    """Try what recording needs of this machine and, with PID, of a process. Exits with 1 if it will not work."""
    from weft import doctor as checks_of
    from weft.profile.names import escape

    checks = checks_of.check_machine()
    if pid is not None:
        checks += checks_of.check_process(pid)
    works = checks_of.works(checks)
    if as_json:
        rows = [
            {"name": check.name, "verdict": check.verdict.value, "found": check.found, "advice": check.advice}
            for check in checks
        ]
        click.echo(json.dumps({"works": works, "checks": rows}, indent=2))
        return 0 if works else 1
    width = max(len(check.name) for check in checks)
    for check in checks:
        verdict = click.style(f"{check.verdict.value:<7}", fg=_COLOURS[check.verdict.value])
        click.echo(f"{verdict}  {check.name:<{width}}  {escape(check.found)}")
        if check.advice:
            click.echo(f"{'':<7}  {'':<{width}}  -> {escape(check.advice)}")
    return 0 if works else 1
