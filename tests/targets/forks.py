"""A process that is nearly always in the midst of a fork: forks.py SECONDS

It holds much memory, whose page tables each fork has to copy. The first line on stdout is {"pid"}, the last one
{"ended": {PID: when it was seen to have ended}}, in seconds of the system's clock. Each child lives for a second.
Python 3.
"""

import json
import os
import sys
import time

LIFE_S = 1


def main():
    memory = bytearray(400 << 20)
    print(json.dumps({"pid": os.getpid()}), flush=True)
    end = time.time() + float(sys.argv[1])
    ended = {}
    while time.time() < end:
        if os.fork() == 0:
            time.sleep(LIFE_S)
            os._exit(0)
        pid = True
        while pid:
            pid, _ = os.waitpid(-1, os.WNOHANG)
            ended[pid] = time.time()
    del ended[0]
    print(json.dumps({"ended": ended, "bytes": len(memory)}), flush=True)


main()
