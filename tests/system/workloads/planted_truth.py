"""What all planted Python workloads share: the truth, the two processes and the handshake with the test.

A scenario is a function that makes a Plan: data, an access to it in one worker, and the writes of that access in order. The truth
is independent of any profiler: before the fork the parent walks the writes and notes the first one on every page. Afterwards page
frames show what happened: planned pages that have moved, and pages that moved unplanned (the interpreter's own). The parent
reports what the worker did, because reporting would copy pages in the worker.

Automatic collection is always off, because it would write the header of every tracked object at an unplanned moment. Runs under
CPython 3.6 and later.
"""
import argparse
import array
import collections
import ctypes
import dis
import gc
import json
import mmap
import os
import sys
import time
import types

PAGE_BITS = 12
PAGE = 1 << PAGE_BITS
PRESENT = 1 << 63
FRAME = (1 << 55) - 1

# What the worker does with `data`, and the resulting writes: (address, cause, type, name of the planted line).
Plan = collections.namedtuple("Plan", "access data writes")
Scenario = collections.namedtuple("Scenario", "make items since")


class Skip(Exception):
    """Why this interpreter can't plant the scenario."""


def into(scenarios):
    """Returns the decorator that adds a scenario to this dict, under its name, with its default number of items."""
    def scenario(items, since=(3, 6)):
        def enter(make):
            scenarios[make.__name__] = Scenario(make, items, since)
            return make
        return enter
    return scenario


def module(name):
    try:
        return __import__(name)
    except ImportError:
        raise Skip("this interpreter has no module " + name)


# ---- Writes ----


def references(objects, line):
    """The writes of taking a reference to each of `objects` in order."""
    return ((id(x), "refcount", type(x).__name__, line) for x in objects)


def pages_of(address, size, cause, kind, line):
    first, last = address >> PAGE_BITS, address + size - 1 >> PAGE_BITS
    return ((page << PAGE_BITS, cause, kind, line) for page in range(first, last + 1))


def strided(address, size, line):
    """Real writes, one per page, starting with the first byte."""
    return ((address + offset, "data", None, line) for offset in range(0, size, PAGE))


def address_of(buffer):
    return ctypes.addressof(ctypes.c_char.from_buffer(buffer))


# ---- Planted lines: each ends with a comment that names it ----


def marked_line(file, name):
    with open(file) as source:
        return next((number for number, text in enumerate(source, 1) if text.rstrip().endswith("# planted: " + name)), None)


def lines_of(function):
    return {function.__code__.co_firstlineno}.union(line for _, line in dis.findlinestarts(function.__code__))


def place_of(name, namespace):
    """File, function and number of the planted line in the module with this namespace."""
    line = marked_line(namespace["__file__"], name)
    function = next(x for x in namespace.values() if isinstance(x, types.FunctionType) and x.__globals__ is namespace
                    and line in lines_of(x))
    return {"file": function.__code__.co_filename, "function": function.__name__, "line": line}


# ---- Page frames ----


def first_writers(writes):
    """{page: (cause, type, line)} of the first write to it, and {page: address} of that write."""
    pages, addresses, known = {}, {}, {}
    for address, *who in writes:
        page = address >> PAGE_BITS
        if page not in pages:  # shares tuples, because a collection writes every one
            pages[page] = known.setdefault(tuple(who), tuple(who))
            addresses[page] = address
    return pages, addresses


def private_ranges():
    """[(first page, pages)] of the writable private mappings."""
    ranges = []
    with open("/proc/self/maps") as maps:
        for text in maps:
            span, rights = text.split()[:2]
            if rights[1] == "w" and rights[3] == "p":
                begin, end = (int(number, 16) >> PAGE_BITS for number in span.split("-"))
                ranges.append((begin, end - begin))
    return ranges


def frames_of(pid, ranges):
    """[(first page, entries of the page map)]."""
    entries = []
    fd = os.open("/proc/%d/pagemap" % pid, os.O_RDONLY)
    for begin, count in ranges:
        entries.append((begin, array.array("Q", os.pread(fd, 8 * count, 8 * begin))))
    os.close(fd)
    return entries


def zero_frame():
    area = mmap.mmap(-1, PAGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    area[0]
    address = address_of(area)
    (_, entries), = frames_of(os.getpid(), [(address >> PAGE_BITS, 1)])
    return entries[0] & FRAME


def moved_pages(before, after, zero):
    """The pages that existed before the fork, and those of them that are in another frame in the worker now."""
    inherited, moved = set(), set()
    for (begin, old), (_, new) in zip(before, after):
        for page, was, now in zip(range(begin, begin + len(old)), old, new):
            if was & PRESENT and was & FRAME != zero:
                inherited.add(page)
                if now & PRESENT and (now ^ was) & FRAME:
                    moved.add(page)
    return inherited, moved


def sums(planned, pages, field):
    return dict(collections.Counter(planned[page][field] for page in pages if planned[page][field]))


def truth(planned, before, after, zero, namespace):
    inherited, moved = moved_pages(before, after, zero)
    planted = inherited.intersection(planned)
    lines = sums(planned, planted, 2)
    return {
        "planted_copies": len(planted), "pagemap_copies": len(moved),
        "missed": len(planted - moved), "unplanned": len(moved - planted),
        "by_cause": sums(planned, planted, 0), "by_type": sums(planned, planted, 1),
        "by_line": [dict(place_of(name, namespace), copies=lines[name]) for name in sorted(lines, key=lines.get, reverse=True)],
    }


# ---- The two processes ----


def say(**fields):
    os.write(1, (json.dumps(fields) + "\n").encode())


def work(plan, done, end):
    """Runs in the worker. Never returns."""
    status = 99
    try:
        kept = plan.access(plan.data)
        os.write(done, b".")
        os.read(end, 1)
        del kept
        status = 0
    finally:
        os._exit(status)


def plant(plan, namespace, planned_file, linger):
    """Forks the worker; returns its pid and the truth about it."""
    planned, addresses = first_writers(plan.writes)
    if planned_file:
        with open(planned_file, "w") as file:
            json.dump([[addresses[page], who[0]] for page, who in planned.items()], file)
    say(pid=os.getpid(), role="ready", planned=len(planned))
    sys.stdin.readline()
    zero, ranges = zero_frame(), private_ranges()
    done_read, done = os.pipe()
    end, end_write = os.pipe()
    before = frames_of(os.getpid(), ranges)
    pid = os.fork()
    if pid == 0:
        work(plan, done, end)
    os.close(done)
    if not os.read(done_read, 1):
        raise SystemExit("the worker failed")
    after = frames_of(pid, ranges)
    time.sleep(linger)
    os.write(end_write, b".")
    os.waitpid(pid, 0)
    return pid, truth(planned, before, after, zero, namespace)


def parse_arguments(scenarios):
    parser = argparse.ArgumentParser()
    parser.add_argument("scenario", nargs="?", choices=sorted(scenarios))
    parser.add_argument("--items", type=int, default=0, help="number of objects, numbers or bytes (0: the scenario's default)")
    parser.add_argument("--planned", metavar="FILE", help="write the first [address, cause] of every planned page to this file")
    parser.add_argument("--linger", type=float, default=0, metavar="SECONDS", help="seconds that the worker lives on")
    parser.add_argument("--list", action="store_true", help="print the names of the scenarios")
    return parser.parse_args()


def main(scenarios):
    arguments = parse_arguments(scenarios)
    if arguments.list or not arguments.scenario:
        print("\n".join(scenarios))
        return
    chosen = scenarios[arguments.scenario]
    version = "%d.%d.%d" % sys.version_info[:3]
    gc.disable()
    try:
        if sys.version_info < chosen.since:
            raise Skip("needs Python %d.%d" % chosen.since)
        plan = chosen.make(arguments.items or chosen.items)
    except Skip as reason:
        say(pid=os.getpid(), role="skipped", python=version, reason=str(reason))
        return
    gc.collect()
    pid, facts = plant(plan, chosen.make.__globals__, arguments.planned, arguments.linger)
    say(pid=pid, role="worker", scenario=arguments.scenario, python=version, **facts)
    say(pid=os.getpid(), role="parent")
