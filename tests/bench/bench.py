#!/usr/bin/python3
"""Measures what being profiled costs: bare, with cowprof, with `perf record` of every page fault, with a psutil loop.

Run as root: tests/bench/bench.py [--short] [--before COWPROF]. Rounds are interleaved (bare, cowprof, perf, psutil, bare, ...) in one run of each
workload and compared with the bare round beside them; the table shows medians, extremes and
the mean of what the pairs differ by. Prints, never asserts.
"""
import argparse
import contextlib
import os
import platform
import re
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import unittest.mock
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "system"))
import harness  # noqa: E402  (the folder above has to be known first)
import truth  # noqa: E402
import usage  # noqa: E402
from turns import in_turns  # noqa: E402

INTERVAL = "1s"
PSUTIL_LOOP = """
import psutil, sys, time
target = psutil.Process(int(sys.argv[1]))
print("ready", flush=True)
while True:
    for process in [target, *target.children(recursive=True)]:
        try:
            process.memory_full_info()
        except psutil.Error:
            pass
    time.sleep(1)
"""


# ---- The observers: each is a context in which a process is watched ----

@contextlib.contextmanager
def unwatched(_pid, _folder):
    yield {}


def own_figures(pid):
    """What an observer has taken so far: peak resident MiB, its own and with its children's added, and CPU seconds with theirs."""
    found = [re.search(r"VmHWM:\s+(\d+)", (Path("/proc") / str(one) / "status").read_text()) for one in truth.tree(pid)]
    peaks = [int(peak[1]) / 1024 if peak else 0 for peak in found]
    return {"own_mib": peaks[0], "own_tree_mib": sum(peaks), "own_cpu": usage.tree_cpu_seconds(pid)}


@contextlib.contextmanager
def watched_by_cowprof(pid, folder, *options):
    """Yields a dict, which has own_figures() at the end."""
    path, own = folder / "recording.json", {}
    path.unlink(missing_ok=True)
    recording = harness.attach(pid, path, "--quiet", "--interval", INTERVAL, *options)
    try:
        recording.await_sample()
        yield own
        if recording.popen.poll() is None:
            own.update(own_figures(recording.pid))
            recording.interrupt()
    finally:
        recording.stop()


def watched_by(program):
    """An observer like watched_by_cowprof() with another build of it."""
    @contextlib.contextmanager
    def observer(pid, folder, *options):
        with unittest.mock.patch.object(harness, "COWPROF", program), watched_by_cowprof(pid, folder, *options) as own:
            yield own
    return observer


@contextlib.contextmanager
def watched_by_perf(pid, folder):
    control, acknowledged, own = folder / "control", folder / "acknowledged", {}
    for fifo in (control, acknowledged):
        fifo.unlink(missing_ok=True)
        os.mkfifo(fifo)
    tree = ",".join(map(str, truth.tree(pid)))  # perf follows future children but not existing ones
    command = ["perf", "record", "-e", "page-faults", "-c", "1", "-g", "-p", tree, "-o", str(folder / "perf.data"),
               "--delay=-1", f"--control=fifo:{control},{acknowledged}"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as perf:
        with open(control, "w", encoding="ascii") as orders, open(acknowledged, encoding="ascii") as answers:
            orders.write("enable\n")
            orders.flush()
            answers.readline()
            yield own
            own.update(own_figures(perf.pid))
        perf.send_signal(signal.SIGINT)


@contextlib.contextmanager
def watched_by_psutil(pid, _folder):
    command = [harness.PYTHON, "-c", PSUTIL_LOOP, str(pid)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as loop:
        loop.stdout.readline()
        yield {}
        loop.kill()


def watched_by_events(pid, folder):
    """cowprof on the rung that needs neither fault tracepoints nor fentry."""
    return watched_by_cowprof(pid, folder, "--without=btf-tracepoints", "--without=fentry")


OBSERVERS = {"bare": unwatched, "cowprof": watched_by_cowprof, "perf": watched_by_perf, "psutil": watched_by_psutil,
             "events": watched_by_events}


def usable_observers():
    chosen = dict(OBSERVERS)
    del chosen["events"]  # only on request
    if not shutil.which("perf"):
        del chosen["perf"]
    if subprocess.run([harness.PYTHON, "-c", "import psutil"], capture_output=True, check=False).returncode:
        del chosen["psutil"]
    return chosen


# ---- The measurements: {observer: [one dict of figures per round]} ----

def await_lines(process, count):
    harness.wait_until(lambda: len(process.lines) >= count, "a round to end", seconds=120, pause=0.02)


def next_line(process):
    """Asks a benchmark program for a round; returns its measurements."""
    seen = len(process.lines)
    process.go()
    await_lines(process, seen + 1)
    return process.lines[-1]


def run_rounds(process, watched_pid, options, observers, folder, first_counts=True):
    """Without `first_counts` a round is made before each that is measured: after a start, a program that is asked for pages finds the
    kernel's lists of free pages as the start left them, which takes it more instructions once."""
    results = {name: [] for name in observers}
    next_line(process)  # warms up
    for name, observer in in_turns(options.rounds, observers):
        with observer(watched_pid, folder):
            if name != "bare":
                time.sleep(options.settle)  # what a start costs is not part of a copy
            if not first_counts:
                next_line(process)
            results[name].append(next_line(process))
    return results


@contextlib.contextmanager
def running(name, *arguments):
    process = harness.Process([harness.WORKLOADS / name, *arguments])
    try:
        process.await_line("role", "ready", seconds=120)
        yield process
    finally:
        process.close_stdin()
        process.stop()


def measure_copies(options, observers, folder):
    with running("fault_loop", "--kind=copies", f"--pages={options.pages}") as loop:
        return run_rounds(loop, loop.pid, options, observers, folder, first_counts=False)


def measure_unrelated(options, observers, folder):
    """Measures the loop while another process is watched."""
    with running("fault_loop", "--kind=touches", "--pages=10") as watched, \
            running("fault_loop", "--kind=touches", f"--pages={options.pages}") as loop:
        return run_rounds(loop, watched.pid, options, observers, folder, first_counts=False)


def measure_paced(options, observers, folder):
    """One worker per CPU, as on a large host; more would measure how they share the CPUs."""
    with running("paced_copies", f"--workers={os.cpu_count()}", f"--seconds={options.seconds}") as root:
        return run_rounds(root, root.pid, options, observers, folder)


def measure_mappings(options, observers, folder):
    with running("mmap_latency", f"--mib={options.size}", f"--seconds={options.seconds}") as worker:
        return run_rounds(worker, worker.pid, options, observers, folder)


def measure_attach(options, observers, folder):
    """The observer attaches during the round, so its first look at a large worker is included."""
    results = {name: [] for name in observers}
    with running("mmap_latency", f"--mib={options.size}", f"--seconds={options.seconds}") as worker:
        for name, observer in in_turns(options.rounds, observers):
            seen = len(worker.lines)
            worker.go()
            with observer(worker.pid, folder):
                await_lines(worker, seen + 1)
            results[name].append(worker.lines[-1])
    return results


def cpu_seconds_of_children():
    """CPU seconds of the reaped children and their descendants."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def train_once(options, observer, folder):
    """One entire training, watched from before its workers are forked."""
    script = harness.REPOSITORY / "tests" / "system" / "dataloader.py"
    command = [harness.PYTHON, script, f"--items={options.items}", f"--epochs={options.epochs}"]
    training = harness.Process(command, stderr=subprocess.DEVNULL)
    try:
        training.await_line("event", "start")
        with observer(training.pid, folder) as own:
            training.await_line("event", "end", seconds=300)
        before = cpu_seconds_of_children()
        training.finish()
    finally:
        training.stop()
    epochs = [line for line in training.lines if line["event"] == "epoch"]
    rate = sum(line["batches"] for line in epochs) / sum(line["seconds"] for line in epochs)
    return {"rate": rate, "cpu": cpu_seconds_of_children() - before, **own}


def measure_training(options, observers, folder):
    results = {name: [] for name in observers}
    for name, observer in in_turns(options.rounds, observers):
        results[name].append(train_once(options, observer, folder))
    return results


# The work of cowprof per copy, added piece by piece.
PIECES = {
    "bare": (),
    "counts": ("--without=causes", "--without=stacks"),
    "causes": ("--without=stacks",),
    "cowprof": (),
    "every copy sampled": ("--every-copy", "--without=stacks"),
    "every copy with its stack": ("--every-copy",),
}


def measure_python(options, observers, folder):
    """Copies of pages of Python objects. A warm-up round lets cowprof learn the instructions before each measured round."""
    pieces = {**PIECES, **({"before": ()} if "before" in observers else {})}
    results = {name: [] for name in pieces}
    script = Path(__file__).with_name("python_copies.py")
    process = harness.Process([harness.PYTHON, script, str(options.pages)])
    try:
        process.await_line("role", "ready", seconds=120)
        next_line(process)
        for name, flags in in_turns(options.rounds, pieces):
            observer = observers.get(name, watched_by_cowprof)
            with observer(process.pid, folder, *flags):
                if name != "bare":
                    next_line(process)
                    time.sleep(1.2)
                results[name].append(next_line(process))
    finally:
        process.close_stdin()
        process.stop()
    return results


# ---- The table ----

def cell(values):
    return f"{statistics.median(values):.2f} ({min(values):.2f}–{max(values):.2f})"


def with_error(values):
    error = f" ± {statistics.stdev(values) / len(values) ** 0.5:.2f}" if len(values) > 1 else ""  # of one round it is not known
    return f"{statistics.fmean(values):+.2f}{error}"


def paired_change(name, results, figure):
    """Mean over the rounds of (watched - bare) and its standard error, absolute and as a percentage of bare."""
    pairs = list(zip((row[figure] for row in results["bare"]), (row[figure] for row in results[name])))
    if not all(bare for bare, _ in pairs):
        return "too short to be measured"
    return f"{with_error([watched - bare for bare, watched in pairs])}, {with_error([(watched - bare) / bare * 100 for bare, watched in pairs])} %"


def print_rows(title, unit, figure, goal, results, observers):
    cells = []
    if results.keys() - observers.keys():  # print a separate table
        print(f"\n| what | unit | {' | '.join(results)} | goal for cowprof |\n|---|---|{'---|' * len(results)}---|")
        observers = results
    for name in observers:
        values = [row[figure] for row in results[name] if figure in row]
        change = f"<br>{paired_change(name, results, figure)}" if name != "bare" and figure in results["bare"][0] else ""
        cells.append(cell(values) + change if values else "")
    print(f"| {title} | {unit} | {' | '.join(cells)} | {goal} |", flush=True)


def print_head(options, observers):
    cpu = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    print(f"Linux {platform.release()}, {os.cpu_count()} × {cpu.group(1) if cpu else platform.machine()}, "
          f"{options.rounds} rounds, sampling interval {INTERVAL}\n")
    print("Cells: median (min–max); below it the mean of (watched − bare) over pairs of rounds and its standard error.\n")
    print(f"| what | unit | {' | '.join(observers)} | goal for cowprof |")
    print(f"|---|---|{'---|' * len(observers)}---|")


BENCHMARKS = {
    "copies": (measure_copies, [("a copy-on-write copy", "ns", "ns_per_page", "≤ +500 ns and ≤ +15 %")]),
    "unrelated": (measure_unrelated, [("a fault of an unrelated process", "ns", "ns_per_page", "≤ +150 ns")]),
    "training": (measure_training, [
        ("DataLoader", "batches/s", "rate", "≥ −1 %"),
        ("DataLoader, CPU time of the whole training", "s", "cpu", ""),
        ("the same, of the recorder", "s", "own_cpu", ""),
        ("the same, resident, of the recorder at most", "MiB", "own_mib", "≤ 40"),
    ]),
    "paced": (measure_paced, [
        ("work done by workers with 10,000 copies/s each", "units/s", "units_per_second", "≥ −1 %"),
    ]),
    "mappings": (measure_mappings, [
        ("mmap+munmap, p50", "µs", "p50", ""),
        ("mmap+munmap, p99", "µs", "p99", ""),
        ("mmap+munmap, p99.9", "µs", "p99_9", "≤ +300 µs"),
        ("mmap+munmap, worst", "µs", "worst", "≤ +3000 µs"),
    ]),
    "attach": (measure_attach, [
        ("the same, attach included, p99.9", "µs", "p99_9", ""),
        ("the same, attach included, worst", "µs", "worst", ""),
    ]),
    "python": (measure_python, [("a copy of a Python object's page", "ns", "ns_per_page", "≤ +500 ns and ≤ +15 %")]),
}


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--short", action="store_true", help="a few seconds each, to show that everything runs; the figures mean nothing")
    parser.add_argument("--only", choices=BENCHMARKS, action="append", help="run only this benchmark (repeatable)")
    parser.add_argument("--observers", help="comma-separated list of " + ", ".join(OBSERVERS))
    parser.add_argument("--before", metavar="COWPROF", type=Path, help="another build of cowprof, measured in the same rounds")
    parser.add_argument("--rounds", type=int, help="rounds per observer")
    parser.add_argument("--epochs", type=int, help="of a training (default: 3, some 13 s)")
    parser.add_argument("--size", type=int, help="size in MiB of the worker that measures mmap")
    options = parser.parse_args()
    short = options.short
    options.rounds = options.rounds or (1 if short else 7)
    options.size = options.size or (256 if short else 4096)
    options.pages, options.seconds, options.settle = (20000, 1, 0) if short else (50000, 5, 3)
    options.items, options.epochs = (40000, options.epochs or 2) if short else (400000, options.epochs or 3)
    return options


def main():
    options = parse_arguments()
    observers = usable_observers()
    few = {name: observers[name] for name in ("bare", "cowprof")}
    if options.observers:
        observers = {name: OBSERVERS[name] for name in ["bare", *options.observers.split(",")]}
    if options.before:
        observers["before"] = watched_by(options.before)
    print_head(options, observers)
    with tempfile.TemporaryDirectory(prefix="cowprof-bench-") as folder:
        for name in options.only or BENCHMARKS:
            measure, rows = BENCHMARKS[name]
            if options.short and name != "copies" and not options.observers:
                observers = few  # that the others run was shown
            results = measure(options, observers, Path(folder))
            for title, unit, figure, goal in rows:
                print_rows(title, unit, figure, goal, results, observers)


if __name__ == "__main__":
    main()
