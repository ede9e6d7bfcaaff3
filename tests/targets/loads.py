"""Shared libraries, each loaded and called at once, each by what the one before it has called: loads.py FOLDER DEPTH ROUNDS

They are copies of one that calls back (loads.c), DEPTH new ones in each round. Python 2.7 and 3.
"""
import ctypes
import json
import os
import shutil
import sys
import time

FOLDER, DEPTH, ROUNDS = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
CALL = ctypes.CFUNCTYPE(None, ctypes.c_int)
loaded = []
cpu_time = getattr(time, "process_time", None) or time.clock  # however busy the machine is


def step(depth):
    end = cpu_time() + 0.003
    while cpu_time() < end:
        pass
    if depth < DEPTH:
        path = os.path.join(FOLDER, "load-%d-%d.so" % (len(loaded), depth))
        shutil.copy(os.path.join(FOLDER, "load.so"), path)
        library = ctypes.CDLL(path)
        loaded.append(library)
        library.enter(back, depth + 1)


back = CALL(step)
sys.stdout.write(json.dumps({"pid": os.getpid()}) + "\n")
sys.stdout.flush()
sys.stdin.readline()
for _ in range(ROUNDS):
    step(0)
time.sleep(2)  # in which what was met last can be looked at
sys.stdout.write(json.dumps({"done": True}) + "\n")
sys.stdout.flush()
sys.stdin.read()
