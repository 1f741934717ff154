// The texts of fix_sketch.cc for items that workers read, by what the items are. As in fix_sketch_texts.h a reader
// replaces load(), and numpy and the like are imported where a sketch uses them first.
#ifndef COWPROF_MODEL_JUDGE_ITEM_SKETCH_TEXTS_H_
#define COWPROF_MODEL_JUDGE_ITEM_SKETCH_TEXTS_H_

#include "model/judge/fix_sketch.h"

namespace cowprof::sketches {

// Items that workers read: works for all that can be pickled.
inline constexpr char kPacked[] = R"py(

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
)py";
inline constexpr char kUsePacked[] = R"py(

items = Packed(load())
)py";

// For a dict that is read by its keys.
inline constexpr char kPackedDict[] = R"py(

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
)py";

// Faster variants. They raise when made of items that would come back different.
inline constexpr char kColumn[] = R"py(

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
)py";
inline constexpr char kColumnOfItems[] = R"py(
        self.values = column(items)
    def __len__(self):
        return len(self.values)
    def __getitem__(self, i):
        return self.values[i].item()
)py";
inline constexpr char kColumnPerKey[] = R"py(
        self.keys = list(items[0])
        for item in items:
            if type(item) is not dict or not item or list(item) != self.keys or {*map(type, item)} != {str}:
                raise TypeError("not dicts with the same keys: use Packed")
        self.columns = [column([item[key] for item in items]) for key in self.keys]
    def __len__(self):
        return len(self.columns[0])
    def __getitem__(self, i):
        return {key: values[i].item() for key, values in zip(self.keys, self.columns)}
)py";
inline constexpr char kColumnPerPosition[] = R"py(
        for item in items:
            if type(item) is not tuple or not item or len(item) != len(items[0]):
                raise TypeError("not tuples of the same length: use Packed")
        self.columns = [column(values) for values in zip(*items)]
    def __len__(self):
        return len(self.columns[0])
    def __getitem__(self, i):
        return tuple(values[i].item() for values in self.columns)
)py";
inline constexpr char kColumnOfAllLists[] = R"py(
        if {type(item) for item in items} != {list}:
            raise TypeError("not lists: use Packed")
        self.values = column([value for item in items for value in item])
        self.ends = numpy.cumsum([0] + [len(item) for item in items])
    def __len__(self):
        return len(self.ends) - 1
    def __getitem__(self, i):
        i = range(len(self))[i]
        return self.values[self.ends[i]:self.ends[i + 1]].tolist()
)py";
inline constexpr char kUseColumns[] = R"py(

items = Columns(load())
)py";
inline constexpr char kStackedArrays[] = R"py(

# faster, when all arrays have one shape and one dtype: one array (not dtype=object)
class Stacked:
    def __init__(self, items):
        self.array = numpy.stack(items)
        kinds = {(type(item), item.dtype, item.shape) for item in items}
        if kinds != {(numpy.ndarray, self.array.dtype, self.array.shape[1:])} or self.array.dtype.hasobject:
            raise TypeError(f"{kinds}: use Packed")
    def __len__(self):
        return len(self.array)
    def __getitem__(self, i):
        return self.array[i, ...]

items = Stacked(load())
)py";

inline constexpr char kPackedTensors[] = R"py(

# after: all numbers in one tensor, the shapes and ends of the small ones in two more
import ctypes, torch

class Packed:
    def __init__(self, items):
        for item in items:
            if type(item) is not torch.Tensor or item.dtype != items[0].dtype or item.requires_grad:
                raise TypeError("not tensors of one dtype, without gradients")
        self.numbers = torch.cat([item.flatten() for item in items])
        self.shapes = torch.tensor([item.shape for item in items], dtype=torch.int64)
        self.ends = torch.tensor([0] + [item.numel() for item in items]).cumsum(0)
    def __len__(self):
        return len(self.shapes)
    def __getitem__(self, i):
        i = range(len(self))[i]
        if isinstance(i, range):  # items[2:5]
            return [self[k] for k in i]
        item = self.numbers[self.ends[i]:self.ends[i + 1]].reshape(self.shapes[i].tolist())
        return item.clone()  # a view would send all numbers to the trainer

items = Packed(load())
ctypes.CDLL(None).malloc_trim(0)  # glibc: or workers would copy the freed memory of the small ones
)py";
inline constexpr char kStackedTensors[] = R"py(

# faster, when all tensors have one shape and one dtype: one tensor
class Stacked:
    def __init__(self, items):
        for item in items:
            if type(item) is not torch.Tensor or item.dtype != items[0].dtype or item.requires_grad:
                raise TypeError("not tensors of one dtype, without gradients")
        self.tensor = torch.stack(items)
    def __len__(self):
        return len(self.tensor)
    def __getitem__(self, i):
        return self.tensor[i].clone()

items = Stacked(load())
ctypes.CDLL(None).malloc_trim(0)  # glibc: or workers would copy the freed memory of the small ones
)py";

inline constexpr char kRows[] = R"py(

class Rows:
    def __init__(self, frame):
        self.columns = {}
        for name in frame:
            values = frame[name]
            if isinstance(values.dtype, numpy.dtype) and values.dtype.kind in "biuf":
                self.columns[name] = values.to_numpy()
            else:
                self.columns[name] = Packed(values.iloc[i] for i in range(len(values)))
        self.length = len(frame)
    def __len__(self):
        return self.length
    def __getitem__(self, i):
        i = range(self.length)[i]
        return {name: values[i] for name, values in self.columns.items()}

items = Rows(load())  # items[i]["text"] instead of items.iloc[i]["text"]
)py";

struct ItemSketch {
  Container container;
  const char* before;
  const char* after[5];
};

inline constexpr ItemSketch kItems[] = {
    {Container::kAny, "Python objects", {kPacked, kUsePacked}},
    {Container::kStrings, "one str per item", {kPacked, kUsePacked, kColumn, kColumnOfItems, kUseColumns}},
    {Container::kNumbers, "one object per number", {kPacked, kUsePacked, kColumn, kColumnOfItems, kUseColumns}},
    {Container::kBytes, "one bytes object per item", {kPacked, kUsePacked}},
    {Container::kDicts, "one dict per item", {kPacked, kUsePacked, kColumn, kColumnPerKey, kUseColumns}},
    {Container::kTuples, "one tuple per item", {kPacked, kUsePacked, kColumn, kColumnPerPosition, kUseColumns}},
    {Container::kLists, "one list per item", {kPacked, kUsePacked, kColumn, kColumnOfAllLists, kUseColumns}},
    {Container::kNested, "containers in containers", {kPacked, kUsePacked}},
    {Container::kObjects, "one object per item", {kPacked, kUsePacked}},
    {Container::kArrays, "one array per item", {kPacked, kUsePacked, kStackedArrays}},
    {Container::kObjectArray, "an array with dtype=object is an array of references", {kPacked, kUsePacked}},
    {Container::kDataFrame, "a column with dtype=object is an array of references", {kPacked, kRows}},
};

}  // namespace cowprof::sketches

#endif  // COWPROF_MODEL_JUDGE_ITEM_SKETCH_TEXTS_H_
