#!/usr/bin/python3
"""Runs a round for every line on stdin and prints the cost per copied page in nanoseconds: forked children read one Python object per
page, so that almost only the copies are measured. Each child has a second thread, as a DataLoader's worker has to feed its queue.

    python_copies.py [PAGES] [FORKS]
"""
import gc
import json
import os
import sys
import threading
import time


def one_object_per_page(pages):
    """Strings on `pages` different pages, in the order of their addresses."""
    objects = ["x" * 300 + str(number) for number in range(12 * pages)]
    first = {id(one) >> 12: one for one in objects}
    return objects, [first[page] for page in sorted(first)[:pages]]


def time_child(picked, pipe):
    if os.fork():
        os.wait()
        return int(os.read(pipe[0], 32))
    threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()
    start = time.thread_time_ns()
    for _ in picked:
        pass
    os.write(pipe[1], b"%d" % (time.thread_time_ns() - start))
    os._exit(0)


def main():
    pages = int(sys.argv[1]) if len(sys.argv) > 1 else 50000
    forks = int(sys.argv[2]) if len(sys.argv) > 2 else 4
    gc.disable()
    _objects, picked = one_object_per_page(pages)
    pipe = os.pipe()
    print(json.dumps({"pid": os.getpid(), "role": "ready"}), flush=True)
    for _line in sys.stdin:
        nanoseconds = sum(time_child(picked, pipe) for _ in range(forks))
        print(json.dumps({"ns_per_page": nanoseconds / len(picked) / forks}), flush=True)


if __name__ == "__main__":
    main()
