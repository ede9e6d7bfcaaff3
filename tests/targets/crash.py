"""stops.py, run in a folder in which a crash may leave its core file. Python 2.7 and 3.

    crash.py FOLDER [OPTIONS OF stops.py ...]
"""
import os
import sys

os.chdir(sys.argv.pop(1))
import stops  # noqa: runs
