"""Scenarios of planted_python.py in which a worker only reads: objects, whose reference counts are written, and plain numbers.

The planned truth: a loop takes a reference to each object in order, then each lookup to what it finds.
"""
import array
import collections
import pickle
import sys

from planted_truth import PAGE, Plan, into, module, references

SCENARIOS = {}
scenario = into(SCENARIOS)
WORDS = PAGE // 8


# ---- The accesses: each has a marked line, on which every copy of the scenario happens ----


def iterate(data):
    for x in data: pass  # planted: iterate


def read_key(data):
    for d in data: d["id"], d["text"]  # planted: read_key


def read_first(data):
    for t in data: t[0]  # planted: read_first


def read_attributes(data):
    for o in data: o.child.value  # planted: read_attributes


def read_sum(data):
    data.sum()  # planted: read_sum


def read_every_page(data):
    for i in range(0, len(data), WORDS): data[i]  # planted: read_every_page


def pickle_each(data):
    for d in data: pickle.dumps(d, 2)  # planted: pickle_each


def two_lines(data):
    for d in data:  # planted: outer
        max(d["text"])  # planted: inner


def two_loops(data):
    """Extra work slows the copies down, so that a profiler with a few hundred samples a second sees many."""
    strings, floats = data
    for s in strings: max(s)  # planted: strings
    for f in floats: "%.9e" % f  # planted: floats


# ---- The data, and the writes that an access to it makes ----


def iterated(data):
    return Plan(iterate, data, references(data, "iterate"))


def make_text(i, size=180):
    return "%09d" % i + "x" * (size - 9)


@scenario(items=230000)
def str_list(items):
    return iterated([make_text(i) for i in range(items)])


@scenario(items=150000)
def dict_values(items):
    """The loop references the dict, then the lookups its values."""
    data = [{"id": i + 1000, "text": make_text(i)} for i in range(items)]
    return Plan(read_key, data, references((x for d in data for x in (d, d["id"], d["text"])), "read_key"))


@scenario(items=150000)
def tuples(items):
    data = [(make_text(i), i) for i in range(items)]
    return Plan(read_first, data, references((x for t in data for x in (t, t[0])), "read_first"))


class Slotted(object):
    __slots__ = ("child", "value")

    def __init__(self, child, value):
        self.child = child
        self.value = value


class Plain(object):
    def __init__(self, child, value):
        self.child = child
        self.value = value


@scenario(items=330000)
def slots(items):
    data = [Slotted(Slotted(None, i + 1000.5), None) for i in range(items)]
    return Plan(read_attributes, data, references((x for o in data for x in (o, o.child, o.child.value)), "read_attributes"))


def read_with_dict(objects):
    """Until 3.10 the lookup also references the instance's dict; later there is none, because the instance holds the values."""
    with_dict = sys.version_info < (3, 11)
    for o in objects:
        yield o
        if with_dict:
            yield o.__dict__
        yield o.child
        if with_dict:
            yield o.child.__dict__
        yield o.child.value


@scenario(items=200000)
def attributes(items):
    data = [Plain(Plain(None, i + 1000.5), None) for i in range(items)]
    return Plan(read_attributes, data, references(read_with_dict(data), "read_attributes"))


@scenario(items=200000, since=(3, 7))
def dataclass(items):
    Record = module("dataclasses").make_dataclass("Record", ["child", "value"])
    data = [Record(Record(None, i + 1000.5), None) for i in range(items)]
    return Plan(read_attributes, data, references(read_with_dict(data), "read_attributes"))


@scenario(items=250000)
def big_ints(items):
    return iterated([(1 << 1000) + i for i in range(items)])


@scenario(items=200000)
def bytes_list(items):
    return iterated([make_text(i).encode() for i in range(items)])


@scenario(items=200000)
def pickled_bytes(items):
    """Small, but in malloc's memory: pickle.dumps() makes a large object smaller."""
    return iterated([pickle.dumps({"id": i, "text": make_text(i)}) for i in range(items)])


@scenario(items=90000)
def wide_strs(items):
    """In malloc's memory from some 220 characters on, of which each takes two or four bytes."""
    return iterated([make_text(i, 120 + i % 360) + (u"\u2019", u"\U0001f600")[i % 2] for i in range(items)])


@scenario(items=150000)
def decoded_strs(items):
    """In malloc's memory, however small: the decoder makes its buffer smaller."""
    return iterated([("%09d" % i + u"\u4e2d" * (70 + i % 100)).encode("utf-8").decode("utf-8") for i in range(items)])


@scenario(items=60000)
def shrunk_tuples(items):
    """In malloc's memory behind their GC header: a tuple of an unknown length is made smaller in the end."""
    return iterated([tuple(map(abs, [i] * (44 + i % 16))) for i in range(items)])


@scenario(items=1400000)
def floats(items):
    return iterated([i * 1.5 for i in range(items)])


@scenario(items=230000)
def numpy_objects(items):
    numpy = module("numpy")
    data = numpy.empty(items, dtype=object)
    data[:] = [make_text(i) for i in range(items)]
    return iterated(data)


@scenario(items=4000000)
def numpy_read(items):
    """Numbers in an array have no reference count, so nothing is written."""
    data = module("numpy").arange(items, dtype="f8")
    data[:WORDS].sum()
    return Plan(read_sum, data, ())


@scenario(items=4000000)
def array_read(items):
    return Plan(read_every_page, array.array("d", bytes(8 * items)), ())


@scenario(items=120000)
def defaultdicts(items):
    data = [collections.defaultdict(int, id=i + 1000, text=make_text(i)) for i in range(items)]
    return Plan(read_key, data, references((x for d in data for x in (d, d["id"], d["text"])), "read_key"))


@scenario(items=230000)
def pandas_objects(items):
    pandas = module("pandas")
    column = pandas.DataFrame({"text": [make_text(i) for i in range(items)]})["text"]
    if column.dtype != object:
        raise Skip("this pandas keeps text in %s, not in objects" % column.dtype)
    return Plan(iterate, column, references(list(column), "iterate"))


@scenario(items=4000000)
def pandas_read(items):
    column = module("pandas").DataFrame({"x": [0.5] * items})["x"]
    column[:WORDS].sum()  # loads the modules that it needs before the fork
    return Plan(read_sum, column, ())


@scenario(items=6000000)
def torch_read(items):
    torch = module("torch")
    torch.set_num_threads(1)
    data = torch.ones(items, dtype=torch.float64)
    data[:WORDS].sum()
    return Plan(read_sum, data, ())


@scenario(items=160000)
def pickled(items):
    """The pickler's memo references the dict and the str in it."""
    data = [{"text": make_text(i)} for i in range(items)]
    pickle.dumps(data[:2], 2)
    return Plan(pickle_each, data, references((x for d in data for x in (d, d["text"])), "pickle_each"))


@scenario(items=150000)
def mixture_lines(items):
    """The line of the loop references the dicts, the line inside it their values."""
    data = [{"text": make_text(i)} for i in range(items)]
    writes = (write for d in data
              for write in ((id(d), "refcount", "dict", "outer"), (id(d["text"]), "refcount", "str", "inner")))
    return Plan(two_lines, data, writes)


@scenario(items=154000)
def mixture_types(items):
    """70 % of the pages from a loop over str, 30 % from a loop over float."""
    strings = [make_text(i) for i in range(items)]
    numbers = [i * 1.5 for i in range(items * 16 // 5)]
    writes = (write for objects, line in ((strings, "strings"), (numbers, "floats")) for write in references(objects, line))
    return Plan(two_loops, (strings, numbers), writes)
