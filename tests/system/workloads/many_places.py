"""A program that touches new memory in more places than the recorder has room for, and then most of it in a new one.

many_places.py: each place twice, in one process. many_places.py few: the same with places for which there is room.
many_places.py forks: each place once, in a child that ends soon.
Prints one line of JSON: the pages that hoard() touched. A place is a stack: which of two calls each level was reached by.
"""
import json
import mmap
import os
import sys
import time

LEVELS, PLACES, FEW = 12, 1100, 60  # the recorder has room for 1,024 stacks of new memory
PLACES_OF_CHILD, CHILDREN = 64, 64
TOUCHED, HOARDED = 2100, 51_200  # pages; at least one in 2,046 is sampled
SETTLE, PAUSE = 1.0, 0.004  # seconds: until the recorder knows the program; between places
TOLD = 5.0  # seconds until the recorder has read the names of a new place: after t seconds it reads places about every t / 20


def new_area(pages):
    area = mmap.mmap(-1, pages * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    area.madvise(mmap.MADV_NOHUGEPAGE)
    return area


def visit(area, level, number):
    if level == 0:
        area[::mmap.PAGESIZE] = bytes([1]) * TOUCHED
        area.madvise(mmap.MADV_DONTNEED)
    elif number % 2:
        visit(area, level - 1, number >> 1)
    else:
        visit(area, level - 1, number // 2)


def hoard():
    area = new_area(HOARDED)
    area[::mmap.PAGESIZE] = bytes([1]) * HOARDED
    return area


def visit_each(area, numbers):
    for number in numbers:
        visit(area, LEVELS, number)
        time.sleep(PAUSE)


def visit_in_children(area):
    for first in range(0, CHILDREN * PLACES_OF_CHILD, PLACES_OF_CHILD):
        child = os.fork()
        if child == 0:
            visit_each(area, range(first, first + PLACES_OF_CHILD))
            os._exit(0)
        os.waitpid(child, 0)


def main():
    area = new_area(TOUCHED)
    time.sleep(SETTLE)
    if sys.argv[1:] == ["forks"]:
        visit_in_children(area)
    else:
        visit_each(area, 2 * [*range(FEW if sys.argv[1:] == ["few"] else PLACES)])
    held = hoard()
    time.sleep(TOLD)
    print(json.dumps({"event": "done", "hoarded": HOARDED}), flush=True)
    del held


if __name__ == "__main__":
    main()
