#!/usr/bin/python3
"""Fills its memory cgroup with page cache, which does not count as growth: reads files of twice the limit (read), maps and touches
them (mapped), or reads many small ones (small), while a forked worker does the same. Holds --base MB of its own memory.
"""
import argparse
import json
import mmap
import os
import sys
import tempfile
from pathlib import Path

MB = 1 << 20


def read(path):
    with open(path, "rb", buffering=0) as file:
        buffer = bytearray(MB)
        while file.readinto(buffer):
            pass


def touch(path):
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as area:
        return sum(area[at] for at in range(0, len(area), 4096))


def work(kind, folder, count):
    for _ in range(2):
        for path in sorted(folder.iterdir())[:count]:
            (touch if kind == "mapped" else read)(path)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kind", choices=["read", "mapped", "small"], default="read")
    parser.add_argument("--base", type=int, default=50)
    parser.add_argument("--total", type=int, default=800)
    arguments = parser.parse_args()
    held = bytearray(os.urandom(4096)) * (arguments.base * MB // 4096)
    print(json.dumps({"pid": os.getpid(), "role": "ready"}), flush=True)
    sys.stdin.readline()
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        piece = 100 * 1024 if arguments.kind == "small" else 50 * MB
        count = arguments.total * MB // piece
        for i in range(count):
            (Path(folder) / f"{i:05}").write_bytes(held[:piece] if piece <= len(held) else bytes(piece))
        worker = os.fork()
        work(arguments.kind, Path(folder), count)
        if worker == 0:
            os._exit(0)
        os.waitpid(worker, 0)


if __name__ == "__main__":
    main()
