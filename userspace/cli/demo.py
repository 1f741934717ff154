"""The workload of `cowprof demo`: two forked workers, like those of a DataLoader, read all rows of a data set.

usage: demo.py objects|buffer SECONDS
"""
import os
import signal
import sys
import time

ROWS = 400000
WORKERS = 2


def text_of(row):
    return "review %d: %s" % (row, "it was good " * (3 + row % 5))


class Objects:
    """A list of str. To read one is to write its reference count: the kernel copies its page for the worker."""

    def __init__(self):
        self.rows = [text_of(row) for row in range(ROWS)]

    def __getitem__(self, row):
        return self.rows[row]


class Buffer:
    """The same rows in two buffers. To read one makes a new str, and writes nothing that is shared."""

    def __init__(self):
        from array import array
        self.ends = array("Q", [0])
        self.bytes = bytearray()
        for row in range(ROWS):
            self.bytes += text_of(row).encode()
            self.ends.append(len(self.bytes))

    def __getitem__(self, row):
        return self.bytes[self.ends[row]:self.ends[row + 1]].decode()


def read_all(data, seconds):
    """Reads the rows, at a steady pace, in `seconds`."""
    start, letters = time.time(), 0
    for row in range(ROWS):
        letters += len(data[row])
        if row % 1000 == 0:
            time.sleep(max(0, start + seconds * row / ROWS - time.time()))


class Stopped:
    """Ctrl-C and SIGTERM end the workers, and then their parent, without a traceback."""

    def __init__(self, workers):
        self.workers = workers
        self.by = None
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self.stop)

    def stop(self, number, _frame):
        self.by = number
        for pid in self.workers:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass


def main():
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    data = {"objects": Objects, "buffer": Buffer}[sys.argv[1]]()
    workers = []
    for _ in range(WORKERS):
        pid = os.fork()
        if pid == 0:
            read_all(data, float(sys.argv[2]))
            os._exit(0)
        workers.append(pid)
    stopped, failed = Stopped(workers), False
    while workers:
        failed = os.waitpid(workers[0], 0)[1] != 0 or failed
        workers.pop(0)
    if stopped.by:
        signal.signal(stopped.by, signal.SIG_DFL)
        os.kill(os.getpid(), stopped.by)
    os._exit(1 if failed else 0)


main()
