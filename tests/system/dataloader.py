#!/usr/bin/python3
"""Trains a small text classifier with PyTorch: a dataset of Python dicts, and a DataLoader with forked workers.

This is deliberately an ordinary training script: its workers only read the dataset, yet each ends up with a copy of it. Prints
its pid and its progress as JSON lines. The demo and the system tests profile it.
"""
import argparse
import json
import os
import random
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

WORDS = "the a of to in memory page worker batch copy fork share grow limit train step loss epoch token model".split()
BUCKETS = 1024


class Reviews(Dataset):
    """Records as a JSON file yields them: one dict each."""

    def __init__(self, items, words_per_item):
        rng = random.Random(1)
        self.records = [
            {"id": i, "text": " ".join(rng.choices(WORDS, k=words_per_item)), "label": i % 2, "score": i / items}
            for i in range(items)
        ]

    def __len__(self):
        return len(self.records)

    def __getitem__(self, index):
        record = self.records[index]
        tokens = torch.tensor([hash(word) % BUCKETS for word in record["text"].split()])
        return tokens, record["label"]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--items", type=int, default=400_000, help="records in the dataset")
    parser.add_argument("--words", type=int, default=12, help="words in each record")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batches", type=int, default=0, help="batches per epoch (0: all)")
    parser.add_argument("--seconds", type=float, default=0, help="stop training after this many seconds (0: never)")
    parser.add_argument("--recorded-by", type=Path, metavar="FILE", help="begin once this recording of the training has its first sample")
    parser.add_argument("--report-every", type=int, default=100, help="batches between progress lines")
    return parser.parse_args()


def say(event, **fields):
    print(json.dumps({"event": event, "pid": os.getpid(), **fields}), flush=True)


def await_sample(recording):
    """Waits until this recording has begun, at most 20 s, so that it sees the workers from their fork on."""
    end = time.monotonic() + 20
    while recording and time.monotonic() < end and not (recording.exists() and b'"sample"' in recording.read_bytes()):
        time.sleep(0.05)


def train_epoch(epoch, loader, model, optimizer, arguments, deadline):
    """One pass over the data. Returns False once the deadline has passed."""
    loss_of = nn.CrossEntropyLoss()
    started = time.monotonic()
    for batch, (tokens, labels) in enumerate(loader, start=1):
        loss = loss_of(model(tokens), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if batch % arguments.report_every == 0 or batch == len(loader):
            rate = batch / (time.monotonic() - started)
            say("progress", epoch=epoch, batches=batch, batches_per_second=round(rate, 2), loss=round(loss.item(), 4))
        if deadline and time.monotonic() > deadline:
            return False
        if batch == arguments.batches:
            break
    say("epoch", epoch=epoch, batches=batch, seconds=round(time.monotonic() - started, 3))
    return True


def main():
    arguments = parse_arguments()
    say("start", workers=arguments.workers)
    torch.set_num_threads(1)
    dataset = Reviews(arguments.items, arguments.words)
    loader = DataLoader(dataset, batch_size=arguments.batch_size, shuffle=True, num_workers=arguments.workers)
    model = nn.Sequential(nn.EmbeddingBag(BUCKETS, 32), nn.ReLU(), nn.Linear(32, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    say("ready", items=len(dataset), batches_per_epoch=len(loader))
    await_sample(arguments.recorded_by)
    deadline = time.monotonic() + arguments.seconds if arguments.seconds else 0
    for epoch in range(1, arguments.epochs + 1):
        if not train_epoch(epoch, loader, model, optimizer, arguments, deadline):
            break
    say("end")


if __name__ == "__main__":
    main()
