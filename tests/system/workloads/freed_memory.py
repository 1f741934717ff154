"""A parent that has freed every other of its blocks before it forks, and a worker that allocates, or really writes.

freed_memory.py MODE [KIND] prints one line of JSON with what the worker planted. Blocks are too small for malloc to map them, so they
are neighbours in its heap. Modes:
  allocate      the worker allocates as much as was freed, and fills it
  read-file     the same, filled by read(2)
  write         the worker writes to the blocks that were kept, in place
  late          the same, while the parent frees them after the fork
  worker-frees  the worker frees inherited blocks, and allocates in their place
  trim          as allocate, after malloc_trim(0)
Kinds of blocks: bytearray, numpy, torch.
"""
import ctypes
import gc
import json
import os
import sys
import time

BLOCKS, BYTES = 800, 100_000
LIBC = ctypes.CDLL(None)
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # mallopt(3)
SETTLE, PAUSE = 1.0, 0.4  # seconds: until the recorder knows the program; between steps


def new_block(kind, value):
    if kind == "numpy":
        return numpy.full(BYTES, value, "uint8")
    if kind == "torch":
        return torch.full((BYTES,), value, dtype=torch.uint8)
    return bytearray(bytes([value]) * BYTES)


def write_in_place(blocks):
    for block in blocks:
        for at in range(0, BYTES, 1024):
            block[at] = 3


def allocate(kind):
    return [new_block(kind, 5) for _ in range(BLOCKS)]


def read_file():
    LIBC.malloc.restype = ctypes.c_void_p
    with open("/dev/zero", "rb", 0) as zeroes:
        for _ in range(BLOCKS):
            zeroes.readinto((ctypes.c_char * BYTES).from_address(LIBC.malloc(ctypes.c_size_t(BYTES))))


def work(mode, kind, kept):
    if mode in ("write", "late"):
        write_in_place(kept)
    elif mode == "read-file":
        read_file()
    else:
        if mode == "worker-frees":
            kept.clear()
        return allocate(kind)


def main():
    mode, kind = sys.argv[1], (sys.argv[2:] or ["bytearray"])[0]
    kept, freed = [], []
    # Else a large free at the end of the heap gives memory back, and thresholds depend on what was freed before.
    LIBC.mallopt(M_TRIM_THRESHOLD, 1 << 30)
    LIBC.mallopt(M_MMAP_THRESHOLD, 1 << 25)
    for i in range(BLOCKS):
        kept.append(new_block(kind, 1))
        freed.append(new_block(kind, 2))
    live = mode in ("late", "worker-frees")
    if not live:
        freed.clear()
    if mode == "trim":
        LIBC.malloc_trim(0)
    gc.freeze() if hasattr(gc, "freeze") else gc.disable()
    time.sleep(SETTLE)
    pid = os.fork()
    if pid == 0:
        time.sleep(PAUSE)
        held = work(mode, kind, kept)
        time.sleep(4 * PAUSE)  # past the next tick, which is due within a second
        del held
        os._exit(0)
    if mode == "late":
        kept.clear()
        freed.clear()
    _, status = os.waitpid(pid, 0)
    print(json.dumps({"event": "done", "worker": pid, "pages": BLOCKS * BYTES // 4096, "status": status, "libc": os.confstr("CS_GNU_LIBC_VERSION")}), flush=True)


kind = (sys.argv[2:] or ["bytearray"])[0]
if kind == "numpy":
    import numpy
elif kind == "torch":
    import torch
if __name__ == "__main__":
    main()
