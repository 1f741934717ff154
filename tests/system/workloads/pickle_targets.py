"""Objects for `cowprof pickle`: each shape is made, {"event": "ready"} printed, and kept until stdin ends."""
import collections
import json
import logging
import multiprocessing
import os
import random
import sys
import threading
import time


class Dataset:
    pass


class Row:
    def __init__(self, i):
        self.id, self.name, self.box = i, "row %d" % i, (i, i + 1, 0.5)


class Vocab:
    def __init__(self):
        self.stoi = collections.defaultdict(lambda: 0, {"a": 1})


class OldLogger:
    """Holds its handlers, and does not go by its name as those of logging do since 3.7."""


class DataLoader:
    """By its name that of torch."""
    __module__ = "torch.utils.data.dataloader"

    def __init__(self, dataset, num_workers):
        self.dataset, self.num_workers, self.collate_fn, self.worker_init_fn = dataset, num_workers, None, None


class Node:
    def __init__(self):
        self.me = self


data = dataset = None


ROWS = {"dicts": 20000, "objects": 20000, "text": 50000, "numbers": 100000, "nested": 10000, "strings": 50000, "lists": 20000,
        "shuffled": 20000}


def sized(shape, rows):
    return {"dicts": lambda: [{"id": i, "caption": "caption number %d" % i, "box": [i, i + 1]} for i in range(rows)],
            "objects": lambda: [Row(i) for i in range(rows)],
            "text": lambda: ["ä" * (i % 50) + "text €" for i in range(rows)],
            "numbers": lambda: ([i * 1000 for i in range(rows)], [i * 0.5 for i in range(1000)], [2**70 + i for i in range(1000)]),
            "nested": lambda: {i: {"a": (i, {str(i)}), "b": bytes(i % 300)} for i in range(rows)},
            "strings": lambda: ["string number %d" % i for i in range(rows)],
            "lists": lambda: [[i, i * 0.5, i + 1] for i in range(rows)],
            "shuffled": lambda: shuffled(sized("dicts", rows))}[shape]()


def shuffled(rows):
    """As a training list is: in another order than that in which it lies in memory."""
    random.Random(1).shuffle(rows)
    return rows


def started(error, method):
    """How starting a process with such a data set fails."""
    global dataset
    dataset = Dataset()
    if error == "logger":
        dataset.logger = OldLogger()
        dataset.logger.handlers = [logging.StreamHandler(sys.stderr)]
    elif error == "keys":
        dataset.class_names = {"cat": 1}.keys()
    else:
        dataset.vocab = Vocab()
    try:
        multiprocessing.get_context(method).Process(target=print, args=(dataset,)).start()
    except Exception as failure:
        return "%s: %s" % (type(failure).__name__, failure)
    return ""


LOADER = """
import os, pickle, sys, time
sys.path.insert(0, os.path.dirname(sys.argv[1]))
import pickle_targets
sys.modules["__main__"].Row = pickle_targets.Row
def held():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
before, begin = held(), time.thread_time()
data = pickle.load(open(sys.argv[2], "rb"))
print(time.thread_time() - begin, held() - before)
"""


def timed(said):
    """Three attempts; each time it is unpickled by a new process, as by a worker."""
    import subprocess
    import tempfile
    said["pickle_seconds"], said["unpickle_seconds"] = [], []
    with tempfile.NamedTemporaryFile() as file:
        for _ in range(3):
            begin = time.thread_time()
            pickled = multiprocessing.reduction.ForkingPickler.dumps(data)
            said["pickle_seconds"].append(time.thread_time() - begin)
            file.seek(0)
            file.write(pickled)
            file.flush()
            loaded = subprocess.check_output([sys.executable, "-c", LOADER, __file__, file.name]).split()
            said["unpickle_seconds"].append(float(loaded[0]))
            said["held_bytes"] = int(loaded[1])


def mutate():
    while True:
        for i in range(200):
            data[random.randrange(len(data))] = {"id": i, "rows": [{str(j): (j, "x" * j)} for j in range(10)]}
            if i % 50 == 0:
                data.append(Row(i))
                del data[0]
        time.sleep(0.001)


def main():
    global data
    what = sys.argv[1]
    said = {"event": "ready"}
    keep = []
    if what.startswith("bytes-"):
        shape = what[6:]
        data = sized(shape, next((int(word[5:]) for word in sys.argv if word.startswith("rows=")), ROWS[shape]))
        if "timed" in sys.argv:
            timed(said)
        said["bytes"] = len(multiprocessing.reduction.ForkingPickler.dumps(data))
    elif what.partition("-")[0] in ("logger", "keys", "vocab"):
        said["error"] = started(*what.split("-"))
    elif what == "process":
        holder = Dataset()
        holder.keys = {}.keys()
        worker = multiprocessing.get_context("spawn").Process(target=print, args=(holder,))
        keep.append(worker)
    elif what.startswith("queue-"):  # made by the default context, which forks, as the worker is or is not
        multiprocessing.set_start_method("fork")
        context = multiprocessing if what == "queue-default" else multiprocessing.get_context(what[6:])
        worker = context.Process(target=print, args=(multiprocessing.Queue(),))
        said["asks"] = any("is_fork_ctx" in name for name in vars(multiprocessing.Lock()))  # since 3.11.5
        keep.append(worker)
    elif what == "loaders":
        holder = Dataset()
        holder.keys = {}.keys()
        unsent = DataLoader([threading.Lock()], 0)
        trained = DataLoader(holder, 2)
        tested = DataLoader([1], 1)
        keep += [unsent, trained, tested]
    elif what == "unsent":
        unsent = DataLoader([threading.Lock()], 0)
        keep.append(unsent)
    elif what == "numbers":
        data = {-5: {}.keys(), 5: 1, 5 + 2**30: {}.values()}
    elif what == "buffers":
        import io
        data = [io.BytesIO(b"x" * 100000) for _ in range(100)]
        said["bytes"] = len(multiprocessing.reduction.ForkingPickler.dumps(data))
    elif what == "cycle":
        data = [Node(), Node()]
        data.append(data)
    elif what == "attributes":
        data = Dataset()
        data.__dict__.update({"attribute%d" % i: i for i in range(1000000)})
    elif what == "long-name":
        data = [type("x" * 1000000, (), {})()]
    elif what in ("lies", "lies-a-little"):
        import ctypes
        data = Dataset()
        data.rows, data.pair, data.names = [1, 2, 3], (1, 2), {"a": 1}
        claimed = 2**40 if what == "lies" else 64
        for value in data.rows, data.pair, data.__dict__:  # ob_size; ma_used of a dict
            ctypes.c_ssize_t.from_address(id(value) + 16).value = claimed
    elif what == "deep":
        data = []
        for _ in range(1000000):
            data = [data]
    elif what == "big":
        data = [{"id": i} for i in range(1000000)]
    elif what == "mutating":
        data = [{"id": i} for i in range(2000)]
        threading.Thread(target=mutate, daemon=True).start()
    print(json.dumps(said), flush=True)
    sys.stdin.read()
    if what.startswith("lies"):
        os._exit(0)  # nobody may take it down
    del keep


if __name__ == "__main__":
    import multiprocessing.reduction  # noqa: F811
    main()
