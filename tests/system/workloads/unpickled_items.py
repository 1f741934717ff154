"""A data set of items of one kind, which two forked workers read; or how long unpickling one of its items takes.

usage: unpickled_items.py KIND [measure]. measure: no workers; prints the CPU seconds of pickle.loads for an item: the median of
several passes over items that were drawn from all.
"""
import array
import collections
import datetime
import decimal
import gc
import json
import multiprocessing
import pickle
import random
import statistics
import sys
import time

ITEMS, DRAWN, PASSES = 60_000, 2000, 9
SECONDS = 6  # reading what the workers would be sent takes a part of that
Point = collections.namedtuple("Point", "x y label")


class Record:
    def __init__(self, i):
        self.number, self.name, self.score = i + 1000, "name %d" % i, i / 7


class Slotted:
    __slots__ = ("number", "name")

    def __init__(self, i):
        self.number, self.name = i + 1000, "name %d" % i


class Written:
    """Whose author decides how it is unpickled."""

    def __init__(self, i):
        self.i = [i + 1000]

    def __reduce__(self):
        return Written, (self.i[0],)


def numpy_array(i):
    import numpy
    return numpy.full(16, i, "f4")


MAKE = {
    "dicts": lambda i: {"id": i + 1000, "caption": "caption number %d" % i, "file": "/data/images/%08d.jpg" % i, "split": "part%d" % i, "label": i + 300},
    "tuples": lambda i: tuple(range(i * 8 + 1000, i * 8 + 1008)),
    "texts": lambda i: ("%08d" % i) * 375,
    "numbers": lambda i: i + 1000,
    "words": lambda i: "word%d" % i,
    "wide": lambda i: "größe %d, naïve café " % i * 4,
    "floats": lambda i: [i + j / 7 for j in range(20)],
    "nested": lambda i: {"id": i + 1000, "boxes": [{"x": i + 0.5, "y": i + 0.25, "tags": ["a%d" % i, "b"]} for _ in range(5)], "size": (i + 300, 480)},
    "records": Record,
    "slots": Slotted,
    "points": lambda i: Point(i + 300, i + 0.5, "label%d" % i),
    "dates": lambda i: {"id": i + 1000, "day": datetime.date.fromordinal(i + 1), "price": decimal.Decimal(i)},
    "ordered": lambda i: collections.OrderedDict((("id", i + 1000), ("name", "name %d" % i))),
    "sets": lambda i: {i + 1000, i + 2000, "name %d" % i},
    "bytes": lambda i: b"%08d" % i * 500,
    "mixed": lambda i: "word%d" % i if i % 2 else {"id": i + 1000, "name": "name %d" % i},
    "arrays": lambda i: array.array("d", [i, 1, 2]),
    "numpy": numpy_array,
    "written": Written,
}


class Dataset:
    def __init__(self, kind):
        self.items = [MAKE[kind](i) for i in range(ITEMS)]


def read(value):
    """As a program does that uses it: by reference."""
    if isinstance(value, dict):
        for inner in value.values():
            read(inner)
    elif isinstance(value, (list, tuple, set)):
        for inner in value:
            read(inner)
    elif hasattr(value, "__dict__"):
        read(vars(value))


def work(dataset):
    for item in dataset.items:
        read(item)
    time.sleep(SECONDS)


def measure(items):
    pickles = [pickle.dumps(item) for item in random.Random(1).sample(items, DRAWN)]
    passes = []
    for _ in range(PASSES):
        begin = time.process_time()
        for one in pickles:
            pickle.loads(one)
        passes.append((time.process_time() - begin) / DRAWN)
    return statistics.median(passes)


def main():
    dataset = Dataset(sys.argv[1])
    gc.collect()
    if sys.argv[2:] == ["measure"]:
        print(json.dumps({"seconds": measure(dataset.items)}))
        return
    workers = [multiprocessing.get_context("fork").Process(target=work, args=(dataset,)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


if __name__ == "__main__":
    main()
