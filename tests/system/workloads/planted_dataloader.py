#!/usr/bin/python3
"""A real PyTorch DataLoader over a list of dicts, read by forked workers: what the forecast must handle in practice.

Prints "ready" and waits for a line on stdin before it forks. Then it takes batches, epoch after epoch, at the pace of a training
step; the workers run ahead by their prefetch and wait. `--item small`: dicts of a few small objects; `large`: dicts with a string
of 4 KiB. `--epoch-seconds 0`: as fast as possible.
"""
import argparse
import json
import os
import random
import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset


def say(**fields):
    os.write(1, (json.dumps(fields) + "\n").encode())


class Records(Dataset):
    def __init__(self, items, item):
        rng = random.Random(1)
        self.records = [{"id": i + 1000, "text": self._text(rng, i, item), "label": i % 2, "score": i / items}
                        for i in range(items)]

    @staticmethod
    def _text(rng, index, item):
        return str(index).rjust(4096 if item == "large" else rng.randint(60, 280), "x")

    def __len__(self):
        return len(self.records)

    def __getitem__(self, index):
        record = self.records[index]
        return torch.tensor([record["id"], len(record["text"])]), record["label"], record["score"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--item", choices=("small", "large"), default="small")
    parser.add_argument("--items", type=int, default=120_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--epoch-seconds", type=float, default=10)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--in-order", action="store_true")
    parser.add_argument("--persistent", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    data = Records(arguments.items, arguments.item)
    loader = DataLoader(data, batch_size=arguments.batch_size, shuffle=not arguments.in_order,
                        num_workers=arguments.workers, persistent_workers=arguments.persistent)
    say(event="ready", pid=os.getpid())
    sys.stdin.readline()
    for _ in range(arguments.epochs):
        started = time.monotonic()
        for number, _ in enumerate(loader):
            time.sleep(max(started + arguments.epoch_seconds * number / len(loader) - time.monotonic(), 0))
    say(event="end")


if __name__ == "__main__":
    main()
