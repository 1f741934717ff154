#!/usr/bin/python3
"""Measures what reading a recording costs: `report` and `view` of a million samples beside Python's json.load, and the tool's own start.

    reading.py [TIMELINE.json] [--before COWPROF] [--rounds 7] [--short]

Without a timeline, million.py makes one of a million samples (needs root and torch). Rounds are interleaved; figures are means with
their standard error. CPU time (user and system) is what to compare: wall time, which is what a user waits for, also tells what else the machine
did. Prints, never asserts.
"""
import argparse
import os
import platform
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "system"))
import harness  # noqa: E402  (the folder above has to be known first)
from turns import in_turns  # noqa: E402

OWN_MIB = 40  # the peak of a child counts what this script had when it forked it
STARTS = 10  # of the tool in one round: one takes milliseconds
SMALL = ('{"schema":"cowprof.timeline/1","header":{},"records":[\n{"t":0,"type":"event","event":"process","index":0,"pid":1,"start_ns":1,'
         '"parent":-1,"origin":"target","comm":"a","command":"a"}\n,{"t":1,"type":"sample","processes":[[0,1]]}\n]}\n')


def run(command, times=1):
    """Wall seconds, CPU seconds and peak MiB of a command, per run."""
    wall = cpu = most = 0
    for _ in range(times):
        started = time.monotonic()
        child = subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL)
        _, status, usage = os.wait4(child.pid, 0)
        assert status == 0, (command, status)
        wall += time.monotonic() - started
        cpu += usage.ru_utime + usage.ru_stime
        most = max(most, usage.ru_maxrss / 1024)
    return wall / times, cpu / times, most


def with_error(values, scale, digits):
    mean = f"{statistics.fmean(values) * scale:.{digits}f}"
    return mean if len(values) < 2 else f"{mean} ± {statistics.stdev(values) / len(values) ** 0.5 * scale:.{digits}f}"


def commands(tool, timeline, small, page):
    return {"report": ([tool, "report", timeline], 1), "view": ([tool, "view", timeline, "-o", page], 1),
            "--version": ([tool, "--version"], STARTS), "report of a small file": ([tool, "report", small], STARTS)}


def measure(timeline, tools, rounds, folder):
    small = folder / "small.json"
    small.write_text(SMALL)
    todo = {("json.load", "Python"): ([sys.executable, "-c", "import json, sys; json.load(open(sys.argv[1]))", timeline], 1)}
    for name, tool in tools.items():
        todo |= {(what, name): command for what, command in commands(tool, timeline, small, folder / "page.html").items()}
    results = {key: [] for key in todo}
    for key, (command, times) in in_turns(rounds, todo):
        results[key].append(run(command, times))
    return results


def print_table(results):
    print("| what | of | CPU | wall | at most | json.load takes, CPU, wall |\n|---|---|---|---|---|---|")
    peer_wall, peer_cpu = (statistics.fmean(row[i] for row in results["json.load", "Python"]) for i in (0, 1))
    for (what, name), rows in results.items():
        walls, cpus, most = zip(*rows)
        long = what in ("json.load", "report", "view")
        scale, unit, digits = (1, "s", 2) if long else (1000, "ms", 1)
        times = f"{peer_cpu / statistics.fmean(cpus):.1f}, {peer_wall / statistics.fmean(walls):.1f} times as long" if long else ""
        print(f"| {what} | {name} | {with_error(cpus, scale, digits)} {unit} | {with_error(walls, scale, digits)} {unit} "
              f"| {'≤ ' if max(most) < OWN_MIB else ''}{max(most):.0f} MiB | {times} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("timeline", nargs="?", type=Path)
    parser.add_argument("--before", metavar="COWPROF", type=Path, help="another build of cowprof, measured in the same rounds")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--short", action="store_true", help="few samples and rounds, to show that it runs; the figures mean nothing")
    options = parser.parse_args()
    cpu = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    with tempfile.TemporaryDirectory(prefix="cowprof-bench-") as folder:
        timeline = options.timeline or Path(folder) / "timeline.json"
        if not options.timeline:
            size = ["--processes", "8", "--ticks", "250"] if options.short else []
            subprocess.run([harness.PYTHON, Path(__file__).with_name("million.py"), timeline, *size], check=True)
        rounds = options.rounds or (2 if options.short else 7)
        print(f"Linux {platform.release()}, {os.cpu_count()} × {cpu[1] if cpu else platform.machine()}, {rounds} rounds, "
              f"{timeline.stat().st_size / 1e6:.1f} MB\n")
        tools = {"cowprof": harness.COWPROF, **({"before": options.before} if options.before else {})}
        print_table(measure(timeline, tools, rounds, Path(folder)))


if __name__ == "__main__":
    main()
