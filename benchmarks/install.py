"""Makes an environment for each peer in the cache folder, once: python -m benchmarks.install"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from interpreters import CACHE

ENVIRONMENTS = CACHE / "bench"
PACKAGES = {
    "py-spy": ["py-spy==0.4.3"],
    "austin": ["austin-dist==4.0.0", "austin-python==2.4.0"],
}


def program(environment: str, name: str) -> Path:
    """A program of an environment; it is not there where the environment could not be made."""
    return ENVIRONMENTS / environment / "bin" / name


def main() -> None:
    """Each environment appears whole, or says what went wrong."""
    for name, packages in PACKAGES.items():
        folder = ENVIRONMENTS / name
        done = folder / "done"
        if done.exists() and done.read_text().split() == packages:
            continue
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        if subprocess.run([*pip, *packages], check=False).returncode != 0:
            print(f"bench: {name} could not be installed; its rows say so", file=sys.stderr)
            continue
        done.write_text("\n".join(packages))


if __name__ == "__main__":
    main()
