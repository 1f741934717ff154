#!/usr/bin/python3
"""A real PyTorch DataLoader of any version, read for one epoch by two persistent workers, and the truth about their copies.

Prints "ready" and waits for a line on stdin before it starts workers; prints "read" and waits again, while the workers are
still there; then ends. `--start default` leaves the start method to Python. The truth is about workers that were forked.
"""
import argparse
import gc
import os
import platform
import random
import sys
from multiprocessing import get_start_method

import torch
from torch.utils.data import DataLoader, Dataset

import planted_truth
from planted_truth import say

# A forkserver imports this file before it forks, so its workers have the collector off as well. It would write the header of every
# tracked object, and a worker that was forked from the forkserver runs it soon.
if "--collect" not in sys.argv:
    gc.disable()


def read(records, index):
    record = records[index]  # planted: record
    return len(record["text"])  # planted: text


class Records(Dataset):
    def __init__(self, items):
        rng = random.Random(1)
        self.data = [{"id": i + 1000, "text": str(i).rjust(rng.randint(100, 280), "x"), "label": i % 2} for i in range(items)]

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        return read(self.data, index)

    def writes(self):
        yield from planted_truth.references(self.data, "record")
        yield from planted_truth.references((record["text"] for record in self.data), "text")


class Tensors(Dataset):
    """Small tensors, which a worker stacks to a batch. What that writes is torch's own, so nothing is planned."""

    def __init__(self, items):
        self.data = [torch.tensor([i, i + 1.0]) for i in range(items)]

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        return self.data[index]

    def writes(self):
        return ()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", choices=("records", "tensors"))
    parser.add_argument("--start", default="fork")
    parser.add_argument("--items", type=int, default=150_000)
    parser.add_argument("--collect", action="store_true", help="leave the collector on")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    data = (Records if arguments.data == "records" else Tensors)(arguments.items)
    loader = DataLoader(data, batch_size=256, shuffle=True, num_workers=2, persistent_workers=True,
                        multiprocessing_context=None if arguments.start == "default" else arguments.start)
    planned, _ = planted_truth.first_writers(data.writes())
    zero, ranges = planted_truth.zero_frame(), planted_truth.private_ranges()
    before = []  # each fork of a worker; between two of them the trainer copies pages
    os.register_at_fork(before=lambda: before.append(planted_truth.frames_of(os.getpid(), ranges)))
    say(event="ready", python=platform.python_version(), torch=torch.__version__, method=get_start_method(), planned=len(planned))
    sys.stdin.readline()
    batches = iter(loader)
    for _ in batches:
        pass
    workers = [{"pid": worker.pid} for worker in batches._workers]
    for worker, frames in zip(workers, before):
        worker.update(planted_truth.truth(planned, frames, planted_truth.frames_of(worker["pid"], ranges), zero, globals()))
    say(event="read", workers=workers)
    sys.stdin.readline()


if __name__ == "__main__":
    main()
