#!/usr/bin/python3
"""Programs whose processes play every part: workers, ranks, pools, forkservers, helpers. Prints, as JSON, who is who.

Each says `{"pid": ..., "role": ..., ...}` of a process as soon as it is what it is, then holds still until stdin is closed.
"""
import json
import multiprocessing
import os
import subprocess
import sys
import time


def say(role, **facts):
    os.write(1, (json.dumps({"pid": os.getpid(), **facts, "role": role}) + "\n").encode())


def wait():
    """Until stdin, which all of them have, is closed. multiprocessing gives its processes another one."""
    with open(os.environ["HOLD"], "rb") as hold:
        hold.read()


def fork(workers, **facts):
    for _ in range(workers):
        if os.fork() == 0:
            say("worker", **facts)
            wait()
            os._exit(0)


def reap():
    try:
        while True:
            os.wait()
    except ChildProcessError:
        pass


def trainer(rank, ranks):
    """A rank that its program numbers itself."""
    os.environ["RANK"], os.environ["WORLD_SIZE"], os.environ["LOCAL_RANK"] = str(rank), str(ranks), str(rank)
    say("rank", rank=rank, local_rank=rank)
    fork(2, rank=rank, local_rank=rank)
    wait()
    reap()


def stand(role):
    say(role)
    wait()


def run(kind):
    method = sys.argv[2] if len(sys.argv) > 2 else "fork"
    context = multiprocessing.get_context(method)
    if kind == "environ":  # ranks that set os.environ
        processes = [context.Process(target=trainer, args=(rank, 2)) for rank in range(2)]
    elif kind == "processes":
        manager = context.Manager()  # noqa: F841
        processes = [context.Process(target=stand, args=("worker",)) for _ in range(2)]
    elif kind == "titles":
        processes = [context.Process(target=titled) for _ in range(2)]
    for process in processes:
        process.start()
    say("parent")
    for process in processes:
        process.join()


def titled():
    import setproctitle
    setproctitle.setproctitle("my server: worker")
    stand("worker")


LAUNCHERS = [("RANK", "LOCAL_RANK"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"), ("SLURM_PROCID", "SLURM_LOCALID")]


def numbers():
    """The rank that its launcher put into the environment."""
    rank, local_rank = next(names for names in LAUNCHERS if names[0] in os.environ)
    return {"rank": int(os.environ[rank]), "local_rank": int(os.environ[local_rank])}


def rank():
    """A trainer that a launcher started."""
    say("rank", **numbers())
    fork(2, **numbers())
    wait()
    reap()


def again():
    """A forked child that runs Python once more."""
    say("parent")
    child = subprocess.Popen([sys.executable, __file__, "leaf"])
    child.wait()


def square(x):
    time.sleep(0.015)
    return os.getpid()


def pool(kind):
    if kind == "pool":
        with multiprocessing.Pool(2) as workers:
            while True:
                pids = set(workers.map(square, range(8), chunksize=1))
                if len(pids) == 2:
                    break
            for pid in pids:
                say("pool", pid=pid)
            wait()
    else:
        import joblib
        with joblib.Parallel(n_jobs=2) as parallel:
            pids = set()
            while len(pids) < 2:
                pids = set(parallel(joblib.delayed(square)(i) for i in range(8)))
            for pid in pids:
                say("pool", pid=pid)
            wait()


class Slow:
    """A data set whose items take time in the worker, as decoding does: 40 batches of 150 ms."""

    def __len__(self):
        return 400

    def __getitem__(self, index):
        time.sleep(0.015)
        return index


def load(method="fork", persistent=False):
    from torch.utils.data import DataLoader
    loader = DataLoader(Slow(), batch_size=10, num_workers=2, persistent_workers=persistent, multiprocessing_context=method)
    for _ in range(2):
        for _ in loader:
            pass


def load_as_rank(number):
    from torch.utils.data import DataLoader
    for _ in DataLoader(Slow(), batch_size=10, num_workers=2):
        pass


def spawn_with_torch():
    import torch.multiprocessing
    torch.multiprocessing.spawn(load_as_rank, nprocs=2)


def main():
    kind = sys.argv[1]
    if kind == "loader":
        return load(sys.argv[2], sys.argv[3] == "persistent")
    if kind == "torch-spawn":
        return spawn_with_torch()
    if kind == "torchrun":
        say("rank", **numbers())
        return load()
    if kind in ("environ", "processes", "titles"):
        run(kind)
    elif kind == "rank":
        rank()
    elif kind == "again":
        again()
    elif kind == "leaf":
        stand("other")
    else:
        pool(kind)


if __name__ == "__main__":
    main()
