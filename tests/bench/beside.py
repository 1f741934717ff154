#!/usr/bin/python3
"""What a recorder takes beside a steady DataLoader, once it has begun: CPU time, wakes, and system calls by name.

Usage, as root: tests/bench/beside.py [--cowprof TOOL] [--before TOOL] [--rounds N]. Prints, never asserts. The figures of a round are of
the recorder and its children, from /proc/PID/schedstat and the voluntary switches in /proc/PID/status, between the 10th second and the end.
"""
import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from turns import in_turns

REPOSITORY = Path(__file__).resolve().parents[2]
WORKLOAD = Path(__file__).with_name("steady_loader.py")


def family(pid):
    children = (Path("/proc") / str(pid) / "task" / str(pid) / "children").read_text().split()
    return [pid] + [one for child in children for one in family(int(child))]


def used(pids):
    """CPU seconds of those that live, and how often they slept: each is a wake."""
    seconds = sleeps = 0
    for pid in pids:
        for task in (Path("/proc") / str(pid) / "task").iterdir():
            seconds += int((task / "schedstat").read_text().split()[0]) / 1e9
            sleeps += int(re.search(r"\nvoluntary_ctxt_switches:\s+(\d+)", (task / "status").read_text())[1])
    return seconds, sleeps


def count_calls(pid, seconds):
    """System calls a second by name, by strace: apart from the rest, as strace slows both."""
    strace = subprocess.Popen(["strace", "-f", "-c", "-qq", "-p", str(pid)], stderr=subprocess.PIPE, text=True)
    time.sleep(seconds)
    strace.terminate()
    rows = [line.split() for line in strace.communicate()[1].splitlines()]
    return {row[-1]: int(row[3]) / seconds for row in rows if len(row) >= 5 and row[3].isdigit() and row[-1] != "total"}


def measure(tool, options, calls):
    workload = subprocess.Popen(["/usr/bin/python3", WORKLOAD, str(options.workers), str(options.step)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    with tempfile.TemporaryDirectory() as folder:
        if not workload.stdout.readline():
            print("beside.py: skipped, /usr/bin/python3 has no torch")
            sys.exit(0)
        recorder = subprocess.Popen([tool, "--attach", str(workload.pid), "--quiet", "--output", f"{folder}/run.json"], stdout=subprocess.DEVNULL)
        try:
            time.sleep(options.after)
            began, before = time.monotonic(), used(family(recorder.pid))
            time.sleep(options.seconds)
            took = time.monotonic() - began
            after = used(family(recorder.pid))
            figures = {"percent": 100 * (after[0] - before[0]) / took, "wakes": (after[1] - before[1]) / took, "start": before[0]}
            return figures, count_calls(recorder.pid, 5) if calls else {}
        finally:
            recorder.terminate()
            recorder.wait()
            workload.kill()
            workload.wait()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cowprof", type=Path, default=Path(os.environ.get("COWPROF_BUILD", REPOSITORY / "build")) / "cowprof")
    parser.add_argument("--before", type=Path, help="another build, in the same rounds")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--step", type=float, default=0.02, help="seconds of a training step")
    parser.add_argument("--after", type=float, default=10, help="seconds that do not count")
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--calls", action="store_true", help="count system calls too")
    parser.add_argument("--short", action="store_true", help="a few seconds, to show that it runs; the figures mean nothing")
    options = parser.parse_args()
    if options.short:
        options.rounds, options.after, options.seconds = 1, 1, 2
    tools = {"now": options.cowprof, **({"before": options.before} if options.before else {})}
    results = {name: [] for name in tools}
    calls = {}
    for name, tool in in_turns(options.rounds, tools):
        figures, counted = measure(tool, options, options.calls and not results[name])
        results[name].append(figures)
        calls[name] = counted or calls.get(name, {})
        print(f"round {len(results[name])}, {name}: {figures['percent']:.2f} % of a core, {figures['wakes']:.1f} wakes/s", file=sys.stderr)
    print("| | % of a core | wakes a second | CPU seconds before |\n| --- | --- | --- | --- |")
    for name, rounds in results.items():
        cells = []
        for figure in ("percent", "wakes", "start"):
            values = [one[figure] for one in rounds]
            error = f" ± {statistics.stdev(values) / len(values) ** 0.5:.2f}" if len(values) > 1 else ""
            cells.append(f"{statistics.mean(values):.2f}{error}")
        print(f"| {name} | " + " | ".join(cells) + " |")
    for name, counted in calls.items():
        if counted:
            print(f"\n{name}, system calls a second: " + ", ".join(f"{call} {rate:.1f}" for call, rate in sorted(counted.items(), key=lambda one: -one[1]) if rate >= 0.4))


if __name__ == "__main__":
    main()
