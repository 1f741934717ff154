#!/usr/bin/env python3
"""Plants the shapes of copy-on-write growth in training: forked workers that read a data set of Python objects.

The parent builds the data, prints "ready" and waits for a line on stdin. Each epoch deals batches of 64 items to the workers in
turn, as a DataLoader does, in order or shuffled. The workers are paced, with stalls, independent of the machine's speed, and print
their private memory from smaps_rollup after each epoch. `--item small`: dicts of a few small objects; `large`: dicts with a string
of 2 to 8 KiB. `--restart`: new workers for each epoch. `--flat`: workers sleep instead. `--leak MB`: each worker also allocates
that much per second.
"""
import argparse
import json
import os
import random
import sys
import time

BATCH = 64


def say(**fields):
    os.write(1, (json.dumps(fields) + "\n").encode())


def record(index, rng, item):
    length = rng.randint(2000, 8000) if item == "large" else 240 + index % 60
    return {"id": index + 1000, "score": index / 7, "label": index % 2, "text": str(index).rjust(length, "x")}


def read(item):
    """Takes a reference to every value, and does nothing else."""
    for value in item.values():
        pass


def private_kib():
    rollup = dict(line.split(":") for line in open("/proc/self/smaps_rollup").read().splitlines()[1:])
    return sum(int(rollup[key].split()[0]) for key in ("Private_Clean", "Private_Dirty"))


def read_epoch(data, order, number, arguments, deadline):
    """Reads the batches of worker `number`, paced: batch i of n is not read before i / n of the epoch's time has passed."""
    mine = range(number * BATCH, len(order), arguments.workers * BATCH)
    started = time.monotonic()
    stalls = random.Random(number)
    kept = []
    for done, first in enumerate(mine):
        due = started + arguments.epoch_seconds * done / len(mine)
        if stalls.random() < 0.02:
            due += arguments.epoch_seconds / 50
        now = time.monotonic()
        if now > deadline:
            break
        if due > now:
            time.sleep(due - now)
        kept.append(b"x" * int(arguments.leak * 2**20 * arguments.epoch_seconds / len(mine)))
        if not arguments.flat:
            for index in order[first:first + BATCH]:
                read(data[index])
    return kept


def order_of(epoch, arguments):
    order = list(range(arguments.items))
    if arguments.order == "random":
        random.Random(epoch).shuffle(order)
    return order


def worker(data, number, epochs, arguments, deadline):
    for epoch in epochs:
        kept = read_epoch(data, order_of(epoch, arguments), number, arguments, deadline)
        say(event="epoch", epoch=epoch, worker=number, pid=os.getpid(), private_kib=private_kib(), kept=len(kept))


def fork_workers(data, epochs, arguments, deadline):
    pids = []
    for number in range(arguments.workers):
        pid = os.fork()
        if pid == 0:
            worker(data, number, epochs, arguments, deadline)
            os._exit(0)
        pids.append(pid)
    for pid in pids:
        os.waitpid(pid, 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--order", choices=("random", "sequential"), default="random")
    parser.add_argument("--item", choices=("small", "large"), default="small")
    parser.add_argument("--items", type=int, default=120_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--epoch-seconds", type=float, default=20)
    parser.add_argument("--seconds", type=float, default=3600, help="end after this many seconds, even within an epoch")
    parser.add_argument("--restart", action="store_true")
    parser.add_argument("--flat", action="store_true")
    parser.add_argument("--leak", type=float, default=0)
    arguments = parser.parse_args()
    rng = random.Random(1)
    data = [record(index, rng, arguments.item) for index in range(arguments.items)]
    # head_pages: pages with the headers of large objects, which a read writes. Only the str exceeds pymalloc's 512 bytes.
    say(event="ready", pid=os.getpid(), head_pages=len({id(record["text"]) // 4096 for record in data}))
    sys.stdin.readline()
    deadline = time.monotonic() + arguments.seconds
    generations = [[epoch] for epoch in range(arguments.epochs)] if arguments.restart else [range(arguments.epochs)]
    for epochs in generations:
        fork_workers(data, epochs, arguments, deadline)
    say(event="end")


if __name__ == "__main__":
    main()
