"""Asks a server on this machine again and again, by four threads: load.py PORT SECONDS PATH...

Writes {"requests": how many were answered in a second, "p50_ms", "p99_ms"}.
"""

from __future__ import annotations

import http.client
import json
import sys
import threading
import time
from statistics import quantiles

port, seconds, paths = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]
took: list[float] = []


def ask(end: float) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    number = 0
    while (before := time.monotonic()) < end:
        connection.request("GET", paths[number % len(paths)])
        assert connection.getresponse().read()
        took.append(time.monotonic() - before)
        number += 1


start = time.monotonic()
threads = [threading.Thread(target=ask, args=(start + seconds,)) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
hundredths = quantiles(took, n=100)
told = {
    "requests": len(took) / (time.monotonic() - start),
    "p50_ms": hundredths[49] * 1e3,
    "p99_ms": hundredths[98] * 1e3,
}
print(json.dumps(told))
