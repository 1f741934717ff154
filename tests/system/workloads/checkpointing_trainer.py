#!/usr/bin/python3
"""A trainer that writes a checkpoint on SIGUSR1 and has a worker that leaks until their common limit is reached.

    checkpointing_trainer.py FILE [--rate MB_PER_S]
"""
import argparse
import json
import os
import signal
import sys
import time


def leak(rate):
    kept = []
    start = time.monotonic()
    while True:
        while len(kept) < (time.monotonic() - start) * rate:
            kept.append(bytearray(b"x" * (1 << 20)))
        time.sleep(0.005)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file")
    parser.add_argument("--rate", type=float, default=100)
    arguments = parser.parse_args()
    asked = []
    signal.signal(signal.SIGUSR1, lambda *_: asked.append(time.time()))
    print(json.dumps({"role": "ready", "pid": os.getpid()}), flush=True)
    sys.stdin.readline()
    worker = os.fork()
    if worker == 0:
        signal.signal(signal.SIGUSR1, signal.SIG_DFL)
        leak(arguments.rate)
    step = 0
    while os.waitpid(worker, os.WNOHANG) == (0, 0):
        step += 1
        time.sleep(0.01)
        if asked:  # between two steps, where the state is consistent
            temporary = arguments.file + ".new"
            with open(temporary, "w", encoding="ascii") as file:
                json.dump({"step": step, "asked": asked.pop()}, file)
            os.replace(temporary, arguments.file)
            print(json.dumps({"role": "checkpoint", "step": step, "worker_lives": os.path.exists(f"/proc/{worker}")}), flush=True)
    print(json.dumps({"role": "end"}), flush=True)


if __name__ == "__main__":
    main()
