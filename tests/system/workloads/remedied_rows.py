"""Two workers read all of a parent's rows, which are kept in one of several ways: each is a remedy for another.

usage: remedied_rows.py KIND [METHOD]; KIND: dicts, frozen (the same after gc.freeze()), both of which
collect garbage in the workers; dicts-kept, which does not, buffer, numpy, tensors, stacked.
"""
import array
import ctypes
import gc
import multiprocessing
import pickle
import sys
import time

try:  # all kinds alike: what is imported is copied as well
    import numpy
except ImportError:
    numpy = None
if sys.argv[1:2] in (["tensors"], ["stacked"]):
    import torch

ROWS = 150_000
TENSORS = 150_000


class Buffer:
    """Rows that are pickled one by one into one bytes object."""

    def __init__(self, rows):
        pickled = [pickle.dumps(row) for row in rows]
        self.ends = array.array("Q")
        end = 0
        for one in pickled:
            end += len(one)
            self.ends.append(end)
        self.bytes = b"".join(pickled)

    def __len__(self):
        return len(self.ends)

    def __getitem__(self, i):
        return pickle.loads(self.bytes[self.ends[i - 1] if i else 0:self.ends[i]])


def make(kind):
    if kind in ("tensors", "stacked"):
        tensors = [torch.full((4,), float(i)) for i in range(TENSORS)]
        return torch.stack(tensors) if kind == "stacked" else tensors
    rows = [{"id": i, "words": ["row", i]} for i in range(ROWS)]
    if kind == "numpy":
        return numpy.array([row["id"] for row in rows])
    return Buffer(rows) if kind == "buffer" else rows


def work(kind, rows):
    for i in range(len(rows)):
        row = rows[i]
        if kind in ("tensors", "stacked"):
            row.sum()
    if kind in ("dicts", "frozen"):
        gc.collect()
    time.sleep(1.5)


def main():
    kind, method = sys.argv[1], (sys.argv[2:] or ["fork"])[0]
    rows = make(kind)
    gc.collect()
    if kind == "frozen":
        gc.freeze()
    # What making the rows left free would be copied, too, when workers allocate it.
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    context = multiprocessing.get_context(method)
    workers = [context.Process(target=work, args=(kind, rows)) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    sys.exit(any(worker.exitcode for worker in workers))


if __name__ == "__main__":
    main()
