"""A program that lives by signals, and whose result shows whether one was lost: signals.py SECONDS

It has a timer of 1 kHz (SIGALRM), a helper that stops and continues it (SIGSTOP, SIGCONT) 50 times a second, short
children whose ends come as SIGCHLD, and a peer that sends a counted number of SIGUSR1, waiting for the answer to each.
Meanwhile it computes, and blocks in reads that signals interrupt. The last line on stdout is {"ticks", "continued",
"children", "usr1", "usr1_sent", "checksum_ok"}; its exit status is 0 if all that can be checked from inside holds.
Python 2.7 and 3.
"""
import errno
import json
import os
import signal
import sys
import time
import zlib

DATA = b"the quick brown fox" * 1000
ME = os.getpid()
CHECKSUM = zlib.crc32(DATA) & 0xFFFFFFFF
# A handler can run inside of another one, between the reading and the writing of a counter: only append is one step.
seen = {"ticks": [], "continued": [], "children": [], "usr1": []}


def on_tick(_number, _frame):
    seen["ticks"].append(1)


def on_continue(_number, _frame):
    seen["continued"].append(1)


def on_child(_number, _frame):
    """One SIGCHLD can stand for many children: reap all of them."""
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except OSError:
            return
        if pid == 0:
            return
        if status == 7 << 8:
            seen["children"].append(1)


def on_usr1(_number, _frame):
    if os.getpid() == ME:  # not in a child that was forked between the signal and its handler
        seen["usr1"].append(1)
        os.write(ANSWER, b"!")


def fork(body, *arguments):
    """Run a function in a child, which has none of this process's handlers."""
    pid = os.fork()
    if pid:
        return pid
    try:
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number in (signal.SIGALRM, signal.SIGCHLD, signal.SIGCONT, signal.SIGUSR1):
            signal.signal(number, signal.SIG_DFL)
        os._exit(body(*arguments))
    finally:
        os._exit(1)


def stop_and_continue(parent, end):
    while time.time() < end:
        os.kill(parent, signal.SIGSTOP)
        time.sleep(0.002)
        os.kill(parent, signal.SIGCONT)
        time.sleep(0.018)
    return 0


def send_usr1(parent, end, report, answers):
    """Send the next one only when the last was answered, so that none may be merged with another."""
    os.close(ANSWER)  # so that a read ends when the parent does
    sent = 0
    while time.time() < end:
        os.kill(parent, signal.SIGUSR1)
        sent += 1
        if not os.read(answers, 1):
            return 1
        time.sleep(0.0005)  # handlers that run inside of one another would fill the stack
    os.write(report, b"%d\n" % sent)
    return 0


def read_all(descriptor):
    data = b""
    while not data.endswith(b"\n"):
        try:
            data += os.read(descriptor, 100)
        except OSError as error:  # 2.7; from 3.5 on the interpreter goes on by itself
            if error.errno != errno.EINTR:
                raise
    return data


def main():
    global ANSWER
    end = time.time() + float(sys.argv[1])
    answers, ANSWER = os.pipe()
    report_read, report = os.pipe()
    for number, handler in [
        (signal.SIGALRM, on_tick), (signal.SIGCONT, on_continue), (signal.SIGCHLD, on_child), (signal.SIGUSR1, on_usr1)
    ]:
        signal.signal(number, handler)
    sys.stdout.write(json.dumps({"pid": ME}) + "\n")
    sys.stdout.flush()
    fork(stop_and_continue, ME, end)
    fork(send_usr1, ME, end, report, answers)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    started = 0
    checksum_ok = True
    while time.time() < end:
        fork(lambda: 7)
        started += 1
        for _ in range(200):
            checksum_ok = checksum_ok and (zlib.crc32(DATA) & 0xFFFFFFFF) == CHECKSUM
    sent = int(read_all(report_read))
    deadline = time.time() + 10
    while len(seen["children"]) < started and time.time() < deadline:
        time.sleep(0.001)
    signal.setitimer(signal.ITIMER_REAL, 0)
    told = {name: len(times) for name, times in seen.items()}
    told.update(usr1_sent=sent, started=started, checksum_ok=checksum_ok)
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()
    good = checksum_ok and told["children"] == started and told["usr1"] == sent and told["ticks"] > 0
    os._exit(0 if good else 1)


main()
