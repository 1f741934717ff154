# before: every item is pickled and sent to a worker through a pipe
with multiprocessing.Pool(4) as pool:
    results = list(pool.map(work, load()))

# after: all items pickled into one array of bytes (not dtype=object, which holds references)
import numpy, pickle

class Packed:
    def __init__(self, items):
        if isinstance(items, (dict, set, frozenset)):
            raise TypeError("Packed counts from 0: pack list(items.values()), sort the keys")
        buffer, ends = bytearray(), [0]
        for item in items:
            buffer += pickle.dumps(item)
            ends.append(len(buffer))
        self.buffer = numpy.frombuffer(buffer, numpy.uint8)
        self.ends = numpy.array(ends, numpy.int64)
    def __len__(self):
        return len(self.ends) - 1
    def __getitem__(self, i):
        i = range(len(self))[i]  # checks i; -1 is the last, and a slice becomes a range
        if isinstance(i, range):
            return [self[k] for k in i]
        return pickle.loads(self.buffer[self.ends[i]:self.ends[i + 1]])

ITEMS = Packed(load())  # a global, made before the workers are forked; spawned ones load it again: map a file there

def work_on(i):  # only an index is sent
    return work(ITEMS[i])

with multiprocessing.Pool(4) as pool:
    results = list(pool.map(work_on, range(len(ITEMS))))
