"""Threads that compete for the GIL: contenders.py

Each runs a function of its own, of which a part is C code that lets go of the GIL: the more, the higher its number. The
first line on stdout is {"pid": its own, "threads": {function: the kernel's number of its thread}}. Runs until it is
killed.
"""

from __future__ import annotations

import json
import os
import threading
import zlib  # noqa: F401  (for SOURCE)

CONTENDERS = 8
BUFFER = b"weft" * 50_000
SOURCE = """
def contender_{0}():
    while True:
        for i in range(3000):
            i * i
        zlib.crc32(BUFFER[:{0} * 25_000])
"""

names = [f"contender_{number}" for number in range(CONTENDERS)]
for number in range(CONTENDERS):
    exec(SOURCE.format(number))
threads = [threading.Thread(target=globals()[name], name=name) for name in names]
for thread in threads:
    thread.start()
told = {"pid": os.getpid(), "threads": {thread.name: thread.native_id for thread in threads}}
print(json.dumps(told), flush=True)
