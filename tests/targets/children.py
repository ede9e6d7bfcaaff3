"""A process that starts others in every way: children.py SECONDS

Each child is busy for so long, in `busy_<kind>` where it is Python. The first line on stdout is {"pid"}, the last one
{"tree": [{"kind", "pid", "parent", "python"}, ...], "failed": [kind, ...]}, when all have ended; `python` says whether
the process runs Python at its end (one that forks and then runs /bin/sleep does not). Python 2.7 and 3.
"""
import json
import os
import subprocess
import sys
import time

SECONDS = float(sys.argv[1])
BUSY = """
import time
def busy_%s(end):
    while time.time() < end:
        sum(range(1000))
busy_%s(time.time() + %r)
"""
SLEEP = ["/bin/sleep", str(SECONDS)]
tree = []
failed = []


def spin(end):
    while time.time() < end:
        sum(range(1000))


def busy_fork(end):
    spin(end)


def busy_grandchild(end):
    spin(end)


def busy_multiprocessing(seconds):
    spin(time.time() + seconds)


def python(kind):
    return [sys.executable, "-c", BUSY % (kind, kind, SECONDS)]


def note(kind, pid, parent=None, python=True):
    tree.append({"kind": kind, "pid": pid, "parent": parent or os.getpid(), "python": python})
    return pid


def fork(body):
    """The PID of a child that runs `body` and ends."""
    pid = os.fork()
    if pid:
        return pid
    try:
        body()
        os._exit(0)
    finally:
        os._exit(1)


def child_with_grandchild(report):
    """Tell the grandchild's PID and wait for it."""
    pid = fork(lambda: busy_grandchild(time.time() + SECONDS))
    os.write(report, b"%d" % pid)
    os.waitpid(pid, 0)


def forks():
    """What os.fork starts: (kind, PID)."""
    report_read, report = os.pipe()
    yield "fork", note("fork", fork(lambda: busy_fork(time.time() + SECONDS)))
    yield "exec", note("exec", fork(lambda: os.execv(sys.executable, python("exec"))))
    yield "exec_sleep", note("exec_sleep", fork(lambda: os.execv(SLEEP[0], SLEEP)), python=False)
    yield "short", note("short", fork(lambda: None))
    pid = note("parent", fork(lambda: child_with_grandchild(report)))
    note("grandchild", int(os.read(report_read, 20)), parent=pid)
    yield "parent", pid
    if hasattr(os, "posix_spawn"):  # 3.8
        yield "posix_spawn", note("posix_spawn", os.posix_spawn(SLEEP[0], SLEEP, {}), python=False)


def subprocesses():
    """What subprocess starts, by vfork from 3.10 on: (kind, Popen)."""
    for kind, command in [("subprocess", python("subprocess")), ("subprocess_sleep", SLEEP)]:
        child = subprocess.Popen(command)
        note(kind, child.pid, python=command is not SLEEP)
        yield kind, child
    child = subprocess.Popen("%s & wait" % " ".join(SLEEP), shell=True)
    note("shell", child.pid, python=False)
    yield "shell", child


def processes():
    """What multiprocessing starts: (kind, Process)."""
    import multiprocessing

    methods = ["fork", "spawn"] if hasattr(multiprocessing, "get_context") else [None]
    for method in methods:
        context = multiprocessing.get_context(method) if method else multiprocessing
        child = context.Process(target=busy_multiprocessing, args=(SECONDS,))
        child.start()
        kind = "multiprocessing_%s" % (method or "fork")
        note(kind, child.pid)
        yield kind, child


def main():
    sys.stdout.write(json.dumps({"pid": os.getpid()}) + "\n")
    sys.stdout.flush()
    forked, popened, processed = list(forks()), list(subprocesses()), list(processes())
    for kind, pid in forked:
        if os.waitpid(pid, 0)[1] != 0:
            failed.append(kind)
    for kind, child in popened:
        if child.wait() != 0:
            failed.append(kind)
    for kind, child in processed:
        child.join()
        if child.exitcode != 0:
            failed.append(kind)
    sys.stdout.write(json.dumps({"tree": tree, "failed": failed}) + "\n")


if __name__ == "__main__":  # multiprocessing imports this file anew
    main()
