"""What the scripts around a fix sketch share: the memory of this process, and forked workers that report theirs.

test_fix_sketch.py imports it into each script. A worker is the function `measure`, which reads what the sketch is about.
"""
import json
import os
import re


def private_bytes():
    """Memory that no other process shares, from the kernel's walk over the page tables."""
    with open("/proc/self/smaps_rollup", encoding="utf-8") as rollup:
        return sum(1024 * int(size) for size in re.findall(r"Private_(?:Clean|Dirty): +(\d+)", rollup.read()))


def status_bytes(key):
    with open("/proc/self/status", encoding="utf-8") as status:
        return 1024 * int(re.search(rf"{key}:\s+(\d+)", status.read()).group(1))


def bytes_read():
    with open("/proc/self/io", encoding="utf-8") as io:
        return int(re.search(r"rchar: (\d+)", io.read()).group(1))


def grows(work):
    """Private bytes that work() adds."""
    before = private_bytes()
    kept = work()
    grown = private_bytes() - before
    del kept
    return grown


def in_child(work):
    """What work() returns in a forked process."""
    output, of_child = os.pipe()
    if os.fork() == 0:
        os.write(of_child, json.dumps(work()).encode())
        os._exit(0)
    os.close(of_child)
    with os.fdopen(output) as pipe:
        answer = json.loads(pipe.read())
    os.wait()
    return answer
