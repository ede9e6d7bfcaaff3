"""Imports the modules that lines of stdin name, and answers each line; begins without threading. Runs under 2.7 to 3.15."""

import json
import os
import sys


def tell():
    sys.stdout.write(json.dumps({"pid": os.getpid(), "has_threading": "threading" in sys.modules}) + "\n")
    sys.stdout.flush()


tell()
for line in iter(sys.stdin.readline, ""):
    __import__(line.strip())
    tell()
