"""Asks a server on this machine again and again, by four threads: load.py PORT SECONDS PATH...

Writes {"requests": how many were answered in a second, "p50_ms", "p99_ms"}.
"""

from __future__ import annotations

import http.client
import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from statistics import quantiles

CLIENTS = 4
port, seconds, paths = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]


def ask(end: float) -> list[float]:
    """How long each answer took, in seconds."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    took: list[float] = []
    while (before := time.monotonic()) < end:
        connection.request("GET", paths[len(took) % len(paths)])
        answer = connection.getresponse()
        assert answer.read()
        assert answer.status == http.client.OK, answer.status
        took.append(time.monotonic() - before)
    return took


start = time.monotonic()
with ThreadPoolExecutor(CLIENTS) as pool:
    took = [each for of_one in pool.map(ask, [start + seconds] * CLIENTS) for each in of_one]
requests = len(took) / (time.monotonic() - start)
hundredths = quantiles(took, n=100)
print(json.dumps({"requests": requests, "p50_ms": hundredths[49] * 1e3, "p99_ms": hundredths[98] * 1e3}))
