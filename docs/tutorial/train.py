"""Trains a classifier of short texts on the CPU: an ordinary PyTorch script, with an ordinary fault."""
import functools
import random
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

STORY = "a fork is cheap until somebody reads the page that it shares with its parent ; ".split() * 6


def load(items=500_000):
    """Stands for json.load(): one dict for each text."""
    rng = random.Random(1)
    starts = [rng.randrange(16) for _ in range(items)]
    return [{"id": i, "text": " ".join(STORY[start:start + 76]), "label": i % 2} for i, start in enumerate(starts)]


@functools.cache
def vectors():
    """Stands for torch.load("glove.6B.100d.pt"): each worker loads its own, when it needs them."""
    return torch.randn(400_000, 100)


class Texts(Dataset):
    def __init__(self, records):
        self.records = records

    def __len__(self):
        return len(self.records)

    def __getitem__(self, index):
        record = self.records[index]
        words = torch.tensor([hash(word) % 400_000 for word in record["text"].split()])
        return vectors()[words].mean(dim=0), record["label"]


def train(dataset, epochs):
    loader = DataLoader(dataset, batch_size=256, shuffle=True, num_workers=2)
    model = nn.Sequential(nn.Linear(100, 32), nn.ReLU(), nn.Linear(32, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for epoch in range(epochs):
        for texts, labels in loader:
            loss = nn.functional.cross_entropy(model(texts), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    train(Texts(load()), epochs=int(sys.argv[1]))
