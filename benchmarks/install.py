"""Makes an environment for each peer in the cache folder, once: python -m benchmarks.install"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from interpreters import CACHE

ENVIRONMENTS = CACHE / "bench"
PEERS = {
    "py-spy": ["py-spy==0.4.3"],
    "pystack": ["pystack==1.7.2"],
    "austin": ["austin-dist==4.0.0", "austin-python==2.4.0"],
}


def program(environment: str, name: str) -> Path:
    """A program of an environment; it is not there where the environment could not be made."""
    return ENVIRONMENTS / environment / "bin" / name


def make(name: str, packages: list[str], python: str = sys.executable) -> bool:
    """An environment, which appears whole. False, and pip says what went wrong: it could not be made."""
    folder = ENVIRONMENTS / name
    done = folder / "done"
    if done.exists() and done.read_text().split() == packages:
        return True
    subprocess.run([python, "-m", "venv", "--clear", str(folder)], check=True)
    pip = [str(program(name, "python")), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if subprocess.run([*pip, *packages], check=False).returncode != 0:
        print(f"bench: {name} could not be installed; its rows say so", file=sys.stderr)
        return False
    done.write_text("\n".join(packages))
    return True


def main() -> None:
    """Those of all peers."""
    for name, packages in PEERS.items():
        make(name, packages)


if __name__ == "__main__":
    main()
