#!/usr/bin/python3
"""Runs ctest; says each minute what is still running, and before ctest's closing lines how long each part took.

    scripts/run-ctest.py [--part NAME=SECONDS]... -- CTEST_OPTIONS

Exit status: ctest's.
"""
import argparse
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

EVERY_SECONDS = 60
STARTED = re.compile(r"^\s*Start\s+\d+: (\S+)")
ENDED = re.compile(r"^\s*\d+/\d+ Test\s+#\d+: (\S+) .*?([\d.]+) sec$")
CLOSING = re.compile(r"^\d+% tests passed")


class Progress:
    def __init__(self):
        self._running, self._lock, self._done = {}, threading.Lock(), threading.Event()
        self.seconds = {}

    def read(self, line):
        with self._lock:
            if started := STARTED.match(line):
                self._running[started[1]] = time.monotonic()
            elif ended := ENDED.match(line):
                self._running.pop(ended[1], None)
                self.seconds[ended[1]] = float(ended[2])

    def print_each_minute(self):
        while not self._done.wait(EVERY_SECONDS):
            with self._lock:
                now = time.monotonic()
                running = [f"{name} for {now - since:.0f} s" for name, since in self._running.items()]
            if running:
                print(f"      still running: {', '.join(running)}", flush=True)

    def stop(self):
        self._done.set()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", action="append", default=[], metavar="NAME=SECONDS", help="what ran before, for the list")
    parser.add_argument("ctest", nargs="*")
    options = parser.parse_args()

    progress, closing = Progress(), []
    threading.Thread(target=progress.print_each_minute, daemon=True).start()
    with subprocess.Popen(["ctest", *options.ctest], stdout=subprocess.PIPE, text=True, errors="replace") as ctest:
        for line in ctest.stdout:
            progress.read(line)
            if closing or CLOSING.match(line):
                closing.append(line)
            else:
                print(line, end="", flush=True)
    progress.stop()

    print("Seconds of each part:")
    for name, seconds in [*(part.split("=") for part in options.part), *progress.seconds.items()]:
        print(f"  {name:20} {float(seconds):7.0f}")
    # Written by tests/unit/run.py and tests/system/run.py.
    if tests := "".join(path.read_text() for path in sorted(Path("build").glob("*_unsteady.txt"))):
        print(f"Unsteady, since they failed and then passed when repeated:\n{tests}", end="")
    print()
    print("".join(closing), end="", flush=True)
    return ctest.returncode


if __name__ == "__main__":
    sys.exit(main())
