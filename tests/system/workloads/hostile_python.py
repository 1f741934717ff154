#!/usr/bin/env python3
"""Plants copies that would mislead or break a careless profiler. The protocol is that of planted_python.py.

    hostile_python.py SCENARIO [--items N]        hostile_python.py --list

Memory that looks like Python objects but is not, unexpected names, frames that form a cycle, and processes that unmap memory and
die while they are read. The target does all of it to itself with ctypes, and undoes it before the interpreter could crash.
"""
import array
import ctypes
import gc
import mmap
import os
import signal
import sys
import types

sys.dont_write_bytecode = True

from planted_reads import make_text
from planted_truth import PAGE, Plan, address_of, into, main, module, pages_of, references, say, strided

SCENARIOS = {}
hostile = into(SCENARIOS)
WORDS = PAGE // 8


# ---- Memory full of {reference count, type} pairs without objects ----


def set_from_c(address, pages):
    for i in range(pages): ctypes.memset(address + i * PAGE, 0, 8)  # planted: set_from_c


def move_from_c(data, pages):
    address, source = data
    for i in range(pages): ctypes.memmove(address + i * PAGE + 16, source, 16)  # planted: move_from_c


def store_items(words):
    for i in range(0, len(words), WORDS): words[i] = 4  # planted: store_items


def add_everywhere(words):
    words += 1  # planted: add_everywhere


def lookalikes(kind, pages):
    """`pages` pages of {3, kind}: every aligned address looks like the header of an object of that type."""
    return array.array("Q", [3, id(kind)]).tobytes() * (PAGE // 16 * pages)


def mapped_lookalikes(kind, pages):
    area = mmap.mmap(-1, pages * PAGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    area.write(lookalikes(kind, pages))
    return area


@hostile(items=8000)
def lookalike_memset(pages):
    area = mapped_lookalikes(int, pages)
    address = address_of(area)
    return Plan(lambda data: set_from_c(address, pages), area, strided(address, pages * PAGE, "set_from_c"))


@hostile(items=8000)
def lookalike_memmove(pages):
    area = bytearray(lookalikes(int, pages + 1))
    address = address_of(area) + 15 & ~15
    source = ctypes.create_string_buffer(lookalikes(list, 1)[:16], 16)
    writes = strided(address + 16, pages * PAGE, "move_from_c")
    return Plan(lambda data: move_from_c((address, source), pages), area, writes)


@hostile(items=8000)
def lookalike_store(pages):
    """The interpreter itself stores, through a memoryview of 8-byte words, at what looks like a reference count."""
    area = mapped_lookalikes(int, pages)
    return Plan(store_items, memoryview(area).cast("Q"), strided(address_of(area), pages * PAGE, "store_items"))


@hostile(items=8000)
def lookalike_array(pages):
    words = array.array("Q")
    words.frombytes(lookalikes(float, pages))
    address, length = words.buffer_info()
    return Plan(store_items, words, strided(address, 8 * length, "store_items"))


@hostile(items=8000)
def lookalike_numpy(pages):
    words = module("numpy").frombuffer(mapped_lookalikes(int, pages), "u8")
    writes = pages_of(words.ctypes.data, pages * PAGE, "data", None, "add_everywhere")
    return Plan(add_everywhere, words, writes)


# ---- Names ----

NAMES = [
    "L" * (1 << 20),
    "\x1b[31mred\x1b[0m\x1b]0;title\x07",
    "\x9b2J\x9d0;title\x9c",
    "\u202egnirts\u202c\u2066x\u2069",
    "\r\n\b\t\x7f",
    "<img src=x onerror=alert(1)>",
    "</script><script>alert(1)</script>",
    "\"}],\"by_type\":[{\"'\\u0000\\",
    "\u2400%s%n%p%100000000d",
    "",
    "\ufeff\u200b\ufffd\U0010ffff",
]


def iterate_hostile(data):
    for x in data: pass  # planted: iterate_hostile


def with_names(function, name, file):
    """The same function under another name in another file (from 3.8; earlier versions keep the name)."""
    if sys.version_info < (3, 8):
        return function
    code = function.__code__.replace(co_name=name, co_filename=file)
    if sys.version_info >= (3, 11):
        code = code.replace(co_qualname=name)
    return types.FunctionType(code, function.__globals__)


@hostile(items=200000)
def names(items):
    """For every name, instances of a type with that name, iterated by a function with that name."""
    kinds = [type("Innocent", (object,), {"__slots__": ("a", "b", "c", "d", "e", "f", "g", "h")}) for _ in NAMES]
    for kind, name in zip(kinds, NAMES):
        kind.__name__ = name
        kind.__qualname__ = name
    groups = [[kind() for _ in range(items // len(kinds))] for kind in kinds]
    readers = [with_names(iterate_hostile, name, "/" + name) for name in NAMES]
    writes = ((id(x), "refcount", "hostile", "iterate_hostile") for group in groups for x in group)
    return Plan(lambda data: [reader(group) for reader, group in zip(readers, groups)], groups, writes)


# ---- Frames in a cycle ----


def link_to_previous():
    """(offset of a frame's pointer to its caller, whether the frame is in a PyFrameObject)."""
    if sys.version_info < (3, 11):
        return 24, False
    return (48 if sys.version_info < (3, 12) else 8), True


def address_of_frame(frame):
    return word_at(id(frame) + 24).value if link_to_previous()[1] else id(frame)


def word_at(address):
    return ctypes.c_void_p.from_address(address)


def iterate_in_a_cycle(data):
    """The frame's caller is the frame itself while the copies are made; nothing may raise or return meanwhile."""
    frame = address_of_frame(sys._getframe())
    link = word_at(frame + link_to_previous()[0])
    caller, link.value = link.value, frame
    for x in data: pass  # planted: iterate_in_a_cycle
    link.value = caller


def iterate_in_a_pair(data):
    """This frame and its caller are each other's callers."""
    frames = [address_of_frame(sys._getframe()), address_of_frame(sys._getframe(1))]
    link = word_at(frames[1] + link_to_previous()[0])
    caller, link.value = link.value, frames[0]
    for x in data: pass  # planted: iterate_in_a_pair
    link.value = caller


@hostile(items=150000)
def frame_cycle(items):
    data = [make_text(i) for i in range(items)]
    return Plan(iterate_in_a_cycle, data, references(data, "iterate_in_a_cycle"))


@hostile(items=150000)
def frame_pair(items):
    data = [make_text(i) for i in range(items)]
    return Plan(lambda data: iterate_in_a_pair(data), data, references(data, "iterate_in_a_pair"))


# ---- Many processes that unmap memory and die while they are read; without a planned truth ----


def die_in_the_middle(data, area):
    for number, x in enumerate(data):
        if number == len(data) // 2:
            os.kill(os.getpid(), signal.SIGKILL)


def unmap_what_was_copied(data, area):
    for i in range(0, len(area), PAGE):
        area[i] = 1
    area.close()
    for x in data:
        pass


def map_and_unmap(data, area):
    for i in range(300):
        other = mmap.mmap(-1, 64 * PAGE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        other.write(lookalikes(int, 64))
        area[i * PAGE % len(area)] = 1
        other.close()


def end_at_once(data, area):
    pass


def run_another_program(data, area):
    for x in data:
        pass
    os.execv("/bin/true", ["true"])


MISDEEDS = [die_in_the_middle, unmap_what_was_copied, map_and_unmap, end_at_once, run_another_program]


def fork_to(misdeed, data, area):
    pid = os.fork()
    if pid == 0:
        try:
            misdeed(data, area)
        finally:
            os._exit(0)
    return pid


def storm(rounds=20):
    """Runs rounds of five workers; half-way the parent unmaps its own memory while its workers still share it."""
    gc.disable()
    data = [make_text(i) for i in range(40000)]
    area = mapped_lookalikes(dict, 2000)
    spare = mapped_lookalikes(str, 2000)
    say(pid=os.getpid(), role="ready")
    sys.stdin.readline()
    for number in range(rounds):
        pids = [fork_to(misdeed, data, area) for misdeed in MISDEEDS]
        if number == rounds // 2:
            spare.close()
        for pid in pids:
            os.waitpid(pid, 0)
    say(pid=os.getpid(), role="parent", workers=rounds * len(MISDEEDS))


if __name__ == "__main__":
    if sys.argv[1:] == ["storm"]:
        storm()
    else:
        main(SCENARIOS)
