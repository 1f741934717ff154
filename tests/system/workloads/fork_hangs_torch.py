"""Forked workers of torch that hang in OpenMP: fork_hangs_torch.py process|pool|loader|cured. Says what fork_hangs.py says.
loader_lock and loader_rlock: workers of a DataLoader that wait for a lock of a thread that stayed in the parent.

The parent starts libgomp's team by an operation on 1 Mi floats, and so does the child; the watchdog decides which came through.
"""
import multiprocessing
import os
import signal
import sys
import threading

import torch

import fork_hangs

ITEMS = 1 << 20
# Slower to judge than fork_hangs.py: torch may be read from a cold disk in the child.
WATCHDOG = 4


def add(_=0):
    return float((torch.ones(ITEMS) + torch.ones(ITEMS)).sum())


def cured():
    torch.set_num_threads(1)
    return add()


class Additions(torch.utils.data.Dataset):
    """torch's own loop calls set_num_threads(1) in each worker: it comes through."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        return add()


class Locked(torch.utils.data.Dataset):
    """The first items come: by then the worker has multiprocessing's own threads, too."""

    def __init__(self, lock):
        self.lock = lock

    def __len__(self):
        return 100

    def __getitem__(self, index):
        if index >= 6:
            fork_hangs.take(self.lock)
        return torch.ones(10)


def locked(lock):
    fork_hangs.held_while_forking(lock)
    for _ in torch.utils.data.DataLoader(Locked(lock), batch_size=2, num_workers=2, multiprocessing_context="fork"):
        pass


def process(target=add):
    worker = multiprocessing.get_context("fork").Process(target=target)
    worker.start()
    worker.join()


def pool():
    with multiprocessing.get_context("fork").Pool(2) as workers:
        workers.map_async(add, range(4))
        workers.close()
        workers.join()


def loader():
    for _ in torch.utils.data.DataLoader(Additions(), num_workers=2, multiprocessing_context="fork"):
        pass


def main(kind):
    torch.set_num_threads(4)
    add()

    def watch():
        through = finished.wait(WATCHDOG)
        fork_hangs.say(event="judged", child=0, hung=not through)
        sys.stdin.readline()
        for child in multiprocessing.active_children():
            os.kill(child.pid, signal.SIGKILL)
        os._exit(0)
    finished = threading.Event()
    threading.Thread(target=watch, daemon=True).start()
    fork_hangs.say(event="forked", child=0, parent=os.getpid())
    {"process": process, "pool": pool, "loader": loader, "cured": lambda: process(cured),
     "loader_lock": lambda: locked(threading.Lock()), "loader_rlock": lambda: locked(threading.RLock())}[kind]()
    finished.set()
    threading.Event().wait(3600)


if __name__ == "__main__":
    main(sys.argv[1])
