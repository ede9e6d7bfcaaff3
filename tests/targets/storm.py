"""A storm of short calls whose every legal stack is decidable: the call tree of storm_tree.py, run over and over.

    storm.py SECONDS [THREADS]

THREADS of them storm at once (default 1: the main thread only). At the end the main thread writes, as JSON, how many
turns of the tree it made ("turns", of some 900 calls each) in how much CPU time of the process ("cpu_s"). Python 2.7
and 3.
"""
import json
import os
import sys
import threading
import time

import storm_tree

THREADS = int(sys.argv[2]) if len(sys.argv) > 2 else 1
TREE = {}
exec(compile(storm_tree.build().source(), "storm_tree_source.py", "exec"), TREE)


def cpu_s():
    return sum(os.times()[:2])


def storm():
    turns = 0
    while time.time() < END:
        TREE["root"](1000)
        turns += 1000
    return turns


END = time.time() + float(sys.argv[1])
for number in range(1, THREADS):
    storms = threading.Thread(target=storm, name="storm-%d" % number)
    storms.daemon = True
    storms.start()
sys.stdout.write(json.dumps({"pid": os.getpid()}) + "\n")
sys.stdout.flush()
started = cpu_s()
turns = storm()
sys.stdout.write(json.dumps({"turns": turns, "cpu_s": cpu_s() - started}) + "\n")
sys.stdout.flush()
os._exit(0)
