# before: one dict per item; reading writes reference counts
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

items = Packed(load())

# faster, when every value is one number or one short string: arrays of them (not dtype=object)
def column(values):
    kinds = {type(value) for value in values}
    if kinds not in ({bool}, {int}, {float}, {str}):
        raise TypeError(f"{kinds}: use Packed")
    if kinds == {str} and any(len(value) > 50 or value.endswith("\0") for value in values):
        raise ValueError("a long string, or NUL at its end: use Packed")
    return numpy.array(values, kinds.pop())

class Columns:
    def __init__(self, items):
        self.keys = list(items[0])
        for item in items:
            if type(item) is not dict or not item or list(item) != self.keys or {*map(type, item)} != {str}:
                raise TypeError("not dicts with the same keys: use Packed")
        self.columns = [column([item[key] for item in items]) for key in self.keys]
    def __len__(self):
        return len(self.columns[0])
    def __getitem__(self, i):
        return {key: values[i].item() for key, values in zip(self.keys, self.columns)}

items = Columns(load())
