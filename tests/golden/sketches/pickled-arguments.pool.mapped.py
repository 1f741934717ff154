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

class Mapped(Packed):  # pickled as its path; all processes share the pages of the files
    def __init__(self, path):
        self.path = path
        self.buffer = numpy.load(path + ".buffer.npy", mmap_mode="r")
        self.ends = numpy.load(path + ".ends.npy", mmap_mode="r")
    def __reduce__(self):
        return Mapped, (self.path,)

import functools

@functools.lru_cache(maxsize=None)
def mapped():  # once in each worker
    return Mapped("items")

def work_on(i):  # only an index is sent
    return work(mapped()[i])

if __name__ == "__main__":  # once, not again in every worker
    packed = Packed(load())
    numpy.save("items.buffer.npy", packed.buffer)
    numpy.save("items.ends.npy", packed.ends)
    items = Mapped("items")
    with multiprocessing.Pool(4) as pool:
        results = list(pool.map(work_on, range(len(items))))
