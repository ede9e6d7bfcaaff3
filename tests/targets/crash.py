"""stops.py, run in a folder in which a crash may leave its core file. Python 2.7 and 3.

    crash.py FOLDER [OPTIONS OF stops.py ...]
"""
import os
import sys

os.chdir(sys.argv.pop(1))
path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stops.py")
with open(path, "rb") as file:
    # Not by import: in 2.7 that holds a lock which the threads need.
    exec(compile(file.read(), path, "exec"))
