#!/usr/bin/python3
"""Sets a limit of 256 descriptors, opens files up to --to of it, holds them for --hold seconds or, with --line, until a line comes,
closes them, stays a while, and exits with --status.
"""
import argparse
import json
import os
import resource
import sys
import time

parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--to", type=int, default=240)
parser.add_argument("--hold", type=float, default=2)
parser.add_argument("--status", type=int, default=0)
parser.add_argument("--line", action="store_true")
arguments = parser.parse_args()
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
print(json.dumps({"role": "ready", "pid": os.getpid()}), flush=True)
held = [open(os.devnull, "rb") for _ in range(arguments.to - len(os.listdir("/proc/self/fd")))]
print(json.dumps({"role": "open", "files": len(held)}), flush=True)
if arguments.line:
    sys.stdin.readline()
else:
    time.sleep(arguments.hold)
for file in held:
    file.close()
print(json.dumps({"role": "closed"}), flush=True)
if arguments.line:
    sys.stdin.readline()
sys.exit(arguments.status)
