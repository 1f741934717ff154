#!/usr/bin/python3
"""A PyTorch DataLoader over one kind of data: verdict_loader.py KIND [options]. verdict_cases.py holds what is true of each.

Prints "ready" once the data is there and "read" once all of it was read; waits for a line on stdin at both places, unless it is
started with --no-wait. The collector is frozen before the fork, so reading is all that its workers do.
"""
import argparse
import gc
import json
import os
import pickle
import sys
import time

import numpy
import torch
from torch.utils.data import DataLoader, Dataset

FOLDER = "."
KINDS = {}


def kind(items):
    """Declares a kind of data with so many items: about 80 MiB."""
    def declare(cls):
        KINDS[cls.__name__.lower()] = cls
        cls.items = items
        return cls
    return declare


def say(event, **fields):
    os.write(1, (json.dumps({"event": event, "pid": os.getpid(), **fields}) + "\n").encode())


def text_of(i, length=200):
    return str(i).rjust(length, "x")


class Data(Dataset):
    data = None

    def __init__(self, items):
        self.length = items
        self.make(items)

    def make(self, items):
        pass

    def __len__(self):
        return self.length


@kind(120_000)
class Records(Data):
    def make(self, items):
        self.data = [{"id": i + 1000, "text": text_of(i), "label": i % 2} for i in range(items)]

    def __getitem__(self, i):
        return len(self.data[i]["text"])  # planted: records


@kind(60_000)
class Annotations(Data):
    """As COCO has them: nested."""

    def make(self, items):
        self.data = [{"id": i + 1000, "bbox": [i + 0.5, i + 1.5, 20.25, 30.75], "category_id": i % 90, "iscrowd": 0,
                      "segmentation": [[i + 0.25 * n for n in range(16)]]} for i in range(items)]

    def __getitem__(self, i):
        return sum(self.data[i]["bbox"]) + sum(self.data[i]["segmentation"][0])  # planted: annotations


@kind(60_000)
class Tensors(Data):
    def make(self, items):
        self.data = [torch.tensor([i, i + 1.0]) for i in range(items)]

    def __getitem__(self, i):
        return self.data[i]  # planted: tensors


@kind(60_000)
class Stacked(Data):
    """Near miss of Tensors: one tensor."""

    def make(self, items):
        self.data = torch.zeros(items, 300)

    def __getitem__(self, i):
        return self.data[i]


@kind(60_000)
class Normalised(Data):
    """Near miss of Tensors: it is really written."""

    def make(self, items):
        self.data = torch.ones(items, 300)

    def __getitem__(self, i):
        self.data[i] /= 255  # planted: normalised
        return i


@kind(400_000)
class Pickled(Data):
    def make(self, items):
        self.data = [pickle.dumps({"id": i, "text": text_of(i, 100)}) for i in range(items)]

    def __getitem__(self, i):
        return pickle.loads(self.data[i])["id"]  # planted: pickled


@kind(60_000)
class Array(Data):
    def make(self, items):
        self.data = numpy.ones((items, 300), numpy.float32)

    def __getitem__(self, i):
        return self.data[i]


@kind(200_000)
class Objects(Data):
    """An array with dtype=object."""

    def make(self, items):
        self.data = numpy.array([text_of(i, 300) for i in range(items)], dtype=object)

    def __getitem__(self, i):
        return len(self.data[i])  # planted: objects


@kind(200_000)
class Frame(Data):
    def make(self, items):
        import pandas
        self.data = pandas.DataFrame({"text": [text_of(i, 300) for i in range(items)], "label": range(items)})

    def __getitem__(self, i):
        return len(self.data.iat[i, 0])  # planted: frame


@kind(40_000)
class Numbers(Data):
    """Near miss of Frame: columns of numbers."""

    def make(self, items):
        import pandas
        self.data = pandas.DataFrame({f"x{n}": numpy.arange(items * 10, dtype=float)[::10] + n for n in range(100)})

    def __getitem__(self, i):
        return self.data.iat[i, i % 100]


@kind(96 * 64)
class Memmap(Data):
    """96 MiB in a file, in rows of 16 KiB, and each worker maps it when it first reads."""

    def make(self, items):
        with open(f"{FOLDER}/array", "wb") as file:
            for _ in range(items // 64):
                file.write(b"\1" * (1 << 20))

    def __getitem__(self, i):
        if self.data is None:
            self.data = numpy.memmap(f"{FOLDER}/array", mode="r", shape=(self.length, 16384))
        time.sleep(5e-4)  # a worker that reads all of it between two samples is not seen to
        return int(self.data[i, ::4096].sum())


@kind(20_000)
class Lmdb(Data):
    def make(self, items):
        import lmdb
        with lmdb.open(f"{FOLDER}/lmdb", map_size=1 << 30) as file, file.begin(write=True) as writer:
            for i in range(items):
                writer.put(b"%d" % i, b"\1" * 3000)

    def __getitem__(self, i):
        if self.data is None:
            import lmdb
            self.data = lmdb.open(f"{FOLDER}/lmdb", readonly=True, lock=False)
        time.sleep(2e-4)
        with self.data.begin() as reader:
            return len(reader.get(b"%d" % i))


def write_hdf5(items):
    import h5py
    with h5py.File(f"{FOLDER}/data.h5", "w") as file:
        file.create_dataset("x", data=numpy.ones((items, 300), numpy.float32), chunks=(256, 300))


@kind(40_000)
class Hdf5(Data):
    """Each worker opens the file when it first reads."""

    def make(self, items):
        write_hdf5(items)

    def __getitem__(self, i):
        if self.data is None:
            import h5py
            self.data = h5py.File(f"{FOLDER}/data.h5", "r")["x"]
        return self.data[i]


@kind(12_000)
class Handles(Data):
    """One object of h5py for each item, all opened before the fork."""

    def make(self, items):
        import h5py
        with h5py.File(f"{FOLDER}/items.h5", "w") as file:
            for i in range(items):
                file[f"item{i}"] = numpy.ones(8, numpy.float32)
        self.file = h5py.File(f"{FOLDER}/items.h5", "r")
        self.data = [self.file[f"item{i}"] for i in range(items)]

    def __getitem__(self, i):
        return self.data[i][()]  # planted: handles


@kind(4_000)
class Nothing(Data):
    def __getitem__(self, i):
        return i


@kind(6_000)
class Images(Data):
    """Each item is made when it is asked for."""

    def __getitem__(self, i):
        return torch.rand(64, 300)


@kind(60_000)
class Leaks(Data):
    """Some 60 MiB are copied by the first epoch. After that each item leaves 4 KiB behind."""

    def make(self, items):
        self.data = [text_of(i, 1000) for i in range(items)]
        self.kept, self.seen = [], 0

    def __getitem__(self, i):
        self.seen += 1
        if self.seen > self.length:
            self.kept.append(bytearray(4000))
            time.sleep(0.0004)
        return len(self.data[i])


def main():
    global FOLDER
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kind", choices=sorted(KINDS))
    parser.add_argument("--folder", default=".")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--items", type=int, default=0)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--start", default="fork")
    parser.add_argument("--seconds", type=float, default=0, help="of a pause after the last batch")
    parser.add_argument("--leak", type=int, default=0, help="MiB a second, in the trainer, for 15 s")
    parser.add_argument("--sharing", default="file_descriptor")
    parser.add_argument("--no-wait", action="store_true")
    arguments = parser.parse_args()
    FOLDER = arguments.folder
    torch.set_num_threads(1)
    torch.multiprocessing.set_sharing_strategy(arguments.sharing)
    cls = KINDS[arguments.kind]
    data = cls(arguments.items or cls.items)
    gc.collect()
    gc.freeze()
    start = None if arguments.start == "default" else arguments.start
    loader = DataLoader(data, batch_size=arguments.batch_size, num_workers=arguments.workers, shuffle=True,
                        multiprocessing_context=start, persistent_workers=arguments.epochs == 1)
    say("ready", python=sys.version.split()[0], torch=torch.__version__, items=len(data))
    if not arguments.no_wait:
        sys.stdin.readline()
    for _ in range(arguments.epochs):
        for _ in loader:
            pass
    kept = []
    for _ in range(150 if arguments.leak else 0):
        kept.append(bytearray(b"x") * (arguments.leak * (1 << 20) // 10))
        time.sleep(0.1)
    time.sleep(arguments.seconds)
    say("read")
    if not arguments.no_wait:
        sys.stdin.readline()


if __name__ == "__main__":
    main()
