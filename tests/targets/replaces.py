"""A process that becomes another program in its middle: replaces.py SECONDS WAY

Until its stdin is closed it is busy in `before`; then it replaces itself by exec(2), as WAY says: "main" from the main
thread, "thread" from another one while more of them run, "sleep" by /bin/sleep. What comes is busy in `after` for so
many seconds of its own time, or sleeps for as long, prints {"pid"} and exits with 5. Python 3.
"""
import json
import os
import select
import sys
import threading
import time

SECONDS = float(sys.argv[1])
AFTER = """
import json, os, sys, time
def after(end):
    while time.process_time() < end:
        sum(range(1000))
after(time.process_time() + %r)
sys.stdout.write(json.dumps({"pid": os.getpid()}) + "\\n")
sys.stdout.flush()
os._exit(5)
"""


def before():
    while not select.select([0], [], [], 0)[0]:
        sum(range(1000))


def beside():
    while True:
        sum(range(1000))


def replace(way):
    if way == "sleep":
        os.execv("/bin/sleep", ["/bin/sleep", str(SECONDS)])
    os.execv(sys.executable, [sys.executable, "-c", AFTER % SECONDS])


def main():
    sys.stdout.write(json.dumps({"pid": os.getpid()}) + "\n")
    sys.stdout.flush()
    if sys.argv[2] != "thread":
        before()
        replace(sys.argv[2])
    for _ in range(2):
        other = threading.Thread(target=beside)
        other.daemon = True
        other.start()

    def body():
        before()
        replace("thread")

    threading.Thread(target=body).start()
    time.sleep(1000)


main()
