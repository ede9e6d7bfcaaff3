"""Make what the tests need beyond Python packages: Debian packages, and chroots with more Pythons in the cache folder.

Each step is done once. Without root (or sudo without a password) it says what is missing and goes on: the tests that
need it skip and say so.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHE = Path(os.environ.get("WEFT_CACHE") or ROOT / ".cache")

# Compilers for targets that embed Python, a browser for the HTML report, gcore for core files, a /usr/lib/debug.
PACKAGES = [
    "clang",
    "libclang-rt-dev",
    "g++",
    "gcc",
    "binutils",
    "gdb",
    "libc6-dbg",
    "dwz",
    "debootstrap",
    "procps",
    "chromium",
    "chromium-driver",
]


@dataclass(frozen=True)
class Tree:
    """A chroot: the Debian release that it holds and its Pythons."""

    suite: str
    pythons: list[str]

    @property
    def path(self) -> Path:
        """Where it lies when it is whole."""
        return CACHE / self.suite


TREES = [
    Tree("sid", ["python3.13", "python3.14", "python3.15"]),
    Tree("bullseye", ["python2.7", "python3.9"]),  # stripped builds of old versions
]


# Two versions of one package, each in a folder of its own.
CYTHONS = {"cython-0.29": "cython==0.29.*", "cython-3": "cython==3.*"}
# A JIT compiler, for the version of Python that it says.
JIT = ("llvmlite-3.13", "llvmlite==0.*", "3.13")


def say(text: str) -> None:
    """Tell the user, on stderr."""
    print(f"setup: {text}", file=sys.stderr, flush=True)


def as_root() -> list[str] | None:
    """What to put before a command to run it as root; None: there is no way."""
    if os.geteuid() == 0:
        return []
    sudo = shutil.which("sudo")
    if sudo and subprocess.run([sudo, "-n", "true"], check=False, capture_output=True).returncode == 0:
        return [sudo, "-n"]
    return None


def run(command: list[str], log: Path) -> bool:
    """Run a long command, its words to a log."""
    with log.open("w") as file:
        return subprocess.run(command, check=False, stdin=subprocess.DEVNULL, stdout=file, stderr=file).returncode == 0


def missing_packages() -> list[str]:
    """Those of PACKAGES that are not installed."""
    query = ["dpkg-query", "--show", "--showformat", "${Package} ${db:Status-Status}\n", *PACKAGES]
    lines = subprocess.run(query, check=False, capture_output=True, text=True).stdout.splitlines()
    return [package for package in PACKAGES if f"{package} installed" not in lines]


def install_packages(root: list[str]) -> None:
    """Install what is missing with apt."""
    packages = missing_packages()
    if not packages:
        return
    say("installing " + " ".join(packages))
    log = CACHE / "apt.log"
    apt = [*root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get"]
    install = [*apt, "install", "--yes", "--no-install-recommends", *packages]
    if not (run([*apt, "update"], log) and run(install, log)):
        say(f"apt-get failed: see {log}")


def mirror() -> str:
    """The Debian mirror that this machine uses itself."""
    targets = ["apt-get", "indextargets", "--format", "$(LABEL) $(REPO_URI)", "Created-By: Packages"]
    for line in subprocess.run(targets, check=False, capture_output=True, text=True).stdout.splitlines():
        label, _, uri = line.partition(" ")
        if label == "Debian":
            return uri
    return "http://deb.debian.org/debian"


def make_tree(tree: Tree, root: list[str]) -> None:
    """Make a chroot, under another name until it is whole."""
    if tree.path.exists():
        return
    say(f"making {tree.path} with {', '.join(tree.pythons)} (about a minute, 400 MB)")
    unfinished = Path(tempfile.mkdtemp(prefix=f".{tree.suite}-", dir=CACHE))
    log = CACHE / f"{tree.suite}.log"
    unfinished.chmod(0o755)
    include = f"--include={','.join(tree.pythons)}"
    if run([*root, "debootstrap", "--variant=minbase", include, tree.suite, str(unfinished), mirror()], log):
        shutil.rmtree(unfinished / "var/cache/apt/archives", ignore_errors=True)
        unfinished.rename(tree.path)
        return
    say(f"debootstrap failed: see {log}")
    if run([*root, "umount", str(unfinished / "proc")], CACHE / "umount.log"):
        say("debootstrap had left /proc mounted in it: unmounted")
    subprocess.run([*root, "rm", "-rf", "--one-file-system", str(unfinished)], check=False)


def install(name: str, requirement: str, *options: str) -> None:
    """Install a package in a folder of its own."""
    folder = CACHE / name
    if folder.exists():
        return
    say(f"installing {requirement} in {folder}")
    unfinished = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=CACHE))
    log = CACHE / f"{name}.log"
    if run([sys.executable, "-m", "pip", "install", "--target", str(unfinished), *options, requirement], log):
        unfinished.rename(folder)
    else:
        say(f"pip failed: see {log}")


def install_compilers() -> None:
    """Install what compiles the fixtures of the tests of Cython, and what compiles while it runs."""
    for name, requirement in CYTHONS.items():
        install(name, requirement)
    name, requirement, version = JIT
    install(name, requirement, "--python-version", version, "--only-binary=:all:")


def main() -> None:
    """Do all the steps."""
    CACHE.mkdir(parents=True, exist_ok=True)
    install_compilers()
    if shutil.which("apt-get") is None:
        say("this is no Debian: its packages and chroots are left out")
        return
    root = as_root()
    if root is None:
        wanted = [*missing_packages(), *(str(tree.path) for tree in TREES if not tree.path.exists())]
        if wanted:
            say("neither root nor sudo: going on without " + ", ".join(wanted))
        return
    install_packages(root)
    for tree in TREES:
        make_tree(tree, root)


if __name__ == "__main__":
    main()
