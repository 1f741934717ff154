"""Forks a worker that reads a list of strings, and says on how many pages it writes reference counts: each is one copy.

    workload.py            at once
    workload.py --wait     forks when a line comes in on stdin

Runs under CPython 3.6 and later.
"""
import gc
import json
import os
import sys
import time

STRINGS = 40000  # of 350 bytes


def read(strings):
    total = 0
    for text in strings:
        total += len(text)
    return total


def main():
    gc.disable()
    strings = [str(number).zfill(300) for number in range(STRINGS)]
    # A string's count is its first word.
    print(json.dumps({"pid": os.getpid(), "pages": len({id(text) >> 12 for text in strings})}), flush=True)
    if "--wait" in sys.argv:
        sys.stdin.readline()
    else:
        time.sleep(0.5)  # cowprof may be late on a busy machine
    child = os.fork()
    if child == 0:
        read(strings)
        time.sleep(0.5)
        os._exit(0)
    os.waitpid(child, 0)


main()
