"""Objects that the parent pickles, some of which a worker can't unpickle; says which, and waits.

A worker of spawn unpickles each: a line of JSON, with "fails" and the error, and "sure" unless code decides that reading can't
follow. Then {"event": "ready"}. Ends when stdin does.
"""
import collections
import json
import multiprocessing
import sys
import threading
import types
from multiprocessing.reduction import ForkingPickler


class Wraps:
    """As many data sets that pass on what they do not have to another one."""

    def __init__(self, inner):
        self.inner = inner

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def __getstate__(self):  # up to 3.10 pickle asks __getattr__ for it
        return self.__dict__


class Guards(Wraps):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.inner, name)


class SetsState(Wraps):
    def __setstate__(self, state):
        self.__dict__.update(state)


class WrapsItems(collections.deque):
    def __getattr__(self, name):
        raise KeyError(name)


class Row(collections.namedtuple("Row", "a b")):
    def __new__(cls, a):
        return super().__new__(cls, a, 1)


class Same(collections.namedtuple("Same", "a b")):
    def __new__(cls, a, b=2):
        return super().__new__(cls, a, b)


class Tagged(str):
    def __new__(cls, text, tag):
        return super().__new__(cls, text)


class Untagged(str):
    def __new__(cls, text, tag=None):
        return super().__new__(cls, text)


class Metres(int):
    def __new__(cls, *, value):
        return super().__new__(cls, value)


class Keyword(int):
    def __new__(cls, value, *, unit="m"):
        return super().__new__(cls, value)


class Point(complex):
    def __new__(cls, both):
        return super().__new__(cls, both)


class Single:
    def __new__(cls, *arguments, **options):
        return super().__new__(cls)

    def __init__(self, a, b):
        self.a, self.b = a, b


class Needs:
    def __new__(cls, a):
        return super().__new__(cls)


class Given(Needs):
    def __getnewargs__(self):
        return (1,)


class BadInput(Exception):
    def __init__(self, path, *, line):
        super().__init__(path)


class TwoNeeded(Exception):
    def __init__(self, path, line):
        super().__init__(path)


class TwoPassed(Exception):
    def __init__(self, path, line):
        super().__init__(path, line)


class Reduced(BadInput):
    def __reduce__(self):
        return type(self), self.args


class OfFile(OSError):
    def __init__(self, number, text, path):
        super().__init__(number, text, path)


class OfOneFile(OSError):
    def __init__(self, number, text):
        super().__init__(number, text, "/a")


class Meta(type):
    def __call__(cls, *arguments, **options):
        return super().__call__(*arguments, **{"line": 1, **options})


class OfMeta(BadInput, metaclass=Meta):
    pass


class Bounded(collections.deque):
    def __init__(self, items, maxlen):
        super().__init__(items, maxlen)


class NamedSet(set):
    def __init__(self, name, items):
        super().__init__(items)


class Named(types.SimpleNamespace):
    def __init__(self, name):
        super().__init__(name=name)


class OfList(list):
    def __init__(self, a, b):
        super().__init__((a, b))


def with_attribute(made):
    made.x = 1
    return made


def kinds():
    """(name, value, whether reading is enough to tell)."""
    return [
        ("wrapper", Wraps([1]), False), ("wrapper that guards", Guards([1]), False), ("wrapper with a setstate", SetsState([1]), True),
        ("items with an attribute", with_attribute(WrapsItems([1])), False), ("named tuple of one", Row(1), True), ("named tuple", Same(1, 2), True),
        ("text with a tag", Tagged("a", 1), True), ("text without a tag", Untagged("a"), True), ("int of a keyword", Metres(value=1), True),
        ("int with a keyword", Keyword(1), True), ("complex of one", Point(1j), True), ("takes any", Single(1, 2), True), ("needs", Needs(1), True),
        ("given", Given(1), False), ("error of a keyword", BadInput("a", line=1), True), ("error of two", TwoNeeded("a", 1), True),
        ("error that passes two", TwoPassed("a", 1), True), ("error with a reducer", Reduced("a", line=1), False),
        ("error of a file", OfFile(2, "a", "/a"), True), ("error of one file", OfOneFile(2, "a"), True), ("error of a metaclass", OfMeta("a", line=1), False),
        ("bounded deque", Bounded([1], 3), True), ("deque", Bounded([1], None), True), ("set with a name", NamedSet("a", [1]), True),
        ("namespace with a name", Named("a"), True), ("list of two", OfList(1, 2), True),
    ]


def unpickle(connection):
    for message in iter(connection.recv_bytes, b""):
        try:
            ForkingPickler.loads(message)
            connection.send(None)
        except BaseException as error:
            connection.send("%s: %s" % (type(error).__name__, error))


holders = {}
both = [BadInput("a", line=1), threading.Lock()]


def main():
    context = multiprocessing.get_context("spawn")
    connection, others = context.Pipe()
    worker = context.Process(target=unpickle, args=(others,))
    worker.start()
    for name, value, sure in kinds():
        holders[name] = [value]
        connection.send_bytes(ForkingPickler.dumps(value))
        error = connection.recv()
        print(json.dumps({"kind": name, "fails": error is not None, "error": error, "sure": sure}))
    connection.send_bytes(b"")
    worker.join()
    print(json.dumps({"event": "ready"}), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
