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

# Compilers for libraries and targets, a browser for the HTML report, gcore for core files, a /usr/lib/debug, a peer.
PACKAGES = [
    "clang",
    "libclang-rt-dev",
    "g++",
    "gcc",
    "rustc",
    "binutils",
    "gdb",
    "libc6-dbg",
    "dwz",
    "strace",
    "debootstrap",
    "procps",
    "chromium",
    "linux-perf",
]
# From npm, which is installed if it is not there, however it came: what reads and writes profiles of other tools.
NODE_PACKAGES = {"speedscope-1.25.0": "speedscope@1.25.0", "node-pprof-5.20.0": "@datadog/pprof@5.20.0"}


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

# What targets import, by the version of their Python: the newest wheels that there are for it.
WHEELS = {
    **{version: ["greenlet"] for version in ("2.7", "3.6", "3.7", "3.8", "3.10", "3.12", "3.15")},
    **{version: ["greenlet", "numpy"] for version in ("3.9", "3.11", "3.13", "3.14")},
}
PLATFORMS = ("manylinux_2_28_x86_64", "manylinux_2_24_x86_64", "manylinux2014_x86_64")


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
    """What is to be installed with apt."""
    wanted = PACKAGES if shutil.which("npm") else [*PACKAGES, "npm"]
    query = ["dpkg-query", "--show", "--showformat", "${Package} ${db:Status-Status}\n", *wanted]
    lines = subprocess.run(query, check=False, capture_output=True, text=True).stdout.splitlines()
    return [package for package in wanted if f"{package} installed" not in lines]


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


def install(name: str, *requirements: str) -> None:
    """Install packages in a folder of the cache, under another name until they are whole."""
    folder = CACHE / name
    if folder.exists():
        return
    say(f"making {folder}")
    unfinished = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=CACHE))
    unfinished.chmod(0o755)
    log = CACHE / f"{name}.log"
    if run([sys.executable, "-m", "pip", "install", "--target", str(unfinished), *requirements], log):
        unfinished.rename(folder)
    else:
        say(f"pip failed: see {log}")
        shutil.rmtree(unfinished)


def install_node_packages() -> None:
    """Install packages of npm, each in a folder of the cache, under another name until it is whole."""
    for name, requirement in NODE_PACKAGES.items():
        folder = CACHE / name
        if folder.exists():
            continue
        if shutil.which("npm") is None:
            say(f"there is no npm: going on without {requirement}")
            continue
        say(f"making {folder}")
        unfinished = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=CACHE))
        unfinished.chmod(0o755)
        log = CACHE / f"{name}.log"
        if run(["npm", "install", "--prefix", str(unfinished), "--ignore-scripts", "--no-audit", requirement], log):
            unfinished.rename(folder)
        else:
            say(f"npm failed: see {log}")
            shutil.rmtree(unfinished)


def install_packages_of_targets() -> None:
    """Install what compiles the fixtures of the tests of Cython, a JIT compiler, and what targets import."""
    for name, requirement in CYTHONS.items():
        install(name, requirement)
    name, requirement, version = JIT
    install(name, requirement, f"--python-version={version}", "--only-binary=:all:")
    platforms = [f"--platform={platform}" for platform in PLATFORMS]
    for version, requirements in WHEELS.items():
        wheels = [f"--python-version={version}", *platforms, "--only-binary=:all:", "--no-deps"]
        install(f"packages-{version}", *wheels, *requirements)


def main() -> None:
    """Do all the steps."""
    CACHE.mkdir(parents=True, exist_ok=True)
    install_packages_of_targets()
    subprocess.run([sys.executable, "-m", "benchmarks.install"], cwd=ROOT, check=True)
    if shutil.which("apt-get") is None:
        say("this is no Debian: its packages and chroots are left out")
        return
    root = as_root()
    if root is None:
        install_node_packages()
        wanted = [*missing_packages(), *(str(tree.path) for tree in TREES if not tree.path.exists())]
        if wanted:
            say("neither root nor sudo: going on without " + ", ".join(wanted))
        return
    install_packages(root)
    install_node_packages()
    for tree in TREES:
        make_tree(tree, root)


if __name__ == "__main__":
    main()
