# before: a dict of Python objects; looking a key up writes reference counts
items = load()

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

class PackedDict:
    def __init__(self, items):
        keys = sorted(items)
        kinds = {type(key) for key in keys}
        if kinds not in ({int}, {str}):
            raise TypeError(f"{kinds}: keys that are all int or all str are needed")
        if kinds == {str} and any(len(key) > 50 or key.endswith("\0") for key in keys):
            raise ValueError("a long key, or one with NUL at its end")
        self.keys = numpy.array(keys)
        self.values = Packed(items[key] for key in keys)
    def find(self, key):  # -1: it is not there
        try:
            i = int(self.keys.searchsorted(numpy.array(key, self.keys.dtype)))
        except (TypeError, ValueError, OverflowError):
            return -1
        return i if i < len(self.keys) and self.keys[i].item() == key else -1
    def __len__(self):
        return len(self.keys)
    def __contains__(self, key):
        return self.find(key) >= 0
    def __getitem__(self, key):
        i = self.find(key)
        if i < 0:
            raise KeyError(key)
        return self.values[i]
    def get(self, key, default=None):
        i = self.find(key)
        return default if i < 0 else self.values[i]

items = PackedDict(load())
