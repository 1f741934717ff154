"""A data set of items of one kind, which two forked workers read; or how long unpickling one of its items takes.

usage: unpickled_items.py KIND [measure]. measure: no workers; prints the CPU seconds of pickle.loads for an item: the median of
several passes over items that were drawn from all.
"""
import collections
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


class Written:
    """Whose author decides how it is unpickled."""

    def __init__(self, i):
        self.numbers = list(range(i * 8 + 1000, i * 8 + 1008))

    def __reduce__(self):
        return Written, ((self.numbers[0] - 1000) // 8,)


MAKE = {
    "dicts": lambda i: {"id": i + 1000, "caption": "caption number %d" % i, "file": "/data/images/%08d.jpg" % i, "split": "part%d" % i, "label": i + 300},
    "tuples": lambda i: tuple(range(i * 8 + 1000, i * 8 + 1008)),
    "texts": lambda i: ("%08d" % i) * 375,
    "floats": lambda i: [i + j / 7 for j in range(20)],
    "nested": lambda i: {"id": i + 1000, "boxes": [{"x": i + 0.5, "y": i + 0.25, "tags": ["a%d" % i, "b"]} for _ in range(5)], "size": (i + 300, 480)},
    "ordered": lambda i: collections.OrderedDict((("id", i + 1000), ("name", "name %d" % i))),
    "sets": lambda i: {i + 1000, i + 2000, "name %d" % i},
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
