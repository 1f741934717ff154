"""Processes that do something to what they share other than to read it in workers: verdict_shared.py KIND.

verdict_cases.py holds what is true of each. KIND: "exits": forked children end with sys.exit(); "clears": workers clear() the list that
they inherited; "execs": children read it and call exec; "rereads": the parent reads it; "releases": the parent deletes it; "grows":
the parent keeps 4 MiB each 0.2 s, its workers are idle; "manager": a Manager's dict does.
"""
import gc
import multiprocessing
import os
import sys
import time

ITEMS = 400_000
STEPS, STEP_BYTES = 60, 4 << 20


def idle(_):
    time.sleep(5)


def clear(data):
    data.clear()  # planted: clears
    time.sleep(3)


def fork(children):
    """Forks children, which go on behind the call; waits for their end in the parent."""
    pids = []
    for _ in range(children):
        pid = os.fork()
        if pid == 0:
            return
        pids.append(pid)
    for pid in pids:
        os.waitpid(pid, 0)
    os._exit(0)


def fill(shared):
    for step in range(STEPS):
        shared[step] = os.urandom(STEP_BYTES)
        time.sleep(0.2)


def read(data):
    return sum(map(len, data))  # planted: rereads


def grow(kept):
    for _ in range(STEPS):
        kept.append(os.urandom(STEP_BYTES))  # planted: grows
        time.sleep(0.2)


def with_workers(target, argument, then=lambda: None):
    workers = [multiprocessing.get_context("fork").Process(target=target, args=(argument,)) for _ in range(2)]
    for worker in workers:
        worker.start()
    time.sleep(1)
    then()
    for worker in workers:
        worker.join()


def main():
    kind = sys.argv[1]
    data = [] if kind in ("grows", "manager") else [f"item {i} of the data" for i in range(ITEMS)]
    gc.freeze()
    time.sleep(1.2)
    if kind == "exits":
        fork(3)
        time.sleep(1)
        sys.exit(0)
    if kind == "execs":
        fork(3)
        sum(map(len, data))  # planted: execs
        os.execv("/bin/sleep", ["sleep", "2"])
    if kind == "clears":
        with_workers(clear, data)
    if kind == "rereads":
        with_workers(idle, None, lambda: read(data))
    if kind == "releases":
        with_workers(idle, None, data.clear)
    if kind == "grows":
        with_workers(time.sleep, 13, then=lambda: grow([]))
    if kind == "manager":
        with multiprocessing.Manager() as manager:
            with_workers(fill, manager.dict())


if __name__ == "__main__":
    main()
