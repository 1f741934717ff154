#!/usr/bin/python3
"""Pools of all kinds, without torch: verdict_pool.py KIND. verdict_cases.py holds what is true of each.

Prints "ready" once the data is there and "read" once the workers have done their work, which they stay for; waits for a line on
stdin at both places.
"""
import concurrent.futures
import contextlib
import gc
import json
import multiprocessing
import os
import sys
import tempfile
import time

KINDS = {}
DATA = None
WORKERS = 3


def kind(function):
    KINDS[function.__name__] = function
    return function


def say(event, **fields):
    os.write(1, (json.dumps({"event": event, "pid": os.getpid(), **fields}) + "\n").encode())


def ready(**fields):
    gc.collect()
    gc.freeze()
    say("ready", **fields)
    sys.stdin.readline()


def done(**fields):
    say("read", **fields)
    sys.stdin.readline()


def texts(items=250_000):
    return [str(i).rjust(200, "x") for i in range(items)]


class Keeper:
    """What a worker was sent, for as long as it lives."""
    kept = None


def keep(items):
    Keeper.kept = items  # as a cache would
    meet()
    return len(items)


def meet():
    """Returns once every worker has come here: none gets two tasks, and all hold what they were sent at one moment."""
    folder = os.environ["VERDICT_MEETING"]
    with open(os.path.join(folder, str(os.getpid())), "w", encoding="utf-8"):
        pass
    while len(os.listdir(folder)) < WORKERS:
        time.sleep(0.01)
    time.sleep(0.6)  # as long as three looks


@contextlib.contextmanager
def meeting():
    """Where workers that are started meanwhile can meet."""
    with tempfile.TemporaryDirectory(prefix="cowprof-verdict-") as folder:
        os.environ["VERDICT_MEETING"] = folder
        yield


def read(part):
    time.sleep(0.1)
    return sum(len(text) for text in DATA[part::WORKERS])  # planted: read


def add(part):
    time.sleep(0.1)
    return float(DATA[part::WORKERS].sum())


def nothing(_):
    time.sleep(0.1)


def in_pool(task, inputs):
    """A multiprocessing.Pool runs the task on each input. Its workers live until the harness has looked at them: it
    says so by a line on stdin."""
    with multiprocessing.Pool(WORKERS) as pool:
        pool.map(task, inputs, chunksize=1)
        done()


@kind
def pool_arguments():
    items = texts()
    ready()
    with meeting():
        in_pool(keep, [items] * WORKERS)


@kind
def executor_arguments():
    items = texts()
    ready()
    with meeting(), concurrent.futures.ProcessPoolExecutor(WORKERS) as pool:
        list(pool.map(keep, [items] * WORKERS))
        done()


@kind
def pool_indices():
    """Near miss of pool_arguments: only indices are sent, but the workers read Python objects."""
    global DATA
    DATA = texts()
    ready()
    in_pool(read, range(WORKERS))


@kind
def pool_array():
    global DATA
    import numpy
    DATA = numpy.ones(20_000_000, numpy.float32)
    ready()
    in_pool(add, range(WORKERS))


@kind
def pool_nothing():
    ready()
    in_pool(nothing, range(20))


@kind
def executor_nothing():
    ready()
    with concurrent.futures.ProcessPoolExecutor(WORKERS) as pool:
        list(pool.map(nothing, range(20)))
        done()


@kind
def joblib_objects():
    import joblib
    items = texts()
    ready()
    with meeting(), joblib.Parallel(WORKERS) as parallel:
        parallel(joblib.delayed(keep)(items) for _ in range(WORKERS))
        done()


@kind
def joblib_arrays():
    """Arrays beyond max_nbytes go to workers as memory-mapped files in /dev/shm."""
    import joblib
    import numpy
    arrays = [numpy.full(12_500_000, number, numpy.float64) for number in range(2)]  # 95 MiB each
    ready()
    with joblib.Parallel(WORKERS) as parallel:
        parallel(joblib.delayed(add_up)(array) for array in arrays * WORKERS)
        done()


def add_up(array):
    time.sleep(0.2)
    return float(array.sum())


@kind
def joblib_nothing():
    import joblib
    ready()
    with joblib.Parallel(WORKERS) as parallel:
        parallel(joblib.delayed(nothing)(i) for i in range(20))
        done()


@kind
def ends_badly():
    """34 workers, 11 of which end badly: 6 by a signal, then 5 with a status."""
    ready()
    ends_of(34, 11)
    done()


@kind
def ends_badly_and_copies():
    """The same, and all workers copy 20 MiB."""
    global DATA
    DATA = texts(90_000)
    ready()
    ends_of(34, 11)
    done()


def ends_of(workers, bad):
    pids = []
    for worker in range(workers):
        pids.append(os.fork())
        if pids[-1] == 0:
            sum(len(text) for text in DATA or ())
            by_signal = worker < bad and worker % 2 == 0
            time.sleep(1.5 if by_signal else 2)  # those by a signal come first, and so one of them is told
            if by_signal:
                os.kill(os.getpid(), 11)
            os._exit(3 if worker < bad else 0)
    for pid in pids:
        os.waitpid(pid, 0)


@kind
def leak_after_copies():
    """Two workers copy 60 MiB each in their first second, then each keeps up to 100 MiB a second."""
    global DATA
    DATA = texts()
    ready()
    fork(2, leak)
    done()


def leak():
    sum(len(text) for text in DATA)
    kept = []
    for _ in range(1200):
        kept.append(bytearray(b"x") * (1 << 20))
        time.sleep(0.01)
    return kept


@kind
def bounded_cache_after_copies():
    """Near miss of leak_after_copies: what the workers keep ends at 48 MiB."""
    global DATA
    DATA = texts()
    ready()
    fork(2, fill)
    done()


def fill():
    sum(len(text) for text in DATA)
    kept, missing = [], 48 << 20
    for _ in range(120):
        kept.append(bytearray(b"x") * (missing // 13))
        missing -= missing // 13
        time.sleep(0.1)
    return kept


def fork(workers, work):
    """Workers, which then wait as long as their parent."""
    for _ in range(workers):
        if os.fork() == 0:
            kept = work()
            say("worked", kept=len(kept))
            with contextlib.suppress(KeyboardInterrupt):
                sys.stdin.read()
            os._exit(0)


@kind
def workers_read():
    """Forked workers that were there before anybody looked, and read when they are told to: a line each."""
    global DATA
    DATA = texts()
    gc.collect()
    gc.freeze()
    pipes = []
    for _ in range(WORKERS):
        begin, end = os.pipe()
        pipes.append(end)
        if os.fork() == 0:
            os.read(begin, 1)
            sum(len(text) for text in DATA)  # planted: workers_read
            say("worked")
            os.read(begin, 1)
            os._exit(0)
    say("ready")
    for line in sys.stdin:  # "work" or nothing
        for pipe in pipes if line.strip() == "work" else ():
            os.write(pipe, b"x")
        say("told")


@kind
def workers_read_twice():
    """The same with two reads: at the first word the first three fifths, at the second word the rest."""
    global DATA
    DATA = texts()
    gc.collect()
    gc.freeze()
    pipes = []
    for _ in range(WORKERS):
        begin, end = os.pipe()
        pipes.append(end)
        if os.fork() == 0:
            for part in slice(0, 150_000), slice(150_000, 250_000):
                os.read(begin, 1)
                sum(len(DATA[i]) for i in range(*part.indices(len(DATA))))  # planted: workers_read_twice
                say("worked")
            os.read(begin, 1)
            os._exit(0)
    say("ready")
    for line in sys.stdin:
        for pipe in pipes if line.strip() == "work" else ():
            os.write(pipe, b"x")


def started_by(method):
    """Two workers that were sent 50 MiB and keep it, before anybody looks."""
    items = texts()
    context = multiprocessing.get_context(method)
    up = context.Semaphore(0)
    for _ in range(2):
        context.Process(target=hold, args=(items, up), daemon=True).start()
    for _ in range(2):
        up.acquire()
    ready()


def hold(items, up):
    say("holds", kept=len(items))
    up.release()
    multiprocessing.parent_process().join()


@kind
def spawned():
    started_by("spawn")


@kind
def spawned_later():
    """The same, once somebody looks."""
    ready()
    started_by("spawn")


@kind
def served():
    started_by("forkserver")


def leak_beside_copies(items, leaked):
    """Two workers that copy at once, and then leak so many MiB each, 4 MiB a second."""
    global DATA
    DATA = texts(items)
    ready()

    def work():
        sum(len(text) for text in DATA)
        kept = []
        for _ in range(leaked * 4):
            kept.append(bytearray(b"x") * (1 << 18))
            time.sleep(1 / 16)
        return kept
    fork(2, work)
    done()


@kind
def leak_above_copies():
    leak_beside_copies(100_000, 36)


@kind
def leak_below_copies():
    """Near miss: the copies own more of the peak."""
    leak_beside_copies(200_000, 36)


@kind
def launcher():
    """Starts two other Python scripts, and only waits for them."""
    import subprocess
    for _ in range(2):
        subprocess.Popen([sys.executable, __file__, "idle"], stdin=subprocess.PIPE)
    sys.stdin.readline()


@kind
def large_parent_reads():
    """What the peer's experiment does: workers that go through all annotations, and a parent that only waits."""
    global DATA
    DATA = [{"id": i + 1000, "bbox": [i + 0.5, i + 1.5, 20.25, 30.75], "category_id": i % 90,
             "segmentation": [[i + 0.25 * n for n in range(16)]]} for i in range(86_000)]
    ready()
    fork(4, annotations)
    done()


def annotations():
    return [sum(sum(item["bbox"]) + len(item["segmentation"][0]) for item in DATA)]


@kind
def step():
    """Near miss of a leak in the only process: it gets 100 MiB at once."""
    ready()
    kept = bytearray(b"x") * (100 << 20)
    time.sleep(4)
    done(bytes=len(kept))


@kind
def sawtooth():
    ready()
    for _ in range(30):
        kept = bytearray(b"x") * (60 << 20)
        time.sleep(0.1)
        del kept
        time.sleep(0.05)
    done()


@kind
def idle():
    ready()
    done()


@kind
def commands():
    """Runs other programs, as scripts do."""
    import subprocess
    kept = bytearray(b"x") * (64 << 20)
    ready()
    for _ in range(20):
        subprocess.run(["sh", "-c", "ls / | sort >/dev/null"], check=True)
        time.sleep(0.1)
    done(bytes=len(kept))


if __name__ == "__main__":
    KINDS[sys.argv[1]]()
