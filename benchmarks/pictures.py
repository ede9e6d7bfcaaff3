"""Pictures of the bundled example as weft and its peers show it, into docs/pictures: python -m benchmarks.pictures

Peers draw some of their buttons with characters that are only in fonts like Debian's fonts-symbola.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from interpreters import CACHE
from playwright.sync_api import Page, sync_playwright

import weft.demo
from benchmarks.browser import new_page
from benchmarks.install import make, program
from benchmarks.programs import newest

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "pictures"
EXAMPLE = "shop.py"
RATE = "250"  # at 997, py-spy falls behind with native frames
SPEEDSCOPE = CACHE / "speedscope-1.25.0/node_modules/speedscope/dist/release/index.html"


def run(folder: Path, *command: str | Path) -> None:
    """Run a command to its end in a folder, whose paths the pictures would show otherwise; its words go to stderr."""
    own = Path(sys.executable).parent
    folders = [own, *(program(name, name).parent for name in ("py-spy", "memray"))]
    environment = {**os.environ, "PATH": os.pathsep.join([*map(str, folders), os.environ["PATH"]])}
    subprocess.run([str(part) for part in command], check=True, stdout=sys.stderr, cwd=folder, env=environment)


def record(folder: Path) -> None:
    """With weft, py-spy (with native frames) and memray (of the memory at its peak, all that it needs in its page)."""
    program = ["python3", EXAMPLE]
    run(folder, "weft", "record", "-r", RATE, "-o", "weft.weft", "--", *program)
    run(folder, "weft", "report", "weft.weft", "-o", "weft.html")
    run(folder, "weft", "report", "weft.weft", "-f", "speedscope", "-o", "speedscope.json")
    run(folder, "py-spy", "record", "--native", "-r", RATE, "-o", "py-spy.svg", "--", *program)
    run(folder, "memray", "run", "--native", "-o", "memray.bin", EXAMPLE)
    run(folder, "memray", "flamegraph", "--no-web", "-o", "memray.html", "memray.bin")


def record_with_tachyon(folder: Path) -> None:
    """CPython 3.15's own, all threads; by that interpreter, in its chroot."""
    python = newest((3, 15))
    if python is None:
        raise SystemExit("there is no CPython 3.15; `make test` sets one up")
    with tempfile.TemporaryDirectory(dir=python.chroot and python.chroot / "tmp") as name:
        shutil.copy(folder / EXAMPLE, name)
        # From within the folder, whose name the picture would show otherwise.
        sampler = "-m profiling.sampling run -a --native -r $RATE --flamegraph -o tachyon.html $EXAMPLE"
        inner = f'cd "$FOLDER" && "$PYTHON" {sampler}'
        enter = [
            "unshare",
            "--mount",
            "sh",
            "-c",
            'mount -t proc proc "$1/proc"; exec chroot "$@"',
            "sh",
            python.chroot,
        ]
        settings = {"FOLDER": python.inside(Path(name)), "PYTHON": python.command[-1], "RATE": RATE, "EXAMPLE": EXAMPLE}
        words = [f"{key}={value}" for key, value in settings.items()]
        run(folder, *(enter if python.chroot else []), "env", *words, "sh", "-c", inner)
        shutil.copy(Path(name) / "tachyon.html", folder)


def take(page: Page, name: str) -> None:
    """What the page shows, as docs/pictures/NAME.png."""
    page.wait_for_timeout(1500)
    page.screenshot(path=PICTURES / f"{name}.png")


def take_all(page: Page, folder: Path) -> None:
    """Of each peer's page, and of the views of weft's."""
    for name, file in (("py-spy", "py-spy.svg"), ("memray", "memray.html"), ("tachyon", "tachyon.html")):
        page.goto((folder / file).as_uri())
        take(page, name)
    # As speedscope's own command gives it a file.
    text = base64.b64encode((folder / "speedscope.json").read_bytes()).decode()
    (folder / "load.js").write_text(f"speedscope.loadFileFromBase64('shop.json', {json.dumps(text)})")
    page.goto(f"{SPEEDSCOPE.as_uri()}#localProfilePath={folder / 'load.js'}")
    page.get_by_text("Left Heavy").click()
    take(page, "speedscope")
    page.goto((folder / "weft.html").as_uri())
    for key, name in (("1", "weft"), ("2", "weft-timeline"), ("5", "weft-source")):
        page.keyboard.press(key)
        take(page, name)
    page.emulate_media(color_scheme="dark")
    page.keyboard.press("1")
    take(page, "weft-dark")


def main() -> None:
    """Record with all, one after the other, and take the pictures."""
    PICTURES.mkdir(exist_ok=True)
    make("memray", ["memray==1.20.0"])
    folder = Path(tempfile.gettempdir(), "shop")  # a picture shows its name
    folder.mkdir()
    try:
        shutil.copy(Path(weft.demo.__file__).with_name("program.py"), folder / EXAMPLE)
        record(folder)
        record_with_tachyon(folder)
        for file in sorted(folder.iterdir()):
            print(f"{file.name}: {file.stat().st_size:,} bytes")
        with sync_playwright() as playwright:
            take_all(new_page(playwright), folder)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
