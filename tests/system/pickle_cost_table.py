"""Compares the times and the memory that `cowprof pickle` says with those of really pickling and unpickling, as a table.

    python3 tests/system/pickle_cost_table.py [VERSION ...]     as root: data sets of 1,000 to 3 million objects; 3.11 and 3.13

CPU seconds. held: the interval has the truth, the first of three attempts in a process that never pickled before. no bound: the
interval has no upper end, as beyond the limit of a walk.
"""
import json
import subprocess
import sys

import harness
import planted

TARGETS = harness.REPOSITORY / "tests" / "system" / "workloads" / "pickle_targets.py"
SHAPES = {"dicts": 9, "objects": 7, "text": 1, "strings": 1, "numbers": 1, "lists": 4, "nested": 8, "shuffled": 9}  # visits of a row
OBJECTS = (1_000, 30_000, 1_400_000, 3_000_000)
LEAST_MEMORY = 1 << 20  # what fits into pages that the process had before is not seen in its resident memory


def held(said, truth):
    """"held", "no bound", or on which side the truth lies."""
    if truth < said["low"]:
        return "BELOW"
    if said["high"] is None:
        return "no bound"
    return "held" if truth <= said["high"] else "ABOVE"


def compare(python, shape, rows):
    """{key: (what cowprof says, truth, comparison)} and the number of objects."""
    process = harness.Process([python, TARGETS, f"bytes-{shape}", "timed", f"rows={rows}"], stderr=subprocess.DEVNULL)
    try:
        truth = process.await_line("event", "ready", 120 * harness.PATIENCE)
        done = harness.run_cowprof("pickle", process.pid, "--object", "__main__.data", "--json", seconds=120 * harness.PATIENCE)
        document = json.loads(done.stdout)
    finally:
        process.stop()
    spawn, found = document["what_if"][2], {}
    for key in "pickle_seconds", "unpickle_seconds":
        said, first = spawn[f"{key}_each"], truth[key][0]
        found[key] = said, first, held(said, first)
    memory = spawn["held_bytes_each"]
    found["held_bytes"] = memory, truth["held_bytes"], held(memory, truth["held_bytes"]) if memory["best"] >= LEAST_MEMORY else "too small"
    return found, document["start_methods"][0]["objects"]


def main():
    wrong = 0
    print("version  data set    objects  pickle: low  best  high  truth            unpickle: low  best  high  truth")
    for version in sys.argv[1:] or ("3.11", "3.13"):
        for shape, visits in SHAPES.items():
            for objects in OBJECTS:
                found, seen = compare(planted.interpreters()[version], shape, objects // visits)
                cells = [f"{said['low']:.4f} {said['best']:.4f} {'-' if said['high'] is None else format(said['high'], '.4f')} {truth:.4f} {how}"
                         for said, truth, how in (found["pickle_seconds"], found["unpickle_seconds"])]
                wrong += sum(how.isupper() for _, _, how in found.values())
                print(f"{version:6} {shape:9} {seen:9}  {cells[0]:44} {cells[1]:44} memory: {found['held_bytes'][2]}", flush=True)
    print(f"{wrong} outside of their intervals")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
