"""How long pickle.loads takes for each kind of object, in nanoseconds: the table of userspace/model/estimate/unpickle_cost.cc.

    python3 tests/bench/unpickle_rates.py [INTERPRETER ...]       by default those of ~/.pyenv/versions and /usr/bin/python3

Two figures for each kind: of the objects of that kind that were tried, the fastest and the slowest. Each is what one object more
costs in a list, from two lengths of it, in CPU time: the median of several passes over pickles that differ. "call" is a pickle of
nothing. Bytes of text are those of
less than 64 KiB, long ones those of more, held several at a time or one. numpy is measured where the interpreter has it. Prints, and asserts nothing.
"""
import os
import pathlib
import subprocess
import sys

PROGRAM = r"""
import array, datetime, decimal, fractions, pickle, sys, time, uuid
try:
    import numpy
except ImportError:
    numpy = None

class Plain:
    def __init__(self, value):
        self.first = self.second = self.third = value

class Slotted:
    __slots__ = "first", "second", "third"
    def __init__(self, value):
        self.first = self.second = self.third = value

PICKLES, PASSES, SECONDS = 64, 9, 0.004
FEW, MANY = 4, 36

def median(values):
    return sorted(values)[len(values) // 2]

def seconds_of(make):
    pickles = [pickle.dumps(make(i)) for i in range(PICKLES)]
    loads, clock = pickle.loads, time.process_time
    def one_pass(rounds):
        begin = clock()
        for _ in range(rounds):
            for one in pickles:
                loads(one)
        return (clock() - begin) / rounds / PICKLES
    rounds = max(1, int(SECONDS / max(one_pass(2) * PICKLES, 1e-7)))
    return median([one_pass(rounds) for _ in range(PASSES)])

def each(make, few=FEW, many=MANY):  # one object more; make(n) makes a different object for each n
    def filled(length):
        return seconds_of(lambda i: [make(i * 1000 + j) for j in range(length)])
    return max((filled(many) - filled(few)) / (many - few), 0)

def words(length):
    return lambda n: ("%08d" % n).ljust(length, "x")

def wide(length):
    return lambda n: ("%d" % n).ljust(length // 2, "\xe4")

def byte(make, short, long, few=1, many=4):
    return (each(make(long), few, many) - each(make(short), few, many)) / (long - short)


none = each(lambda n: None)
again = [none, each(lambda n, one="the same": one)]
number = [each(lambda n: n % 256), each(lambda n: n + (1 << 40)), each(lambda n: -n - 70000)]
floats = [each(lambda n: n * 0.5)]
text = each(words(8))
keys = (seconds_of(lambda i: {"key%d" % j: None for j in range(36)}) - seconds_of(lambda i: {"key%d" % j: None for j in range(4)})) / 32 - none
texts = [text, keys, each(lambda n: b"%08d" % n)]
def lone_byte(make, short, long):
    return (seconds_of(make(long)) - seconds_of(make(short))) / (long - short)
text_byte = [byte(words, 64, 4096), byte(words, 4096, 1 << 15), lone_byte(words, 64, 4096), lone_byte(words, 4096, 1 << 15)]
long_byte = [byte(words, 1 << 16, 1 << 20), lone_byte(words, 1 << 16, 1 << 20)]
wide_byte = [byte(wide, 64, 4096), byte(wide, 4096, 1 << 18)]
wide_text = [each(wide(8)), each(lambda n: chr(0x4e00 + n % 999) + "%d" % n)]
lists = [each(lambda n: [None]) - none, each(lambda n: [None] * 8) - 8 * none, each(lambda n: [])]
tuples = [each(lambda n: (None,)) - none, each(lambda n: (n % 200,) * 3) - 3 * number[0], each(lambda n: (n % 200,) * 8) - 8 * number[0]]
names = ["name%d" % i for i in range(8)]
dicts = [each(lambda n: {}), each(lambda n: {name: None for name in names[:2]}) - 4 * none, each(lambda n: {name: None for name in names}) - 16 * none]
sets = [each(lambda n: set()), each(lambda n: {1, 2, 3}) - 3 * number[0], each(lambda n: set(range(8))) - 8 * number[0]]
instances = [each(lambda n: Plain(None)) - 3 * none, each(lambda n: Slotted(None)) - 3 * none]
one = seconds_of(lambda i: [Plain(None)]) - seconds_of(lambda i: [None])
classes = [max(one - max(instances) - 3 * max(texts), one / 8), one - min(instances) - 3 * text]
made = [lambda n: datetime.date.fromordinal(n + 1), lambda n: datetime.datetime.fromtimestamp(n), lambda n: decimal.Decimal(n), lambda n: complex(n, 1),
        lambda n: fractions.Fraction(n, 7), lambda n: uuid.UUID(int=n), lambda n: range(n), lambda n: __import__("pathlib").PurePosixPath("/a/b%d.jpg" % n)]
reduced = [each(make) for make in made] + [seconds_of(lambda i: [make(i)]) - seconds_of(lambda i: [None]) for make in made]
call = [seconds_of(lambda i: None), seconds_of(lambda i: i)]
rows = dict(call=call, number=number, float=floats, text=texts, text_byte=text_byte, long_byte=long_byte, wide_text=wide_text, wide_byte=wide_byte, again=again, list=lists, tuple=tuples,
            dict=dicts, set=sets, instance=instances, **{"class": classes}, reduced=reduced)
kinds = [lambda n: array.array("d", [n])]
if numpy:
    kinds += [lambda n: numpy.full(4, n), lambda n: numpy.full((4, 4), n, "f4")]
    def full(length):
        return lambda n: numpy.full(length, n % 256, "u1")
    rows["array_byte"] = [lone_byte(full, 64, 1 << 15), byte(full, 64, 1 << 15)]
rows["array"] = [each(make) for make in kinds] + [seconds_of(make) - call[0] for make in kinds]
print("%d.%d" % sys.version_info[:2], *("%s=%.3g,%.3g" % (name, 1e9 * max(min(found), 0), 1e9 * max(max(found), 0)) for name, found in rows.items()))
"""


def interpreters():
    found = sorted(pathlib.Path.home().glob(".pyenv/versions/3.*/bin/python"), key=lambda path: int(path.parts[-3].split(".")[1]))
    return [*map(str, found), "/usr/bin/python3"]


def main():
    lines = []
    for words in sys.argv[1:] or interpreters():
        done = subprocess.run([*words.split(), "-c", PROGRAM], stdout=subprocess.PIPE, universal_newlines=True, check=False)
        if done.returncode == 0:
            version, *figures = done.stdout.split()
            lines.append((version, dict(figure.split("=") for figure in figures)))
            print(words, version, file=sys.stderr)
    kinds = list(dict.fromkeys(kind for _, figures in lines for kind in figures))
    print(f"{os.cpu_count()} CPUs; ns, the fastest and the slowest of what was tried")
    print("kind".ljust(11), *(version.rjust(15) for version, _ in lines))
    for kind in kinds:
        print(kind.ljust(11), *(figures.get(kind, "-").replace(",", " - ").rjust(15) for _, figures in lines))


if __name__ == "__main__":
    main()
