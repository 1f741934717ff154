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
    data = received = shared = number = None


def receive(items):
    Kept.received = items
    time.sleep(0.5)  # so that each worker gets one
    return anonymous_bytes()


def forked(work, later=None):
    """Forks workers that do their work, and end with their parent; returns when all have done it. What it returns has them do more."""
    (begin, end), (go, start) = os.pipe(), os.pipe()

    def await_all():
        for _ in range(WORKERS):
            os.read(begin, 1)

    def more():
        os.write(start, b"." * WORKERS)
        await_all()

    for Kept.number in range(WORKERS):
        if os.fork() == 0:
            work()
            os.write(end, b".")
            if later:
                os.close(start)
                os.read(go, 1)
                later()
                os.write(end, b".")
            while os.getppid() != 1:
                time.sleep(0.1)
            os._exit(0)
    await_all()
    return more


def copied():
    write(Kept.data, BYTES)


def new():
    Kept.received = write(area(BYTES), BYTES)


def both():
    copied()
    new()


def write_shared(part):
    """Pages that no other process touches, but which are not private."""
    begin = (2 * Kept.number + part) * BYTES // 2
    for at in range(begin, begin + BYTES // 2, PAGE):
        Kept.shared[at] = 1


def share():
    """The parent fills a mapping, the workers one that they inherited: half of it before the attach, half after it."""
    Kept.received, Kept.shared = write(mmap.mmap(-1, BYTES), BYTES), mmap.mmap(-1, WORKERS * BYTES)
    more = forked(lambda: write_shared(0), later=lambda: write_shared(1))
    say("ready")
    wait_for_go()
    more()
    say("placed")
    wait_for_go()


def main():
    if KIND == "shared":
        share()
        return
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
