"""A parent that has something which a fork would leave behind: fork_hazard.py KIND. Runs on CPython 3.8 and later.

Prints {"event": "ready", "tid": TID of the thread in question or null}, waits for a line, forks a child that does nothing, prints
{"event": "forked", "child": PID}, waits for a line, kills the child and ends.
"""
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time

READY = threading.Event()
TID = []


def say(**fields):
    print(json.dumps(fields), flush=True)


def in_thread(name, body):
    def run():
        TID.append(threading.get_native_id())
        body()
    threading.Thread(target=run, name=name, daemon=True).start()
    READY.wait()


def forever():
    READY.set()
    while True:
        time.sleep(3600)


def update_stats(lock):
    with lock:
        forever()


# ---- Each prepares the parent ----

def none():
    pass


def idle():
    in_thread("metrics", forever)


def lock():
    held = threading.Lock()
    in_thread("stats-thread", lambda: update_stats(held))


def rlock():
    held = threading.RLock()
    in_thread("stats-thread", lambda: update_stats(held))


def condition():
    held = threading.Condition()
    in_thread("stats-thread", lambda: update_stats(held))


def acquired():
    """Without a `with` statement: a Lock keeps no owner."""
    held = threading.Lock()
    in_thread("stats-thread", lambda: (held.acquire(), forever()))


def waits():
    """Its `with` statement waits for a lock that the thread which forks has."""
    held = threading.Lock()
    held.acquire()

    def take():
        READY.set()
        with held:
            pass
    in_thread("stats-thread", take)
    time.sleep(0.2)


def notified():
    """Inside of Condition.wait(), which has given the lock back."""
    idle_one = threading.Condition()

    def wait():
        with idle_one:
            READY.set()
            idle_one.wait()
    in_thread("stats-thread", wait)
    time.sleep(0.2)


def given_back():
    """Inside of Condition.wait(), but its `with` statement names the lock itself."""
    held = threading.Lock()

    def wait():
        with held:
            READY.set()
            threading.Condition(held).wait()
    in_thread("stats-thread", wait)
    time.sleep(0.2)
    held.acquire()


def own():
    """The thread that forks has the lock, so the child's thread has it, too."""
    global fork

    def fork_inside(plain=fork):
        with threading.RLock(), threading.Lock():
            return plain()
    fork = fork_inside
    in_thread("metrics", forever)


def imports():
    folder = tempfile.mkdtemp()
    with open(os.path.join(folder, "slowmod.py"), "w") as file:
        file.write("import __main__\n__main__.forever()\n")
    sys.path.insert(0, folder)
    in_thread("lazy-importer", lambda: __import__("slowmod"))


def feeder():
    """multiprocessing's own thread and no other."""
    import multiprocessing
    queue = multiprocessing.get_context("fork").Queue()
    queue.put(1)
    globals()["keep"] = queue


def execs():
    """A thread, and a fork that only calls exec."""
    global fork
    in_thread("metrics", forever)

    def command():
        return subprocess.Popen(["sleep", "60"], preexec_fn=lambda: None).pid
    fork = command


def torch_team():
    import torch
    torch.set_num_threads(2)
    torch.ones(1 << 20) + 1


def opencv():
    """Its pool; the child computes with it, too, and says so through a pipe."""
    global fork
    import cv2
    import numpy
    cv2.setNumThreads(4)
    image = numpy.ones((2000, 2000), "float32")

    def compute():
        for _ in range(3):
            cv2.GaussianBlur(image, (31, 31), 5)
            cv2.warpAffine(image, numpy.float32([[1, 0, 1], [0, 1, 1]]), (2000, 2000))
    compute()

    def fork_and_compute():
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            compute()
            os.write(writer, b"t")
            while True:
                time.sleep(3600)
        say(event="computed", through=bool(select.select([reader], [], [], 10)[0]))
        return pid
    fork = fork_and_compute


def loader():
    """torch's DataLoader, with a team in the trainer."""
    global fork
    torch_team()
    from torch.utils.data import DataLoader
    batches = DataLoader(list(range(100000)), num_workers=2, persistent_workers=True)

    def start():
        globals()["keep"] = iterator = iter(batches)
        next(iterator)
        return iterator._workers[0].pid
    fork = start


def fork():
    pid = os.fork()
    if pid == 0:
        while True:
            time.sleep(3600)
    return pid


def main(kind):
    globals()[kind]()
    say(event="ready", tid=TID[0] if TID else None)
    sys.stdin.readline()
    child = fork()
    say(event="forked", child=child)
    sys.stdin.readline()
    os.kill(child, signal.SIGKILL)
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1])
