#!/usr/bin/python3
"""Starts RANKS programs with the environment that torchrun gives them: verdict_launcher.py RANKS PROGRAM ARGS...

Debian's torchrun does not run everywhere: torch 1.13's not on Python 3.11, torch 2.6's not without libuv.
"""
import os
import subprocess
import sys

RANKS = int(sys.argv[1])
RUNNING = []
for rank in range(RANKS):
    environment = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": RANKS, "LOCAL_WORLD_SIZE": RANKS, "MASTER_ADDR": "127.0.0.1",
                   "MASTER_PORT": 29500, "TORCHELASTIC_RUN_ID": "verdict"}
    RUNNING.append(subprocess.Popen([sys.executable, *sys.argv[2:]],
                                    env={**os.environ, **{name: str(value) for name, value in environment.items()}}))
sys.exit(max(program.wait() for program in RUNNING))
