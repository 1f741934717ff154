"""Workers with memory of known kinds and sizes: peak_parts.py KIND MIB.

Prints "ready" once the data is there, "placed" once the workers have what KIND says, MIB each, with the bytes that this added to the
anonymous memory of each where nobody could know them before. Waits for a line on stdin at both places.
"""
import json
import mmap
import multiprocessing
import os
import re
import sys
import time

KIND, BYTES = sys.argv[1], int(sys.argv[2]) << 20
WORKERS = 2
PAGE = mmap.PAGESIZE


def say(event, **fields):
    os.write(1, (json.dumps({"event": event, **fields}) + "\n").encode())


def wait_for_go():
    sys.stdin.readline()


def area(size):
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    return memory


def write(memory, size):
    for at in range(0, size, PAGE):
        memory[at] = 1
    return memory


def anonymous_bytes():
    with open("/proc/self/status", encoding="utf-8") as status:
        return int(re.search(r"RssAnon:\s+(\d+)", status.read())[1]) * 1024


class Kept:
    data = received = None


def receive(items):
    Kept.received = items
    time.sleep(0.5)  # so that each worker gets one
    return anonymous_bytes()


def forked(work):
    """Forks workers that do their work, and end with their parent; returns when all have done it."""
    begin, end = os.pipe()
    for _ in range(WORKERS):
        if os.fork() == 0:
            work()
            os.write(end, b".")
            while os.getppid() != 1:
                time.sleep(0.1)
            os._exit(0)
    for _ in range(WORKERS):
        os.read(begin, 1)


def copied():
    write(Kept.data, BYTES)


def new():
    Kept.received = write(area(BYTES), BYTES)


def both():
    copied()
    new()


def main():
    Kept.data = write(area(2 * BYTES), 2 * BYTES)
    if KIND == "pickled":
        items = [str(number).rjust(2000, "x") for number in range(BYTES // 2049)]
        say("ready")
        wait_for_go()
        with multiprocessing.Pool(WORKERS) as pool:
            pool.map(receive, [items] * WORKERS, chunksize=1)
            say("placed")
            wait_for_go()
        return
    if KIND == "before_attach":
        forked(copied)
    say("ready")
    wait_for_go()
    if KIND != "before_attach":
        forked({"copied": copied, "new": new, "both": both}[KIND])
    say("placed")
    wait_for_go()


main()
