"""Workers whose memory has one planted shape per run: worker_memory.py SHAPE START_METHOD [FOLDER].

A shape is a function that is called once with the parent's data and returns the function of a step; there are 40 steps of 0.1 s.
Prints the pid of each worker as a JSON line. test_diagnoses.py holds the expected diagnoses.
"""
import gc
import json
import mmap
import multiprocessing
import os
import sys
import time

STEPS, PAUSE = 40, 0.1
MIB = 1 << 20
DATA = None  # inherited by forked workers
SHAPES = {}


def shape(function):
    SHAPES[function.__name__] = function
    return function


def touched(size):
    return bytearray(b"x") * size


class Node:
    """A node that refers to itself, so that only the collector frees it."""

    def __init__(self):
        self.other, self.load = self, touched(1024)


def make_cycles():
    for _ in range(1000):
        Node()


# ---- Shapes ----


@shape
def leak(_):
    kept = []
    return lambda step: kept.append(touched(MIB))


@shape
def cycles(_):
    return lambda step: make_cycles()


@shape
def collector_off_cycles(_):
    return lambda step: make_cycles()


@shape
def collector_off_flat(_):
    return lambda step: touched(MIB)


@shape
def collector_off_in_worker(_):
    gc.disable()
    return lambda step: make_cycles()


@shape
def start_up(_):
    kept = touched(50 * MIB)
    return lambda step: len(kept)


@shape
def allocates_and_frees(_):
    return lambda step: touched(8 * MIB)


@shape
def cache_that_fills(_):
    """Approaches 48 MiB; each step adds a thirteenth of what is missing."""
    kept, missing = [], 48 * MIB

    def step(number):
        nonlocal missing
        take = missing // 13
        missing -= take
        kept.append(touched(take))
    return step


@shape
def reads_objects(data):
    part = len(data) // STEPS + 1
    return lambda step: [len(text) for text in data[step * part:(step + 1) * part]]


@shape
def reads_buffer(data):
    part = len(data) // STEPS
    return lambda step: sum(data[part_of(data, step)])


@shape
def idle(_):
    return lambda step: None


# ---- Mapped files: 96 MiB, a fortieth per step ----


def mapped(folder, mode):
    import numpy  # the parent has imported it, too
    return numpy.memmap(os.path.join(folder, "array.npy"), dtype="u1", mode=mode)


def part_of(array, step):
    part = len(array) // STEPS
    return slice(step * part, (step + 1) * part, mmap.PAGESIZE)


@shape
def memmap_read(folder):
    array = mapped(folder, "r")
    return lambda step: int(array[part_of(array, step)].sum())


@shape
def memmap_written_privately(folder):
    array = mapped(folder, "c")
    return lambda step: array.__setitem__(part_of(array, step), 1)


@shape
def memmap_changed_privately(folder):
    array = mapped(folder, "c")

    def step(number):
        array[part_of(array, number)] += 1  # reads a page before it writes to it
    return step


@shape
def memmap_in_memory(folder):  # on a tmpfs, so it is shared memory and not file pages
    return memmap_read(folder)


@shape
def memmap_read_and_leak(folder):
    array, kept = mapped(folder, "r"), []

    def step(number):
        array[part_of(array, number)].sum()
        kept.append(touched(MIB))
    return step


# ---- The parent ----


def work(name, data, steps):
    os.write(1, (json.dumps({"worker": os.getpid()}) + "\n").encode())  # a single write, because two workers share the pipe
    step = SHAPES[name](DATA if data is None else data)
    for number in range(steps):
        step(number)
        time.sleep(PAUSE)


def make_data(name, folder):
    if name.startswith("memmap"):
        import numpy
        assert numpy
        with open(os.path.join(folder, "array.npy"), "wb") as file:
            for _ in range(96):
                file.write(b"\1" * MIB)
        return folder
    if name in ("reads_objects", "big_payload"):
        return [f"{number:0200d}" for number in range(300_000)]  # 76 MB
    if name in ("reads_buffer", "parent_reuses"):
        return touched(64 * MIB)
    return None


def main():
    global DATA
    name, method, folder = (sys.argv[1:] + [""])[:3]
    epochs = 4 if name == "epochs" else 1
    context = multiprocessing.get_context(method)
    DATA = make_data(name, folder)
    if name.startswith("collector_off_") and name != "collector_off_in_worker":
        gc.disable()
    run = {"epochs": "leak"}.get(name, name if name in SHAPES else "idle")
    for _ in range(epochs):
        workers = [context.Process(target=work, args=(run, None if method == "fork" else DATA, STEPS // epochs)) for _ in range(2)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    if name == "parent_reuses":
        DATA[::mmap.PAGESIZE] = touched(len(DATA) // mmap.PAGESIZE)


if __name__ == "__main__":
    main()
