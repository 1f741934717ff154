"""Programs that start a worker with a data set that can't be pickled, as their authors met it; and near misses.

pickle_death.py HOW ERROR METHOD ROWS. HOW: process (multiprocessing.Process), loader (torch's DataLoader), loaders
(one without a name, beside another that has not started), ddp (torch.multiprocessing.spawn), pool (a
lambda as the function of Pool.map), launched (a process forked first makes the data set, and starts the worker). METHOD: a start method; or a near miss: catches, catches-then-fails, other, helper.
"""
import collections
import multiprocessing
import os
import signal
import sys
import threading
import time

UNK = 0
ROWS_LAUNCHED = 200000


class Catalogue:
    """A library's class."""

    def __init__(self, names):
        self.class_names = names.keys()


class Vocab:
    def load(self):
        self.stoi = collections.defaultdict(lambda: UNK, {"a": 1})
        return self


class Tracker:
    def __init__(self):
        self.lock = threading.RLock()


class Dataset:
    def __init__(self, error, rows):
        self.rows = [{"id": i, "caption": "caption number %d" % i} for i in range(rows)]
        if error == "lock":
            self.tracker = Tracker()
        elif error == "keys":
            self.catalogue = Catalogue({"cat": 1})
        elif error == "vocab":
            self.vocab = Vocab().load()

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return i


def work(*arguments):
    for row in arguments[-1].rows:
        row["id"]
    time.sleep(3)


def launched(rows, method):
    dataset = Dataset("none", ROWS_LAUNCHED)
    run("process", dataset, method)


def run(how, dataset, method):
    if how == "loader":
        from torch.utils.data import DataLoader
        loader = DataLoader(dataset, batch_size=1000, num_workers=2, multiprocessing_context=method)
        for _ in loader:
            time.sleep(0.05)
    elif how == "loaders":
        from torch.utils.data import DataLoader
        train_loader = DataLoader(Dataset("keys", 10), num_workers=2, multiprocessing_context=method)
        for _ in DataLoader(dataset, batch_size=1000, num_workers=2, multiprocessing_context=method):
            time.sleep(0.05)
        del train_loader
    elif how == "pool":
        with multiprocessing.get_context(method).Pool(1) as pool:
            pool.map(lambda i: i, range(2))
    elif how == "ddp":
        import torch.multiprocessing
        torch.multiprocessing.start_processes(work, args=(dataset,), nprocs=2, start_method=method)
    elif how == "launched":
        trainer = multiprocessing.get_context("fork").Process(target=launched, args=(dataset.rows[:10], method))
        trainer.start()
        trainer.join()
    else:
        worker = multiprocessing.get_context(method).Process(target=work, args=(dataset,))
        worker.start()
        worker.join()


def main():
    how, error, method, rows = sys.argv[1:]
    dataset = Dataset(error, int(rows))
    time.sleep(0.5)
    if method in ("spawn", "forkserver", "fork"):
        return run(how, dataset, method)
    if method == "other":  # it dies of something else, after the same data set was sent by fork
        run(how, dataset, "fork")
        raise ValueError("cannot read row 'dict_keys' object")
    if method == "helper":  # the helper process dies, and the program with it
        from multiprocessing import resource_tracker
        resource_tracker.ensure_running()
        os.kill(resource_tracker._resource_tracker._pid, signal.SIGKILL)
        sys.exit(1)
    try:
        run(how, dataset, "spawn")
    except Exception as failure:
        print("going on after", failure)
    time.sleep(0.3)
    if method == "catches-then-fails":
        raise ValueError("something else")


if __name__ == "__main__":
    main()
