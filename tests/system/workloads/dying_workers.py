#!/usr/bin/python3
"""Workers that end, one after another, in the ways named on the command line. Each first announces how it is going to end:
{"role": "ending", "pid": ..., "by": WAY}. A way is a function below; the words after a colon are its arguments.

Waits for a line on stdin before it forks, so that cowprof can attach, and for the end of stdin before it exits.
"""
import ctypes
import faulthandler
import json
import mmap
import os
import resource
import signal
import subprocess
import sys
import threading
import time

MIB = 1 << 20
PR_SET_PDEATHSIG = 1
DATA = []  # inherited by the workers, if one of the ways reads it


def say(**fields):
    os.write(1, (json.dumps(fields) + "\n").encode())


def mapped(path, length):
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    os.ftruncate(file, length)
    return file, mmap.mmap(file, length)


def write_all(area):
    for start in range(0, len(area), mmap.PAGESIZE):
        area[start:start + mmap.PAGESIZE] = b"x" * mmap.PAGESIZE


def handled_trap():
    """Returns a function that meets a breakpoint, which a handler takes."""
    code = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(b"\xcc\xc3")  # int3; ret
    trap = ctypes.PYFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(code)))
    trap.code = code  # as long as it is called
    signal.signal(signal.SIGTRAP, lambda *_: None)
    return trap


# ---- The ways ----


def exit_code(code):
    sys.exit(int(code))


def hangup_ignored(code):
    """Exits soon after a hangup that nohup had it ignore."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    os.kill(os.getpid(), signal.SIGHUP)
    sys.exit(int(code))


def abort():
    os.abort()


def segfault():
    ctypes.string_at(8)


def truncated(path):
    file, area = mapped(path, 64 * mmap.PAGESIZE)
    os.ftruncate(file, 2 * mmap.PAGESIZE)
    area[5 * mmap.PAGESIZE] = 1


def truncated_with_handler(path):
    faulthandler.enable()  # prints a traceback and raises the signal again
    truncated(path)


def trapped(count, where):
    """Takes breakpoints by a handler, as runtimes take faults, in the main thread or another; one more kills it, after a handler."""
    trap = handled_trap()

    def take():
        for _ in range(int(count)):
            trap()
            time.sleep(0.001)
        last_trap(trap)
        ctypes.CDLL(None).signal(signal.SIGTRAP, None)  # SIG_DFL, which Python sets in the main thread only
        os.kill(os.getpid(), signal.SIGTRAP)  # the main thread gets it

    if where == "main":
        take()
    else:
        thread = threading.Thread(target=take)
        thread.start()
        thread.join()


def trapped_then_full(count, path):
    """Takes breakpoints, and ends in the handler of a bus error for a mapped file that has no room, without dying of it."""
    trap = handled_trap()
    for _ in range(int(count)):
        trap()
    libc = ctypes.CDLL(None)
    libc.signal(signal.SIGBUS, libc._exit)  # its status is the number of the signal
    full(path)


def last_trap(trap):
    trap()


def full(path):
    """Writes all of a mapped file of 8 MiB, on a file system that may have less room."""
    write_all(mapped(path, 8 * MIB)[1])
    os._exit(0)


def killed_from_outside():
    time.sleep(60)  # the killer reads its pid from the announcement


def killed_by_parent(number):
    time.sleep(60)  # run() kills it


def killed_by_command():
    time.sleep(60)  # run() starts the command


def terminated_after_cleanup():
    """Its handler cleans up and raises the signal again."""
    def clean_up(number, frame):
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    signal.signal(signal.SIGTERM, clean_up)
    say(role="handles", pid=os.getpid())
    while True:
        time.sleep(0.1)  # Python calls the handler between two of them if the signal comes just before one


def cpu_time(soft, hard):
    """Works until it has used up its CPU time, deaf to the warning."""
    signal.signal(signal.SIGXCPU, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CPU, (int(soft), int(hard)))
    while True:
        pass


def file_size(path):
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # Python ignores it
    resource.setrlimit(resource.RLIMIT_FSIZE, (MIB, MIB))
    with open(path, "wb", buffering=0) as file:
        while True:
            file.write(b"x" * MIB)


def bound_to_parent():
    """Ends, and with it its child."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        os.write(write_end, b"x")
        time.sleep(60)
    os.read(read_end, 1)
    say(role="bound", pid=child)


def bound_to_thread():
    """The thread that started its child ends, and with it the child."""
    thread = threading.Thread(target=bound_to_parent)
    thread.start()
    thread.join()
    os.wait()
    time.sleep(2)


def read_objects():
    """Reads the parent's objects, which copies their pages, until it is killed; lives on if it is not."""
    for record in DATA:
        record["text"]
    say(role="survivor", pid=os.getpid())
    time.sleep(60)


def grow(mebibytes, per_second="100"):
    """Allocates new memory at a steady rate until it is killed."""
    kept, began = [], time.monotonic()
    for i in range(int(mebibytes)):
        kept.append(b"x" * MIB)
        time.sleep(max(0, began + i / float(per_second) - time.monotonic()))
    say(role="survivor", pid=os.getpid())
    time.sleep(60)


def grow_beside_victim(mebibytes):
    """Grows, while the OOM killer prefers a sleeping child that does not."""
    child = os.fork()
    if child == 0:
        prefer_as_victim(1000)
        say(role="bystander", pid=os.getpid())
        time.sleep(60)
    grow(mebibytes)


def prefer_as_victim(score):
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write(str(score))


def run(way, arguments):
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        if way in (read_objects, grow):
            prefer_as_victim(500)
        say(role="ending", pid=os.getpid(), by=way.__name__)
        os.close(write_end)
        way(*arguments)
        os._exit(0)
    os.close(write_end)
    os.read(read_end, 1)  # until the child has announced its end
    os.close(read_end)
    if way is killed_by_parent:
        os.kill(pid, getattr(signal, arguments[0]))
    if way is killed_by_command:
        subprocess.run(["sh", "-c", f"kill -9 {pid}; sleep 1"], check=True)
    return os.waitpid(pid, 0)


def main():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    ways = [word.split(":") for word in sys.argv[1:]]
    if any(name == "read_objects" for name, *_ in ways):
        DATA.extend({"id": i, "text": "worker %d" % i} for i in range(400_000))
    say(role="ready", pid=os.getpid())
    sys.stdin.readline()
    for name, *arguments in ways:
        pid, status = run(globals()[name], arguments)
        say(role="ended", pid=pid, ended=name, status=status)
    say(role="done", pid=os.getpid())
    sys.stdin.read()


if __name__ == "__main__":
    main()
