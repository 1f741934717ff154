"""A program that touches new memory in more places than the recorder has room for, twice each, and then most of it in a new one.

many_places.py prints one line of JSON: the pages that hoard() touched. A place is a stack: which of two calls each level was reached by.
"""
import json
import mmap
import time

LEVELS, PLACES = 11, 1100  # the recorder has room for 1,024 stacks of new memory
TOUCHED, HOARDED = 2100, 51_200  # pages; at least one in 2,046 is sampled
SETTLE, PAUSE = 1.0, 0.004  # seconds: until the recorder knows the program; between places


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


def main():
    area = new_area(TOUCHED)
    time.sleep(SETTLE)
    for number in 2 * [*range(PLACES)]:
        visit(area, LEVELS, number)
        time.sleep(PAUSE)
    held = hoard()
    time.sleep(SETTLE)
    print(json.dumps({"event": "done", "hoarded": HOARDED}), flush=True)
    del held


if __name__ == "__main__":
    main()
