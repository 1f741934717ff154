"""Forks workers that each copy a page of every 2 MiB of 32 GiB of address space, of which 64 MiB are memory: scattered_copies.py WORKERS.

After 20 s it prints each worker's private memory as smaps_rollup has it, {"pid", "private_bytes"}, and kills them.
"""
import ctypes
import json
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import truth  # noqa: E402

BYTES, STEP = 32 << 30, 2 << 20
PROT, ANONYMOUS_NORESERVE, MADV_NOHUGEPAGE = 3, 0x4022, 15


def write(memory, text):
    """Takes some 10 s, so that workers are swept meanwhile."""
    for offset in range(0, BYTES, STEP):
        memory[offset] = text
        if text == b"y" and offset % (1024 * STEP) == 0:
            time.sleep(0.6)


libc = ctypes.CDLL(None)
libc.mmap.restype, libc.mmap.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
address = libc.mmap(None, BYTES, PROT, ANONYMOUS_NORESERVE, -1, 0)
assert libc.madvise(address, BYTES, MADV_NOHUGEPAGE) == 0
memory = (ctypes.c_char * BYTES).from_address(address)
write(memory, b"x")
workers = []
for _ in range(int(sys.argv[1])):
    workers.append(os.fork())
    if workers[-1] == 0:
        time.sleep(2)
        write(memory, b"y")
        time.sleep(1000)
time.sleep(20)
for pid in workers:
    print(json.dumps({"pid": pid, "private_bytes": truth.private_bytes(pid)}), flush=True)
for pid in workers:
    os.kill(pid, 9)
