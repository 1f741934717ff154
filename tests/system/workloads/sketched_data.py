#!/usr/bin/python3
"""Makes a data set of one kind of item with the class `Data` from a file, forks a worker, and lets it read every item.

    sketched_data.py CODE.py KIND ITEMS

test_fix_sketch.py compares the class before and after the fix that cowprof sketches. Prints a checksum of what the worker read.
"""
import os
import pickle
import sys
import zlib
from types import SimpleNamespace

import numpy


class Item:
    def __init__(self, number):
        self.number, self.text = number, f"item {number}"


MAKE = {
    "Strings": lambda i: f"item {i} of a data set of strings " * 3,
    "Numbers": lambda i: i * 1.5,
    "Dicts": lambda i: {"id": i, "text": f"item {i}", "score": i / 7},
    "Tuples": lambda i: (i + 1000, f"item {i}", i / 7),
    "Lists": lambda i: [i + 1000, i + 2000, i + 3000, i + 4000],
    "Objects": Item,
    "Arrays": lambda i: numpy.array([i, i + 0.5, i + 1]),
    "Any": lambda i: ({"numbers": [i + 1000, i + 2000]}, f"item {i}"),
}


def plain(value):
    """The value of an item, so that a rebuilt object with the same attributes compares equal."""
    if isinstance(value, (Item, SimpleNamespace)):
        return value.number, value.text
    return value.tolist() if isinstance(value, numpy.ndarray) else value


def main():
    path, kind, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    names = {"numpy": numpy, "pickle": pickle, "SimpleNamespace": SimpleNamespace, "Dataset": object}
    with open(path, encoding="utf-8") as code:
        exec(compile(code.read(), path, "exec"), names)  # pylint: disable=exec-used
    data = names["Data"]([MAKE[kind](i) for i in range(count)])
    worker = os.fork()
    if worker == 0:
        read = 0
        for i in range(count):
            read = zlib.crc32(repr(plain(data[i])).encode(), read)
        print(f'{{"read": {read}}}', flush=True)
        os._exit(0)
    os.waitpid(worker, 0)


if __name__ == "__main__":
    main()
