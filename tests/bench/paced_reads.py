#!/usr/bin/python3
"""Forked Python workers that read objects at a steady rate, one object a page, so that each read copies a page by its reference count.

    paced_reads.py [--workers 2] [--rate 10000] [--pages 65536] [--mappings 0] [--spin]

Prints {"role": "ready"} with the line that copies once its workers run, and for every line on stdin what they have done so far:
seconds, reads, and the units of other work that --spin does between the reads. A worker that has read everything is replaced by a
new one. Ends with stdin.
"""
import argparse
import ctypes
import gc
import json
import mmap
import os
import selectors
import signal
import sys
import time

OBJECT = 4039  # letters: with its header and that of malloc a page
STRIDE = 7919  # a prime: consecutive reads are far apart
SLOT = 0.1     # seconds between two turns of a worker


def make_mappings(count):
    """Mappings of a page each that can't be merged: every second page is read-only, the others are written."""
    area = mmap.mmap(-1, max(count, 1) * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    begin = ctypes.addressof(ctypes.c_char.from_buffer(area))
    protect = ctypes.CDLL(None, use_errno=True).mprotect
    protect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    for at in range(count):
        if at % 2 and protect(begin + at * mmap.PAGESIZE, mmap.PAGESIZE, mmap.PROT_READ):
            sys.exit(f"mprotect: {os.strerror(ctypes.get_errno())}")
        if not at % 2:
            area[at * mmap.PAGESIZE] = 1
    return area


def read(data, first, count):
    for at in range(first, first + count):
        data[at * STRIDE % len(data)]  # the line that copies


def spin_until(end, done, slot):
    while time.monotonic() < end:
        sum(range(50))
        done[slot] += 1


def work(data, done, slot, options):
    """Reads all of `data` at the given rate; does not make up for late turns."""
    pause = max(SLOT, 1 / options.rate) if options.rate else 0
    count = max(1, round(options.rate * pause)) if options.rate else 1000
    start = time.monotonic()
    for turn, first in enumerate(range(0, len(data), count)):
        share = min(count, len(data) - first)
        read(data, first, share)
        done[options.workers + slot] += share
        end = start + (turn + 1) * pause
        if options.spin:
            spin_until(end, done, slot)
        else:
            time.sleep(max(0.0, end - time.monotonic()))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--rate", type=float, default=10000, help="reads a second of each worker (0: as many as it can)")
    parser.add_argument("--pages", type=int, default=65536, help="pages of objects that each worker can copy")
    parser.add_argument("--mappings", type=int, default=0, help="further mappings")
    parser.add_argument("--spin", action="store_true", help="other work between the reads instead of sleep")
    options = parser.parse_args()
    gc.disable()
    letter = "x"
    data = [letter * OBJECT for _ in range(options.pages)]
    _kept = make_mappings(options.mappings)
    done = memoryview(mmap.mmap(-1, 16 * options.workers)).cast("Q")  # units of each worker, then reads of each
    finished, finish = os.pipe()
    parent, pids = os.getpid(), {}

    def start(slot):
        pids[slot] = os.fork()
        if pids[slot]:
            return
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: no worker outlives its parent
        if os.getppid() == parent:
            work(data, done, slot, options)
            os.write(finish, slot.to_bytes(4, "little"))
        os._exit(0)

    for slot in range(options.workers):
        start(slot)
    began = time.monotonic()
    line = read.__code__.co_firstlineno + 2
    print(json.dumps({"pid": parent, "role": "ready", "line": line}), flush=True)
    events = selectors.DefaultSelector()
    events.register(sys.stdin, selectors.EVENT_READ)
    events.register(finished, selectors.EVENT_READ)
    while True:
        for key, _ in events.select():
            if key.fileobj == finished:
                slot = int.from_bytes(os.read(finished, 4), "little")
                os.waitpid(pids[slot], 0)
                start(slot)
            elif not os.read(sys.stdin.fileno(), 1):
                return
            else:
                print(json.dumps({"seconds": time.monotonic() - began, "units": sum(done[:options.workers]),
                                  "reads": sum(done[options.workers:])}), flush=True)


if __name__ == "__main__":
    main()
