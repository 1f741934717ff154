#!/usr/bin/python3
"""A DataLoader of N persistent workers over a list of dicts, whose training step takes as long as one on a GPU would: neither CPU is full.

Usage: steady_loader.py WORKERS SECONDS_OF_A_STEP. Prints `ready` at the first batch, then trains until its stdin closes.
"""
import select
import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset


class Records(Dataset):
    def __init__(self, items):
        self.records = [{"id": i, "text": f"record {i} of a data set", "label": i % 2} for i in range(items)]

    def __len__(self):
        return len(self.records)

    def __getitem__(self, index):
        record = self.records[index]
        return torch.tensor([len(record["text"]), record["label"], record["id"]])


def main():
    workers, step = int(sys.argv[1]), float(sys.argv[2])
    loader = DataLoader(Records(100_000), batch_size=64, shuffle=True, num_workers=workers, persistent_workers=True)
    ready = False
    while True:
        for _ in loader:
            if not ready:
                print("ready", flush=True)
                ready = True
            time.sleep(step)
            if select.select([sys.stdin], [], [], 0)[0]:
                return


if __name__ == "__main__":
    main()
