#!/usr/bin/python3
"""A real PyTorch DataLoader that runs into a limit, or does not.

  keep     the trainer keeps every batch: /dev/shm fills up and a worker dies of SIGBUS (torch before 2.10)
  drop     the trainer drops every batch: /dev/shm holds only what is in flight, epoch by epoch
  leak     a worker's dataset caches what it has read: new memory without bound
  copy     the workers read an inherited list of dicts: copies up to a ceiling

Prints its pid and its progress as JSON lines, and waits for a line on stdin before it trains.
"""
import argparse
import json
import os
import random
import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset


class Items(Dataset):
    def __init__(self, arguments):
        self.kind, self.count, self.floats = arguments.kind, arguments.items, arguments.item_kb * 256
        self.pause, self.cache = arguments.pause_ms / 1000, []
        rng = random.Random(1)
        rows = arguments.rows if arguments.kind == "copy" else 0
        self.rows = [{"id": i, "text": f"row {rng.random()}", "label": i % 2} for i in range(rows)]

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        time.sleep(self.pause)
        if self.kind == "leak":
            self.cache.append(bytearray(b"x" * (self.floats * 4)))
        if self.rows:
            part = len(self.rows) // self.count
            return torch.tensor([len(row["text"]) for row in self.rows[index * part:(index + 1) * part]])
        return torch.ones(self.floats)


def say(event, **fields):
    print(json.dumps({"role": event, "pid": os.getpid(), **fields}), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kind", choices=["keep", "drop", "leak", "copy"], default="keep")
    parser.add_argument("--items", type=int, default=400)
    parser.add_argument("--item-kb", type=int, default=256)
    parser.add_argument("--pause-ms", type=float, default=10)
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--prefetch", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    loader = DataLoader(Items(arguments), batch_size=arguments.batch_size, shuffle=True, num_workers=arguments.workers,
                        prefetch_factor=arguments.prefetch)
    kept = []
    say("ready")
    sys.stdin.readline()
    for epoch in range(arguments.epochs):
        for batch in loader:
            if arguments.kind == "keep":
                kept.append(batch)
        say("epoch", epoch=epoch)
    say("end")


if __name__ == "__main__":
    main()
