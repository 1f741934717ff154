"""A parent and workers that slowly read the parent's data until stdin ends: steady_readers.py [WORKERS].

Reading copies pages (reference counts), so the recording grows steadily and ends when the test wants it to. Prints
{"event": "ready"} with the workers' pids once they run. The name of the reading function has wide characters.
"""
import json
import os
import signal
import sys
import time

DATA = [f"string number {number}" for number in range(300_000)]
STEP, PAUSE = 400, 0.02


def 読む(start):
    for text in DATA[start:start + STEP]:
        text


def work(parent):
    start = 0
    while os.getppid() == parent:  # no worker outlives a killed parent
        読む(start)
        start = (start + STEP) % len(DATA)
        time.sleep(PAUSE)


def main():
    pids = []
    parent = os.getpid()
    for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 2):
        pids.append(os.fork())
        if pids[-1] == 0:
            sys.stdin.close()
            work(parent)
            os._exit(0)
    print(json.dumps({"event": "ready", "workers": pids}), flush=True)
    sys.stdin.read()
    for pid in pids:
        os.kill(pid, signal.SIGTERM)
        os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
