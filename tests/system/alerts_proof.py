#!/usr/bin/python3
"""Proves that alerts precede the kill and only then appear: real ramps to real limits, and as many healthy runs.

    tests/system/alerts_proof.py [--only PART] [--show]

Prints a table: when the alert was recorded, when the worker died, and the lead in seconds and as a share of the ramp.
Exits with 1 if a ramp had no alert in time or a healthy run had one. test_alerts.py runs some of the cases. Needs root, the v1
memory controller and torch, on a quiet machine.
"""
import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import harness
from memory_groups import MB, MemoryGroup, in_small_shm

SYSTEM = Path(__file__).resolve().parent


class Run:
    """One recorded run: its alerts, and the first worker that was killed."""

    def __init__(self, name, document):
        self.name, self.records = name, document["records"]
        self.interval = document["header"]["interval_seconds"]
        self.alerts = [record for record in self.records if record["type"] == "alert" and not record["over"]]
        self.pids = {r["index"]: r["pid"] for r in self.records if r.get("event") == "process"}
        self.started = {r["index"]: r["t"] for r in self.records if r.get("event") == "process"}
        self.workers = [index for index in self.pids if index > 0]
        killed = [r for r in self.records if r.get("event") == "exit" and r["status"] & 0x7F in (7, 9)]
        self.victim = killed[0]["index"] if killed else None
        self.death = killed[0]["t"] if killed else None

    def alert(self, kinds=("cgroup-v1",)):
        """The first alert of the limit that kills."""
        return next((alert for alert in self.alerts if alert["kind"] in kinds), None)

    @property
    def ramp(self):
        """Seconds from the fork of the worker to the kill."""
        return self.death - self.started[1]

    def lead(self, **kinds):
        alert = self.alert(**kinds)
        return self.death - alert["t"] if alert and self.death else None


def record(name, command, *options, limit_mb, seconds=120):
    """Runs `command` in its own memory cgroup, with cowprof outside it."""
    with tempfile.TemporaryDirectory() as folder, MemoryGroup(limit_mb * MB) as group:
        target = harness.Process(command, preexec_fn=group.join, stderr=subprocess.DEVNULL)
        try:
            target.await_line("role", "ready")
            recording = harness.attach(target.pid, Path(folder) / "run.json", *options)
            recording.await_sample()
            target.go()
            recording.wait(seconds)
            assert recording.popen.returncode == 0, recording.stderr
        finally:
            target.stop()
        return Run(name, recording.timeline())


def ramp(kind, mb, rate, *options):
    return [harness.WORKLOADS / "ramp", f"--kind={kind}", f"--mb={mb}", f"--rate={rate}", "--wait", *options]


# name, limit in MB, command
def steady_ramps():
    for rate, limit, options in [(10, 300, []), (15, 400, []), (20, 400, []), (30, 500, []), (40, 600, ["--base=200"]),
                                 (50, 500, []), (70, 600, []), (100, 700, ["--base=100"]), (150, 800, []),
                                 (200, 800, []), (300, 900, []), (400, 1000, []), (500, 1000, ["--base=300"]),
                                 (700, 1200, []), (1000, 1500, []), (1000, 2000, []), (1500, 2000, ["--huge"]),
                                 (2000, 2000, ["--huge"])]:
        yield f"new memory, {rate} MB/s", limit, ramp("new", 2 * limit, rate, *options)
    for rate, data, limit in [(30, 300, 450), (200, 400, 600)]:
        yield f"copies, {rate} MB/s", limit, ramp("copy", data, rate)
    for rate, limit in [(20, 400), (200, 800)]:
        yield f"file pages, {rate} MB/s", limit, ramp("file", 2 * limit, rate)


def healthy_runs():
    for rate in (200, 1000, 2000):
        yield f"large but flat: 75 %, {rate} MB/s", 800, ramp("flat", 600, rate, *(["--huge"] if rate > 1000 else []))
    yield "large but flat: 75 %, 400 MB/s", 800, ramp("flat", 600, 400)
    for rate in (50, 300):
        yield f"saturates, ceiling fits, {rate} MB/s", 600, ramp("saturate", 250, rate, "--rest=1000")
    for rate in (50, 300):
        yield f"saturates at 88 %, {rate} MB/s", 570, ramp("saturate", 250, rate, "--rest=1000")
    for rate in (50, 300):
        yield f"four workers copy a quarter each, 88 %, {rate} MB/s", 570, ramp("quarters", 250, rate, "--rest=1000")
    for rate in (100, 400):
        yield f"sequential copies, ceiling fits, {rate} MB/s", 600, ramp("copy", 250, rate, "--rest=1000")
    for rate in (100, 400):
        yield f"sawtooth, {rate} MB/s", 600, ramp("sawtooth", 250, rate)
    for rate in (200, 1000):
        yield f"only reuses, {rate} MB/s", 600, ramp("reuse", 400, rate, "--base=50")
    for kind in ("read", "mapped", "small"):
        for base in (50, 200):
            yield (f"page cache: {kind}, {base} MB held", 400,
                   [harness.PYTHON, SYSTEM / "workloads" / "cached_files.py", f"--kind={kind}", f"--base={base}"])
    yield "new memory up to a fifth", 800, ramp("new", 160, 200)
    yield "a burst of new memory", 800, ramp("new", 120, 2000, "--base=300")


def loader(kind, *options):
    return [harness.PYTHON, SYSTEM / "workloads" / "loader_ends.py", f"--kind={kind}", *options]


def loaders_that_die():
    """DataLoaders killed by a worker's leak, by copies, and by a bus error on /dev/shm."""
    for pause in (20, 50):
        yield f"leak in a loader's worker, {pause} ms", 700, loader("leak", "--item-kb=1024", f"--pause-ms={pause}", "--items=4000")
    for rows, limit in ((600_000, 350), (900_000, 420)):
        yield f"copies of a loader, {rows} rows", limit, loader("copy", f"--rows={rows}", "--pause-ms=20")
    for pause in (40, 80, 160):
        yield f"shm of a loader, {pause} ms", 2000, in_small_shm(loader("keep", f"--pause-ms={pause}", "--items=4000"))


def loaders_that_live():
    yield "loader: copies that fit", 1500, loader("copy", "--rows=300000", "--pause-ms=5")
    # 436 MB at the peak: each of four workers copies its own quarter, in blocks of rows, and could copy four times as much.
    for pause in (1, 20):
        yield (f"loader: four workers share the rows, 88 %, {pause} ms", 495,
               loader("copy", "--rows=600000", "--workers=4", "--epochs=1", f"--pause-ms={pause}", "--items=400"))
    # The same with smaller blocks: an item's objects of one size fill two to seven pages, or less than one.
    for rows, limit, pause in ((150, 495, 1), (150, 495, 20), (50, 620, 1)):
        yield (f"loader: four workers share blocks of {rows} rows, {pause} ms", limit,
               loader("copy", "--rows=600000", "--workers=4", "--epochs=1", f"--pause-ms={pause}", f"--items={600_000 // rows}"))
    for prefetch in (2, 6):
        yield (f"loader: batches in flight, prefetch {prefetch}", 2000,
               in_small_shm(loader("drop", f"--prefetch={prefetch}", "--items=400", "--batch-size=8", "--pause-ms=2")))




def print_row(run, verdict, kinds=("cgroup-v1",)):
    alert = run.alert(kinds)
    grower = f"{alert['cause']}, pid {run.pids.get(alert['index'])}" if alert else "-"
    if run.death is None:
        print(f"{run.name:46} {'lives':>8} {len(run.alerts):3} alerts {grower:28} {verdict}", flush=True)
        return
    lead = run.lead(kinds=kinds)
    figures = f"{lead:7.2f} s {100 * lead / run.ramp:5.0f} % {100 * lead / run.death:5.0f} %" if lead else "   none"
    print(f"{run.name:46} {run.ramp:6.2f} s {figures}  {grower:28} {verdict}", flush=True)


def judge_ramp(run):
    """'' if the ramp was alerted in time, otherwise what is wrong."""
    if run.death is None:
        return "did not die"
    alert = run.alert()
    if alert is None:
        return "NO ALERT"
    if alert["index"] != 1:  # the OOM killer may still choose its parent
        return "WRONG WORKER"
    expected = {"new": ("new-memory",), "cop": ("data",), "fil": ("data",)}[run.name[:3]]
    if alert["cause"] not in expected:
        return "WRONG CAUSE"
    return "" if run.lead() >= min(30, run.ramp / 2) else f"TOO LATE: {run.lead():.2f} s of {run.ramp:.2f} s"


def judge_loader(run):
    """Wants a lead of a fifth of the run or ten seconds, and the alert to name a living worker and what grows."""
    if run.death is None:
        return "did not die"
    shm, leak = run.name.startswith("shm"), run.name.startswith("leak")
    alert = run.alert(("shm",) if shm else ("cgroup-v1",))
    if alert is None:
        return "NO ALERT"
    if alert["index"] not in run.workers:
        return "WRONG WORKER"
    known = alert["cause"] == ("shm" if shm else "new-memory" if leak else alert["cause"])
    if not known or (not shm and not leak and alert["cause"] in ("shm", "new-memory", None)):
        return "WRONG CAUSE"
    return "" if run.death - alert["t"] >= min(10, 0.2 * run.death) else "TOO LATE"


def judge_healthy(run):
    if run.death is not None:
        return "DIED"
    return "; ".join(f"ALERT at {alert['t']:.2f}: {alert['text']}" for alert in run.alerts)


PARTS = {"ramps": (steady_ramps, judge_ramp), "dying": (loaders_that_die, judge_loader),
         "healthy": (healthy_runs, judge_healthy), "living": (loaders_that_live, judge_healthy)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="run only this part, or runs whose name contains this")
    arguments = parser.parse_args()
    # Touch the memory first: a virtual machine hands out never-used memory at a tenth of the speed, so no ramp would be steady.
    subprocess.run([harness.WORKLOADS / "ramp", "--mb=4000", "--rate=100000", "--rest=0"], stdout=subprocess.DEVNULL, check=True)
    failures = runs = 0
    for part, (cases, judge) in PARTS.items():
        for name, limit, command in cases():
            if arguments.only not in (part, "") and arguments.only not in name:
                continue
            run = record(name, command, limit_mb=limit)
            verdict = judge(run)
            runs += 1
            failures += bool(verdict)
            print_row(run, verdict or "ok", ("shm",) if name.startswith("shm") else ("cgroup-v1",))
    print(f"{runs - failures} of {runs} as expected")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
