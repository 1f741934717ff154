#!/usr/bin/python3
"""A launcher of two ranks with a worker each, in a process group of its own: dying_launcher.py bound|free.

The ranks of a bound one die with it (PR_SET_PDEATHSIG). Prints a line with all pids once all run. When a line comes in on stdin it
takes memory until something ends it; at the end of stdin it ends its ranks.
"""
import ctypes
import json
import os
import signal
import subprocess
import sys

PR_SET_PDEATHSIG = 1
RANK = """
import os, sys
rows = [str(i) for i in range(50_000)]
worker = os.fork()
if worker == 0:
    os.close(1)
    while os.getppid() != 1 and sys.stdin.read(1):
        sum(map(len, rows))
    os._exit(0)
print(worker, flush=True)
os.waitpid(worker, 0)
"""


def die_with_launcher():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def main():
    os.setpgid(0, 0)
    kept, ranks, pids = [], [], [os.getpid()]
    for rank in range(2):
        environment = {**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
        ranks.append(subprocess.Popen([sys.executable, "-c", RANK], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      preexec_fn=die_with_launcher if sys.argv[1] == "bound" else None))
        pids += [ranks[-1].pid, int(ranks[-1].stdout.readline())]
    print(json.dumps({"event": "ready", "pids": pids}), flush=True)
    while sys.stdin.readline():
        while True:
            kept.append(bytearray(b"x" * (1 << 20)))
    for rank in ranks:
        rank.kill()


main()
