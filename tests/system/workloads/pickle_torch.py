"""A DataLoader, or a data set for torch's mp.spawn, for `cowprof pickle`: {"event": "ready"} with the error, then waits."""
import collections
import json
import sys
import time

import numpy
import torch
import torch.multiprocessing
from torch.utils.data import DataLoader, Dataset


TENSORS = {"sparse": lambda: torch.ones(3, 3).to_sparse(), "meta": lambda: torch.ones(3, device="meta"),
           "nested": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
           "quantized": lambda: torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8)}


class Vocab:
    def __init__(self):
        self.stoi = collections.defaultdict(lambda: 0, {"a": 1})


class Rows(Dataset):
    def __init__(self, what):
        self.tensors = [torch.ones(3) for _ in range(100)]
        self.model = torch.nn.Linear(2, 2)
        self.array = numpy.zeros((100, 1000), dtype=numpy.float32)
        self.ufuncs = [numpy.add, numpy.matmul]
        if what == "vocab":
            self.vocab = Vocab()
        elif what == "gradient":
            self.bad = torch.ones(2, requires_grad=True) * 2
        elif what == "objects":
            self.records = numpy.array([{}], dtype=object)
        elif what == "ufunc":
            self.bad = numpy.frompyfunc(abs, 1, 1)
        elif what in TENSORS:
            self.bad = TENSORS[what]()

    def __len__(self):
        return 10

    def __getitem__(self, i):
        return i


def train(rank, dataset):
    pass


def wait(rank, dataset):
    print(json.dumps({"event": "ready"}), flush=True)
    time.sleep(1000)


def main():
    what = sys.argv[1]
    dataset = Rows("vocab" if what in ("spawn", "spawn-dies") else what)
    loader = error = None
    if what.startswith("spawn-"):
        torch.multiprocessing.spawn({"spawn-waits": wait, "spawn-dies": train}[what], args=(dataset,), nprocs=1)
    if what == "spawn":
        try:
            torch.multiprocessing.spawn(train, args=(dataset,), nprocs=1)
        except Exception as failure:
            error = "%s: %s" % (type(failure).__name__, failure)
    else:
        loader = DataLoader(dataset, num_workers=1, multiprocessing_context="spawn", collate_fn=(lambda x: x) if what == "collate" else None)
        try:
            for _ in loader:
                pass
        except Exception as failure:
            error = "%s: %s" % (type(failure).__name__, failure)
    print(json.dumps({"event": "ready", "error": error}), flush=True)
    sys.stdin.read()
    del loader


if __name__ == "__main__":
    main()
