"""Starts a worker by spawn that touches 60 MiB at a steady rate for five seconds, and then ends.

slow_start.py WHEN      unpickled: while it unpickles what it is sent; imported: while it imports a module; kept: as it works
"""
import multiprocessing
import sys
import tempfile
import time
from pathlib import Path

HELD = []
MODULE = "import time\nheld = []\nfor _ in range(60):\n    held.append(b'x' * (1 << 20))\n    time.sleep(0.08)\n"


def grow():
    for _ in range(60):
        HELD.append(b"x" * (1 << 20))
        time.sleep(0.08)


class Sent:
    def __reduce__(self):
        return grow, ()


def work(when, folder, _):
    if when == "imported":
        sys.path.insert(0, folder)
        __import__("slow_module")
    elif when == "kept":
        grow()
    time.sleep(0.2)


if __name__ == "__main__":
    data = b"x" * (60 << 20)
    with tempfile.TemporaryDirectory() as made:
        Path(made, "slow_module.py").write_text(MODULE, encoding="utf-8")
        worker = multiprocessing.get_context("spawn").Process(
            target=work, args=(sys.argv[1], made, Sent() if sys.argv[1] == "unpickled" else None))
        worker.start()
        worker.join()
