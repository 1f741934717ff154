"""train.py with all texts pickled into one buffer: reading them writes no reference count of theirs."""
import pickle
import sys

import numpy

from train import Texts, load, train


class Packed:
    def __init__(self, items):
        buffer, ends = bytearray(), [0]
        for item in items:
            buffer += pickle.dumps(item)
            ends.append(len(buffer))
        self.buffer = numpy.frombuffer(buffer, numpy.uint8)
        self.ends = numpy.array(ends, numpy.int64)

    def __len__(self):
        return len(self.ends) - 1

    def __getitem__(self, i):
        i = range(len(self))[i]  # checks i; -1 is the last
        return pickle.loads(self.buffer[self.ends[i]:self.ends[i + 1]])


if __name__ == "__main__":
    train(Texts(Packed(load())), epochs=int(sys.argv[1]))
