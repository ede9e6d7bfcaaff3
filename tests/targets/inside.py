"""Computes in a subinterpreter: `inside.py ROUTE`. Runs on every version that can make one.

  own    the main thread makes it and enters it, in `around`
  later  the same, after it has computed in `before` until stdin closes
  other  the main thread makes it, and another thread enters it, in `around`

The first line on stdout is {}, or {"missing": true} where this build makes none. Ends after a while.
"""
import json
import select
import sys
import threading

import stops_py3

CODE = """
import time
def inside():
    end = time.time() + 200
    while time.time() < end:
        sum(range(1000))
inside()
"""


def around(run):
    run()


def before():
    while not select.select([sys.stdin], [], [], 0)[0]:
        sum(range(1000))


module = stops_py3.subinterpreters()
print(json.dumps({} if module else {"missing": True}))
sys.stdout.flush()
if module:
    if sys.argv[1] == "later":
        before()
    run = stops_py3.in_subinterpreter(module, CODE)
    if sys.argv[1] != "other":
        around(run)
    else:
        thread = threading.Thread(target=around, args=(run,))
        thread.start()
        thread.join()
