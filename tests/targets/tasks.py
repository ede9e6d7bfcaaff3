"""Does three tasks again and again, one of them FACTOR times as long; tells the CPU seconds that each took.

Usage: tasks.py ROUNDS FACTOR
"""
import json
import sys
import time


def parse(count):
    return sum([i * i for i in range(count)])


def render(count):
    return len(",".join([str(i) for i in range(count)]))


def store(count):
    return len({i: str(i) for i in range(count)})


def main(rounds, factor):
    spent = {"parse": 0.0, "render": 0.0, "store": 0.0}
    for _ in range(rounds):
        for task, count in ((parse, 20000), (render, 6000 * factor), (store, 6000)):
            start = time.process_time()
            task(count)
            spent[task.__name__] += time.process_time() - start
    print(json.dumps(spent))


main(int(sys.argv[1]), int(sys.argv[2]))
