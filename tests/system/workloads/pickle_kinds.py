"""Holds objects of many kinds, says of each whether a worker can be sent it, and waits.

The truth comes from really pickling, with multiprocessing's pickler, in a forked process per kind: a line of JSON each, with
"fails", the error, and the path of what fails (null where it pickles). Then {"event": "ready"}. Ends when stdin does.
"""
import argparse
import array
import collections
import concurrent.futures
import contextvars
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import hashlib
import io
import itertools
import json
import logging
import operator
import os
import pathlib
import queue
import random
import re
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import types
import typing
import unittest.mock
import uuid
import weakref
from multiprocessing import context, get_context, popen_spawn_posix, reduction, set_start_method


class Holder:
    def __init__(self, value):
        self.value = value


class Plain:
    pass


class Slots:
    __slots__ = ("a", "b", "__weakref__")

    def __init__(self, a, b):
        self.a, self.b = a, b


class SlotsBelow(Slots):
    def __init__(self, a, b, c):
        super().__init__(a, b)
        self.c = c


class ListOf(list):
    pass


class DictOf(dict):
    pass


class IntOf(int):
    pass


class StrOf(str):
    pass


class TupleOf(tuple):
    pass


class Drops:
    def __init__(self):
        self.lock = threading.Lock()

    def __getstate__(self):
        return {}


class Keeps:
    def __init__(self):
        self.lock = threading.Lock()

    def __getstate__(self):
        return self.__dict__


class KeepsOften(Keeps):
    """Its method runs so often that the interpreter specialises it."""

    def __getstate__(self):
        return self.__dict__


class KeepsWhatPickles:
    def __init__(self):
        self.a, self.b = 1, [2]

    __getstate__ = lambda self: self.__dict__  # noqa: E731

    def __getattr__(self, name):
        raise RuntimeError(name)


class KeepsNoSlots:
    __slots__ = ("slot", "__dict__")

    def __init__(self):
        self.slot, self.a = threading.Lock(), 1

    def __getstate__(self):
        return self.__dict__


class KeepsItems(list):
    def __getstate__(self):
        return self.__dict__


class Reduces:
    def __reduce__(self):
        return (Reduces, ())


class GetsAttributes:
    def __init__(self):
        self.inner = {}

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self.__dict__["inner"][name]


class Colour(enum.Enum):
    RED = 1


class Outer:
    class Inner:
        def method(self):
            pass

    @staticmethod
    def static():
        pass

    @classmethod
    def of_class(cls):
        pass


@dataclasses.dataclass
class Data:
    x: int
    y: object = None


Point = collections.namedtuple("Point", "x y")
Renamed = collections.namedtuple("AnotherName", "x")


class CustomError(Exception):
    pass


class Replaced:
    pass


old_replaced = Replaced()


class Replaced:  # noqa: F811
    pass


class DefaultOf(collections.defaultdict):
    pass


class CounterOf(collections.Counter):
    pass


class OrderedOf(collections.OrderedDict):
    pass


class DequeOf(collections.deque):
    pass


class PartialOf(functools.partial):
    pass


class SetOfSlot(set):
    __slots__ = ("slot",)


class OfLock(enum.Enum):
    LOCK = threading.Lock()


by_global_name = next(getattr(enum, name) for name in ("pickle_by_global_name", "_reduce_ex_by_global_name", "_reduce_ex_by_name")
                      if hasattr(enum, name))


class ByGlobalName(enum.Enum):
    EXPORTED, MISSING = threading.Lock(), 1
    __reduce_ex__ = by_global_name


EXPORTED = ByGlobalName.EXPORTED


class ByName(enum.Enum):
    EXPORTED = threading.Lock()
    __reduce_ex__ = getattr(enum, "pickle_by_enum_name", None) or enum.Enum.__reduce_ex__


class Mixed:
    def __new__(cls, value):
        made = object.__new__(cls)
        made._value_ = value
        return made


class MixedEnum(Mixed, enum.Enum):
    ONE = 1


class Größe:
    pass


LONG_NAME = "LongName" * 20
LongName = globals()[LONG_NAME] = type(LONG_NAME, (), {})


def function():
    pass


def größe():
    pass


def decorated():
    pass


original_decorated = decorated


def decorated():  # noqa: F811
    pass


named_lambda = lambda x: x  # noqa: E731


def local_function():
    def inner():
        pass
    return inner


def local_class():
    class Local:
        pass
    return Local()


def generate():
    yield 1


class Vocab:
    @staticmethod
    def load():
        return collections.defaultdict(lambda: 0, {"a": 1})


class Removed:
    pass


removed = Removed()
del Removed


def with_many(lock):
    plain = Plain()
    for i in range(1000):
        setattr(plain, "attribute%d" % i, i)
    plain.last = lock
    return plain


def deep(levels, leaf):
    for _ in range(levels):
        leaf = [leaf]
    return leaf


def kept_often():
    keeps = KeepsOften()
    for _ in range(1000):
        keeps.__getstate__()
    return keeps


def exhausted(items):
    iterator = map(str, items)
    for _ in iterator:
        pass
    return iterator


def with_lock(holder):
    holder.lock = threading.Lock()
    return holder


def with_slot(holder):
    holder.slot = threading.Lock()
    return holder


def in_zone():
    try:
        import zoneinfo
        return datetime.datetime(2020, 1, 1, tzinfo=zoneinfo.ZoneInfo("UTC"))
    except Exception:  # before 3.9, or without the data
        return datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc)


def cyclic(leaf):
    first = Plain()
    first.me = first
    first.list = [first, leaf]
    return first


def shared_keys(leaf):
    plain, other = Plain(), Plain()
    plain.a, plain.b = 1, leaf
    other.b, other.a = 1, 2
    del other.b
    return [other, plain]


def kinds():
    """(name, value, path below the value of what fails or None). A path without effect where all pickles."""
    lock = threading.Lock
    plain = Plain()
    temporary = tempfile.TemporaryFile()
    text = open(os.devnull)
    logger = logging.getLogger("a.b")
    handler = logging.StreamHandler(sys.stderr)
    return [
        ("none", None, ""), ("int", 3, ""), ("negative", -70000, ""), ("large int", 2**200, ""), ("float", 1.5, ""),
        ("bool", True, ""), ("ellipsis", ..., ""), ("not implemented", NotImplemented, ""), ("complex", 1j, ""),
        ("str", "a", ""), ("wide str", "ä€😀", ""), ("bytes", b"ab", ""), ("bytearray", bytearray(b"ab"), ""),
        ("memoryview", memoryview(b"ab"), ""), ("list", [1, [2]], ""), ("tuple", (1, (2,)), ""), ("set", {1, "a"}, ""),
        ("frozenset", frozenset([1]), ""), ("dict", {1: 2, "a": [3]}, ""), ("range", range(3), ""), ("slice", slice(1, 2), ""),
        ("type", int, ""), ("none's type", type(None), ""), ("function's type", types.FunctionType, ""), ("class", Plain, ""),
        ("function", function, ""), ("builtin", len, ""), ("math function", operator.add, ""), ("nested class", Outer.Inner, ""),
        ("nested method", Outer.Inner.method, ""), ("static method", Outer.static, ""), ("class method", Outer.of_class, ""),
        ("bound method", Outer.Inner().method, ""), ("bound builtin", [1].append, ""), ("bound builtin of lock", lock().acquire, ".__self__"),
        ("method descriptor", str.join, ""), ("slot wrapper", int.__add__, ""), ("method wrapper", (1).__add__, ""),
        ("lambda", lambda: 0, ""), ("named lambda", named_lambda, ""), ("local function", local_function(), ""),
        ("local class instance", local_class(), ""), ("local class", type(local_class()), ""), ("replaced class", old_replaced, ""),
        ("replaced function", original_decorated, ""), ("removed class", removed, ""), ("partial", functools.partial(function, 1), ""),
        ("partial of lambda", functools.partial(lambda: 0), ".func"), ("partial with lock", functools.partial(function, lock()), ".args[0]"),
        ("instance", Plain(), ""), ("slots", Slots(1, [2]), ""), ("slots with lock", Slots(1, lock()), ".b"),
        ("slots and dict", SlotsBelow(1, 2, 3), ""), ("slots and dict with lock", SlotsBelow(1, 2, lock()), ".c"),
        ("list subclass", ListOf([1]), ""), ("list subclass with lock", ListOf([1, lock()]), "[1]"),
        ("dict subclass", DictOf(a=1), ""), ("dict subclass with lock", DictOf(a=lock()), "['a']"), ("int subclass", IntOf(3), ""),
        ("str subclass", StrOf("a"), ""), ("tuple subclass", TupleOf((1, 2)), ""), ("tuple subclass with lock", TupleOf((1, lock())), "[1]"),
        ("own getstate that drops", Drops(), ""), ("own getstate that keeps", Keeps(), ".lock"), ("own reduce", Reduces(), ""),
        ("own getstate that ran often", kept_often(), ".lock"), ("own getstate beside getattr", KeepsWhatPickles(), ""),
        ("own getstate that leaves slots", KeepsNoSlots(), ""), ("list with an own getstate and a lock", KeepsItems([lock()]), "[0]"),
        ("own getattr", GetsAttributes(), ""), ("enum", Colour.RED, ""), ("dataclass", Data(1), ""), ("dataclass with lock", Data(1, lock()), ".y"),
        ("namedtuple", Point(1, 2), ""), ("namedtuple with lock", Point(1, lock()), "[1]"), ("misnamed namedtuple", Renamed(1), ""),
        ("lock", lock(), ""), ("rlock", threading.RLock(), ""), ("condition", threading.Condition(), "._lock"),
        ("event", threading.Event(), "._cond._lock"), ("semaphore", threading.Semaphore(), "._cond._lock"),
        ("thread local", threading.local(), ""), ("thread", threading.current_thread(), None),
        ("dict keys", {}.keys(), ""), ("dict values", {}.values(), ""), ("dict items", {}.items(), ""), ("generator", generate(), ""),
        ("generator expression", (x for x in ()), ""), ("list iterator", iter([1]), ""), ("file", temporary, None), ("text file", text, ""),
        ("stdout", sys.stdout, ""), ("module", os, ""), ("socket", socket.socket(), ""), ("weak reference", weakref.ref(plain), ""),
        ("weak dict", weakref.WeakValueDictionary(), None), ("property", property(function), ""), ("traceback", None, ""),
        ("code", function.__code__, ""), ("frame", sys._getframe(), ""), ("cell", (lambda: lock).__closure__[0], ""),
        ("mapping proxy", types.MappingProxyType({}), ""), ("simple namespace", types.SimpleNamespace(a=1), ""),
        ("logger", logger, ""), ("root logger", logging.getLogger(), ""), ("handler", handler, ".lock"),
        ("formatter", logging.Formatter("%(message)s"), ""),
        ("connection", sqlite3.connect(":memory:"), ""), ("context variable", contextvars.ContextVar("a"), ""),
        ("pattern", re.compile("a"), ""), ("match", re.match("a", "a"), ""), ("date", datetime.date(2020, 1, 1), ""),
        ("time with zone", datetime.datetime.now(datetime.timezone.utc), ""), ("decimal", decimal.Decimal("1.5"), ""),
        ("fraction", fractions.Fraction(1, 2), ""), ("uuid", uuid.UUID(int=1), ""), ("path", pathlib.Path("/a"), ""),
        ("random", random.Random(1), ""), ("array", array.array("i", [1]), ""), ("deque", collections.deque([1]), ""),
        ("deque with lock", collections.deque([1, lock()]), "[1]"), ("ordered dict", collections.OrderedDict(a=1), ""),
        ("ordered dict with lock", collections.OrderedDict(a=lock()), "['a']"), ("counter", collections.Counter("ab"), ""),
        ("default dict", collections.defaultdict(list, a=[1]), ""), ("default dict of lambda", Vocab.load(), ".default_factory"),
        ("exception", ValueError("a", 1), ""), ("exception with lock", ValueError(lock()), ".args[0]"), ("own exception", CustomError(1), ""),
        ("system error", OSError(2, "a"), ""), ("map of lambda", map(lambda x: x, [1]), ".__reduce__()[1][0]"), ("map", map(function, [1], (2,)), ""),
        ("map over a generator", map(function, [1], generate()), ".__reduce__()[1][2]"),
        ("filter of lambda", filter(lambda x: x, [1]), ".__reduce__()[1][0]"), ("filter", filter(None, [1]), ""),
        ("zip over locks", zip([1], [lock()]), ".__reduce__()[1][1].__reduce__()[1][0][0]"),
        ("enumerate over locks", enumerate([lock()]), ".__reduce__()[1][0].__reduce__()[1][0][0]"),
        ("reversed locks", reversed([lock()]), ".__reduce__()[1][0][0]"), ("iterator of calls", iter(function, 1), ""),
        ("exhausted iterator", exhausted([lock()]), ""), ("range iterator", iter(range(3)), ""),
        ("count", itertools.count(3), None),
        ("item getter", operator.itemgetter(1), ""), ("many attributes", with_many(lock()), ".last"), ("deep", deep(50, lock()), "[0]" * 50),
        ("cycle", cyclic(lock()), ".list[1]"), ("lock as key", {lock(): 1}, None), ("lock in set", {lock()}, None),
        ("lock behind rows", [{"id": i} for i in range(3000)] + [lock()], "[3000]"), ("lock in long dict", dict([(i, i) for i in range(3000)], last=lock()), "['last']"),
        ("shared keys", shared_keys(1), ""), ("shared keys with lock", shared_keys(lock()), "[1].b"),
        ("generic alias", list[int] if sys.version_info >= (3, 9) else None, ""),
        ("queue", get_context("spawn").Queue(), ""), ("multiprocessing lock", get_context("spawn").Lock(), ""),
        ("fork lock", get_context("fork").Lock(), ""), ("fork queue", get_context("fork").Queue(), "._rlock"),
        ("fork event", get_context("fork").Event(), "._cond._lock"), ("fork condition", get_context("fork").Condition(), "._lock"),
        ("event of spawn", get_context("spawn").Event(), ""), ("joinable queue", get_context("spawn").JoinableQueue(), ""),
        ("simple queue", get_context("spawn").SimpleQueue(), ""),
        ("default dict subclass", DefaultOf(list, a=[1]), ""), ("default dict subclass of lambda", DefaultOf(lambda: 0), ".default_factory"),
        ("default dict subclass with lock attribute", with_lock(DefaultOf(list)), ""),
        ("counter subclass with lock attribute", with_lock(CounterOf("ab")), ""),
        ("partial with lock attribute", with_lock(functools.partial(function)), ""),
        ("partial subclass with lock attribute", with_lock(PartialOf(function)), None),
        ("ordered dict subclass with lock attribute", with_lock(OrderedOf(a=1)), ".lock"),
        ("set subclass with lock in slot", with_slot(SetOfSlot([1])), ".slot"),
        ("deque subclass", DequeOf([1]), ""), ("deque subclass with lock", DequeOf([1, lock()]), "[1]"),
        ("deque subclass with lock attribute", with_lock(DequeOf([1])), ".lock"), ("long deque", collections.deque(range(5000)), ""),
        ("long deque with lock", collections.deque([*range(5000), lock()]), "[5000]"),
        ("enum of lock", OfLock.LOCK, ".value"), ("enum by global name", EXPORTED, ""),
        ("enum by missing global name", ByGlobalName.MISSING, ""), ("enum by name", ByName.EXPORTED, ".value"),
        ("mixed enum", MixedEnum.ONE, ""),
        ("memory file with lock attribute", with_lock(io.BytesIO(b"a")), ".lock"),
        ("text with lock attribute", with_lock(io.StringIO("a")), ".lock"),
        ("time of day with zone", datetime.time(1, tzinfo=datetime.timezone.utc), ""), ("time in a named zone", in_zone(), ""),
        ("unregistered logger", logging.Logger("a.b"), ""),
        ("größe", Größe(), ""), ("schlüssel 名前 🐍", größe, ""), ("class of a long name", LongName(), ""),
        ("object", object(), ""), ("super", super(Slots, Slots(1, 2)), ""),
    ]


class RaisesInMeta(type):
    def __reduce_ex__(cls, protocol):
        raise TypeError("no")

    def __getstate__(cls):
        raise TypeError("no")


class OfMeta(metaclass=RaisesInMeta):
    pass


class ClassLies:
    @property
    def __class__(self):
        return dict


class DictLies:
    def __init__(self):
        self.lock = threading.Lock()

    @property
    def __dict__(self):
        return {}


class DictOfLocks:
    @property
    def __dict__(self):
        return {"lock": threading.Lock()}


class SlotReplaced:
    __slots__ = ("a",)


SlotReplaced.a = threading.Lock()


class SlotForgotten:
    __slots__ = ("a",)


SlotForgotten.__slots__ = ()


class SlotPrivate:
    __slots__ = ("__a",)

    def __init__(self, a):
        self.__a = a


class SlotText:
    __slots__ = "abc"


class SlotDocumented:
    __slots__ = {"a": "what it is"}


class SlotIterator:
    __slots__ = iter(("a",))


class SlotDict:
    __slots__ = ("__dict__", "__weakref__", "a")


class HidesItems(dict):
    def items(self):
        return iter(())


class HidesIteration(list):
    def __iter__(self):
        return iter(())


class ShowsLock(list):
    def __iter__(self):
        return iter([threading.Lock()])


class SetHides(set):
    def __iter__(self):
        return iter(())


class DequeHides(collections.deque):
    def __iter__(self):
        return iter(())


class OrderedHides(collections.OrderedDict):
    def items(self):
        return iter(())


class NoReduce:
    __reduce_ex__ = None


class NoState:
    __getstate__ = None


class GetsAll:
    def __getattribute__(self, name):
        if name == "__reduce_ex__":
            raise AttributeError(name)
        return object.__getattribute__(self, name)


class Registered:
    pass


def reduce_registered(registered):
    raise TypeError("no")


class RegisteredAsPattern:
    pass


def _pickle(registered):
    """Only by its name that of re."""
    raise TypeError("no")


class OrderedState(collections.OrderedDict):
    def __getstate__(self):
        return {}


class ZoneOfLock(datetime.tzinfo):
    def __init__(self):
        self.lock = threading.Lock()


def closed(file):
    file.close()
    return file


class WithoutModule:
    pass


WithoutModule.__module__ = None


class OfLazyModule:
    pass


class OfObject:
    pass


class OfEmptyModule:
    pass


class LazyModule(types.ModuleType):
    def __getattr__(self, name):
        if name == "OfLazyModule":
            return OfLazyModule
        raise AttributeError(name)


class NotAModule:
    OfObject = OfObject


OfLazyModule.__module__, OfObject.__module__, OfEmptyModule.__module__ = "lazy_module", "not_a_module", "empty_module"


class OfCrowdedModule:
    pass


def raises(self):
    raise TypeError("no")


MANY = {"attribute%d" % i: i for i in range(5000)}
ManyAttributes = type("ManyAttributes", (), MANY)
ReducerBehindMany = type("ReducerBehindMany", (), {**MANY, "__reduce__": raises})


class Typed(typing.NamedTuple):
    x: object


class OfType(typing.Generic[typing.TypeVar("T")]):
    pass


class Linked:
    def __init__(self, following):
        self.following = following


class Cached:
    @functools.lru_cache(None)
    def method(self):
        pass


@functools.lru_cache(None)
def cached():
    pass


@functools.wraps(function)
def wrapper():
    pass


@functools.singledispatch
def dispatched(x):
    pass


def linked(length):
    node = None
    for _ in range(length):
        node = Linked(node)
    return node


def hidden(**attributes):
    plain = Plain()
    plain.__dict__.update(attributes)
    return plain


def traps():
    """As kinds(): what looks as if it pickled, or as if it did not."""
    import copyreg
    lock = threading.Lock
    copyreg.pickle(Registered, reduce_registered)
    copyreg.pickle(RegisteredAsPattern, _pickle)
    sys.modules["lazy_module"], sys.modules["not_a_module"] = LazyModule("lazy_module"), NotAModule()
    sys.modules["empty_module"] = types.ModuleType("empty_module")
    crowded = sys.modules["crowded_module"] = types.ModuleType("crowded_module")
    crowded.__dict__.update(MANY, OfCrowdedModule=OfCrowdedModule)
    OfCrowdedModule.__module__ = "crowded_module"
    kept = Plain()
    keep.append(kept)
    keep.append(Plain())
    keep[1].lock = lock()
    return [
        ("instance of a metaclass that raises", OfMeta(), ""), ("class of a metaclass that raises", OfMeta, ""),
        ("class that lies", ClassLies(), ""), ("dict that lies", DictLies(), None), ("dict of locks", DictOfLocks(), None),
        ("replaced slot", SlotReplaced(), None), ("forgotten slot", SlotForgotten(), None),
        ("private slot", SlotPrivate(1), ""), ("private slot with lock", SlotPrivate(lock()), "._SlotPrivate__a"),
        ("slots as text", SlotText(), ""), ("slots as dict", SlotDocumented(), ""), ("slots of an iterator", SlotIterator(), None),
        ("slots with dict", SlotDict(), ""), ("items that hide", HidesItems(a=lock()), None),
        ("iteration that hides", HidesIteration([lock()]), None), ("iteration that shows", ShowsLock(), None),
        ("set that hides", SetHides([lock()]), None), ("deque that hides", DequeHides([lock()]), None),
        ("ordered dict that hides", OrderedHides(a=lock()), None), ("no reduce", NoReduce(), None), ("no state", NoState(), None),
        ("gets all attributes", GetsAll(), None), ("registered reducer", Registered(), None),
        ("registered by the name of another", RegisteredAsPattern(), None),
        ("ordered dict with an own getstate", with_lock(OrderedState(a=1)), ".lock"),
        ("time in a zone with lock", datetime.datetime(2020, 1, 1, tzinfo=ZoneOfLock()), None),
        ("closed memory file", closed(io.BytesIO(b"a")), None), ("fork simple queue", get_context("fork").SimpleQueue(), "._rlock"),
        ("class without module", WithoutModule(), None), ("class of a lazy module", OfLazyModule(), None),
        ("class of an object", OfObject(), None), ("class of an empty module", OfEmptyModule(), ""),
        ("class of a crowded module", OfCrowdedModule(), ""), ("class of many attributes", ManyAttributes(), None),
        ("reducer behind many attributes", ReducerBehindMany(), None),
        ("typed tuple", Typed(1), ""), ("typed tuple with lock", Typed(lock()), "[0]"), ("generic", OfType[int](), ""),
        ("list of 300 levels", deep(300, 1), ""), ("list of 3,000 levels", deep(3000, 1), None),
        ("list of 9,000 levels", deep(9000, 1), None), ("chain of 200 objects", linked(200), None),
        ("chain of 5,000 objects", linked(5000), None),
        ("cached function", cached, ""), ("cached method", Cached.method, ""), ("wrapped function", wrapper, ""),
        ("dispatched function", dispatched, ""), ("proxy", weakref.proxy(kept), ""), ("proxy of lock", weakref.proxy(keep[1]), None),
        ("hidden reduce", hidden(__reduce_ex__=cached), None), ("hidden reduce of lock", hidden(__reduce_ex__=lock()), None),
        ("hidden state", hidden(a=1, __getstate__=dict), None), ("hidden state of lock", hidden(lock=lock(), __getstate__=dict), None),
        ("mock", unittest.mock.MagicMock(), None), ("static method object", staticmethod(function), None),
        ("queue of a thread", queue.Queue(), None), ("executor", concurrent.futures.ThreadPoolExecutor(), None),
        ("hash", hashlib.md5(b"a"), ""), ("namespace", argparse.Namespace(a=1), ""), ("enumerate", enumerate([1]), ""),
        ("zip", zip([1]), ""), ("reversed", reversed([1]), ""), ("reversed tuple", reversed((1,)), ""), ("map subclass", MapOf(function, [lock()]), None),
        *[("state: " + kind.__name__, kind(), None) for kind in (StateOfTwo, StateOfKeyword, StateOfArguments, StateOfCoroutine, StateOfOther,
                                                                 StateOfStatic, StateOfSlots, StateOfLies)], ("bound method of lock", hidden(a=1).__init__, None),
        ("named file", tempfile.NamedTemporaryFile(), None), ("process", subprocess.Popen(["true"]), None),
        ("adapter", logging.LoggerAdapter(logging.getLogger("x"), {}), ""), ("string io", __import__("io").StringIO(), ""),
        ("partial of partial", functools.partial(functools.partial(function, lock()), 1), None),
        ("type variable", typing.TypeVar("T"), None), ("type hint", typing.List[int], None),
        ("exception of a cause", type_of_error(), None), ("memory file", __import__("io").BytesIO(b"a"), ""),
        ("user dict", collections.UserDict(a=1), ""), ("chain map", collections.ChainMap({}, {"a": lock()}), ".maps[1]['a']"),
        ("nested function's default", functools.partial(function, key=lambda: 0), None), ("bytes subclass", BytesOf(b"a"), ""),
        ("bytearray subclass", BytearrayOf(b"a"), ""), ("bytearray subclass with lock attribute", with_lock(BytearrayOf(b"a")), None),
        ("array subclass", ArrayOf("i", [1]), ""), ("array subclass with lock attribute", with_lock(ArrayOf("i", [1])), None),
        ("float subclass", FloatOf(1.5), ""), ("frozenset subclass", FrozenOf([1]), ""), ("set subclass with lock", SetOf([lock()]), None),
    ]


class StateOfTwo:
    def __init__(self):
        self.lock = threading.Lock()

    def __getstate__(self, other={}):
        return other.__dict__


class StateOfKeyword(StateOfTwo):
    def __getstate__(*, self):
        return self.__dict__


class StateOfArguments(StateOfTwo):
    def __getstate__(*self):
        return self.__dict__


class StateOfCoroutine(StateOfTwo):
    async def __getstate__(self):
        return self.__dict__


class StateOfOther(StateOfTwo):
    def __init__(self):
        super().__init__()
        self.other = {}

    def __getstate__(self):
        return self.other


class StateOfStatic(StateOfTwo):
    @staticmethod
    def __getstate__(self=Plain()):
        return self.__dict__


class StateOfSlots:
    __slots__ = ("a",)

    def __getstate__(self):
        return self.__dict__


class StateOfLies(StateOfTwo):
    def __getattribute__(self, name):
        return {} if name == "__dict__" else super().__getattribute__(name)

    def __getstate__(self):
        return self.__dict__


class BytesOf(bytes):
    pass


class BytearrayOf(bytearray):
    pass


class ArrayOf(array.array):
    pass


class FloatOf(float):
    pass


class FrozenOf(frozenset):
    pass


class MapOf(map):
    pass


class SetOf(set):
    pass


keep = []


def type_of_error():
    try:
        raise ValueError(1)
    except ValueError as error:
        error.__cause__ = KeyError(threading.Lock())
        return error


def pickles(holder):
    """The error of pickling in a forked process, as at the start of a worker; None: it pickles."""
    readable, writable = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(readable)
        try:
            class Popen:
                DupFd = popen_spawn_posix._DupFd

                def duplicate_for_child(self, fd):
                    return fd
            context.set_spawning_popen(Popen())
            reduction.ForkingPickler.dumps(holder)
            said = ""
        except BaseException as error:
            said = "%s: %s" % (type(error).__name__, error)
        os.write(writable, said.encode()[:4000] or b"\0")
        os._exit(0)
    os.close(writable)
    said = b""
    while True:
        piece = os.read(readable, 4096)
        if not piece:
            break
        said += piece
    os.close(readable)
    os.waitpid(pid, 0)
    return None if said == b"\0" else said.decode(errors="replace")


holders = {}


def main():
    set_start_method("spawn")  # with fork it would be unknown what locks of the fork context would be
    plain = kinds()
    for number, (name, value, path) in enumerate(plain + traps()):
        holders[name] = Holder(value)
        error = pickles(holders[name])
        print(json.dumps({"kind": name, "trap": number >= len(plain), "fails": error is not None, "error": error,
                          "path": None if path is None or error is None else "holders['%s'].value%s" % (name, path)}))
    print(json.dumps({"event": "ready"}), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
