"""A prefork program for PyPy: verdict_pypy.py KIND. verdict_cases.py holds what is true of each.

Prints "ready" once the rows are there, waits for a line, and forks 4 workers, each of which reads every fourth row, makes new ones
until a major collection would be due, and prints "worked". KIND: "collects"; "frozen": the parent has collected, and the workers do
not.
"""
import gc
import json
import os
import sys
import time


def say(event):
    os.write(1, (json.dumps({"event": event, "pid": os.getpid()}) + "\n").encode())


rows = [{"id": i, "text": "row %d" % i, "value": i / 2} for i in range(300_000)]
if sys.argv[1] == "frozen":
    gc.collect()
    gc.disable()  # in the workers, too
say("ready")
sys.stdin.readline()
for worker in range(4):
    if os.fork() == 0:
        length = sum(len(rows[i]["text"]) for i in range(worker, len(rows), 4))
        for _ in range(20):
            new = [[i] for i in range(100_000)]
        say("worked")
        time.sleep(1000)
sys.stdin.readline()
