"""The items that fix sketches are tried on, and what "the same" means: equal values of equal types, at every depth.

Each shape begins with values that a careless array would change; the others are what a data set has many of. Left out is
what numpy's own pickles change, and what no worker can send therefore: a NUL at the end of a numpy.str_, a foreign byte order.
"""
import collections
import dataclasses
import enum
import pickle
import struct

import numpy

Point = collections.namedtuple("Point", "x label")


class Colour(enum.Enum):
    RED = 1
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1


class Plain:
    def __init__(self, number, text):
        self.number, self.text = number, text


class Slots:
    __slots__ = ("number", "text")

    def __init__(self, number, text):
        self.number, self.text = number, text


@dataclasses.dataclass(frozen=True)
class Record:
    number: int
    values: list


NUMBERS = [2**70, -(2**63), 2**63, 0, -1, True, False, float("nan"), float("inf"), -0.0, 1.0, 1, 1j]
TEXTS = ["", "a\0", "\0\0", "\ud800", "w\u00f6rter", "\U0001f600", "x" * 99, "1", "nan", "None"]
ODD = [None, Ellipsis, b"", b"a\0", Colour.BLUE, Level.LOW, numpy.float64(1), numpy.int8(1), numpy.str_("a"), numpy.bool_(True),
       frozenset({1}), range(3), [], (), {}, Point(1, "a"), Slots(1, None), Record(1, [2])]
# {shape: (first items, item number i)}
SHAPES = {
    "integers": ([2**63 - 1, -(2**63), 0], lambda i: i + 1000),
    "numbers": (NUMBERS, lambda i: i * 1.5),
    "floats": ([float("nan"), -0.0, float("inf")], lambda i: i * 1.5),
    "booleans": ([True, False], lambda i: i % 3 == 0),
    "strings": (TEXTS, lambda i: f"item {i} of a data set of strings " * 3),
    "short-strings": (["", "1", "w\u00f6rter", "\ud800"], lambda i: f"item {i}"),
    "bytes": ([b"", b"\0", b"a\0"], lambda i: b"item %d of a data set of bytes" % i),
    "pickled-bytes": ([], lambda i: pickle.dumps({"id": i, "text": f"item {i}"})),
    "none": ([None, 1], lambda i: i * 1.5 if i % 3 else None),
    "lists": ([[], [True, 1, 1.0], [2**70], [None], ["a\0"]], lambda i: [i + 1000, i + 2000, i + 3000, i + 4000]),
    "number-lists": ([[], [1]], lambda i: [i + 1000, i + 2000, i + 3000, i + 4000]),
    "nested": ([[[]], {"a": {}}], lambda i: {"boxes": [[i + 1000, i + 2000], [i / 7]], "name": (f"item {i}", None)}),
    "dicts": ([{}, {"id": 1}, {"score": 0.5, "text": "a", "id": 1}, {"id": True, "text": None, "score": 1}, {1: "a"}, {True: "a"},
               {"id": [1], "text": {"a": 1}, "score": float("nan")}],
              lambda i: {"id": i + 1000, "text": f"item {i}", "score": i / 7}),
    "flat-dicts": ([{"id": 1, "text": "", "score": float("nan")}], lambda i: {"id": i + 1000, "text": f"item {i}", "score": i / 7}),
    "tuples": ([(), (1,), (1, "a", None), (True, "a\0", 1)], lambda i: (i + 1000, f"item {i}", i / 7)),
    "flat-tuples": ([(1, "", float("nan"))], lambda i: (i + 1000, f"item {i}", i / 7)),
    "namedtuples": ([Point(None, "")], lambda i: Point(i + 1000, f"item {i}")),
    "objects": ([Plain(None, "")], lambda i: Plain(i + 1000, f"item {i}")),
    "slots": ([Slots(None, "")], lambda i: Slots(i + 1000, f"item {i}")),
    "dataclasses": ([Record(0, [])], lambda i: Record(i + 1000, [i / 7])),
    "numpy-scalars": ([numpy.float64("nan"), numpy.int8(1), numpy.str_("a")], numpy.float32),
    "long-text": (["x" * 100_000], lambda i: f"item {i}"),
    "mixed": (NUMBERS + TEXTS + ODD, lambda i: (i + 1000, f"item {i}", [i / 7], {"id": i})[i % 4]),
    "arrays": ([numpy.array(1), numpy.arange(3, dtype=numpy.int16), numpy.array([[1, 2]], numpy.uint8), numpy.array([None, "a"]),
                numpy.ma.array([1, 2], mask=[True, False])],
               lambda i: numpy.array([i, i + 0.5, i + 1])),
    "equal-arrays": ([], lambda i: numpy.array([i, i + 0.5, i + 1])),
    "0d-arrays": ([], lambda i: numpy.array(i)),
}
# Shapes for one faster variant: it has to accept these, and may refuse others.
FITS = {"strings": ["short-strings", "integers", "floats", "booleans"], "numbers": ["short-strings", "integers", "floats", "booleans"],
        "dicts": ["flat-dicts"], "tuples": ["flat-tuples"], "lists": ["number-lists"], "arrays": ["equal-arrays", "0d-arrays"],
        "tensors": ["equal-tensors", "0d-tensors"]}
TENSORS = ["tensors", "equal-tensors", "0d-tensors", "mixed-tensors", "parameters"]


def tensors(shape, count):
    import torch  # pylint: disable=import-outside-toplevel
    first, make = {
        "tensors": ([torch.zeros(0), torch.tensor([float("nan")])], lambda i: torch.full((i % 3 + 1,), i / 7)),
        "equal-tensors": ([], lambda i: torch.tensor([[i, i + 1], [i + 2, i + 3]])),
        "0d-tensors": ([], torch.tensor),
        "mixed-tensors": ([torch.tensor([True])], lambda i: torch.tensor([i / 7])),
        "parameters": ([], lambda i: torch.nn.Parameter(torch.tensor([i / 7]))),
    }[shape]
    return (first + [make(i) for i in range(count - len(first))])[:count]


def items_of(shape, count):
    """A list of `count` items, or what else holds that many."""
    if shape in TENSORS:
        return tensors(shape, count)
    if shape == "object-array":
        return numpy.array(items_of("mixed", count) + [None], dtype=object)[:count]
    if shape == "data-frame":
        return frame_of(count)
    first, make = SHAPES[shape]
    return (first + [make(i) for i in range(count - len(first))])[:count]


def frame_of(count):
    import pandas  # pylint: disable=import-outside-toplevel
    numbers = list(range(count))
    return pandas.DataFrame({
        "id": numbers, "score": numpy.array(numbers, numpy.float32), "even": [i % 2 == 0 for i in numbers],
        "text": [None if i % 7 == 3 else f"item {i}" for i in numbers], "boxes": [[i + 1000, i / 7] for i in numbers],
        "when": pandas.to_datetime([None if i % 7 == 3 else i for i in numbers]),
        "maybe": pandas.array([None if i % 7 == 3 else i for i in numbers], dtype="Int64"),
        "kind": pandas.Categorical([i % 3 for i in numbers]), "name": pandas.array(["a\0"] * count, dtype="string"),
    }, index=[i + 5 for i in numbers])


def row(items, i):
    """An item as the code before and after reads it: a row of a DataFrame by its position."""
    return dict(items.iloc[i]) if hasattr(items, "iloc") else items[i]


def fields(value):
    """The attributes of an object, with and without __slots__."""
    return {**getattr(value, "__dict__", {}), **{name: getattr(value, name) for name in getattr(value, "__slots__", ())}}


def same(a, b):
    """Equal values of equal types, at every depth; dicts in the same order; NaN is NaN, and -0.0 is not 0.0."""
    if type(a) is not type(b):
        return False
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return same(list(a.items()), list(b.items()))
    if isinstance(a, float) and type(a) is float:
        return struct.pack("d", a) == struct.pack("d", b)
    if isinstance(a, numpy.ndarray):
        return (a.dtype, a.shape) == (b.dtype, b.shape) and \
            (same(a.tolist(), b.tolist()) if a.dtype.hasobject or isinstance(a, numpy.ma.MaskedArray) else a.tobytes() == b.tobytes())
    if isinstance(a, numpy.generic):
        return a.dtype == b.dtype and a.tobytes() == b.tobytes()
    if type(a).__module__.startswith("torch"):
        return (a.dtype, a.shape, a.requires_grad) == (b.dtype, b.shape, b.requires_grad) and \
            same(a.detach().numpy(), b.detach().numpy())
    if type(a).__module__.startswith("pandas") and a is not b:  # NaT and NA are one object each
        return a == b
    if isinstance(a, (Plain, Slots, Record)):
        return same(fields(a), fields(b))
    return a is b or a == b


def plain(value):
    """A text that is the same for the same values, whatever array or view holds them."""
    if isinstance(value, (Plain, Slots, Record)):
        return repr(fields(value))
    if isinstance(value, dict):
        return repr([(key, plain(one)) for key, one in value.items()])
    return repr(value.tolist()) if hasattr(value, "tolist") else repr(value)
