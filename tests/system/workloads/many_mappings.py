#!/usr/bin/python3
"""A forked worker maps and touches pieces of shared memory, each a mapping, until it has --share of vm.max_map_count, and ends with
the next line. Says how many /proc/PID/maps has."""
import argparse
import json
import mmap
import os
import sys
import time
from pathlib import Path

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--share", type=float, default=0.6)
most = int(Path("/proc/sys/vm/max_map_count").read_text()) * parser.parse_args().share
print(json.dumps({"role": "ready", "pid": os.getpid()}), flush=True)
sys.stdin.readline()
worker = os.fork()
if worker == 0:
    held = []
    while len(held) < most:
        held.append(mmap.mmap(-1, 4096))
        held[-1][0] = 1
        if len(held) % 200 == 0:
            time.sleep(0.01)
    with open("/proc/self/maps", "rb") as maps:
        print(json.dumps({"role": "mapped", "mappings": sum(1 for _ in maps)}), flush=True)
    sys.stdin.readline()
    os._exit(0)
os.waitpid(worker, 0)
