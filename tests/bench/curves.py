#!/usr/bin/python3
"""Measures how the cost of cowprof grows: with workers, mappings, memory, copies a second, and samples in a recording.

    curves.py [--only CURVE] [--runs 3] [--timelines FOLDER] [--dry] [--short]

Run as root. Prints a table for each curve with the law that fits, and unless --dry or --short writes it into docs/measurements.md and its
plot into docs/images. Figures are means of runs with their standard error; points are measured in turn, so that a slow hour spreads over
all of them. CPU time counts the recorder and its children; what the probes cost the target is in bench.py.
"""
import argparse
import contextlib
import math
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "system"))
import harness  # noqa: E402  (the folder above has to be known first)
import laws  # noqa: E402
import page  # noqa: E402
import plots  # noqa: E402
import usage  # noqa: E402

MAPPINGS = Path("/proc/sys/vm/max_map_count")
KEPT_FREE = 4.0        # GiB of the machine's memory
PAGES_A_GIB = 262144
WORKERS = 4
COPIES = 2000          # a second, of all workers together, where copies are not the curve
SETTLE, WINDOW = 18, 8  # seconds: until the first sweeps are done, and measured after that


@dataclass
class Curve:
    """A cost against `name`; `points` are the values of x, `figures` the columns."""
    title: str
    name: str
    points: list
    figures: dict            # key: (title, unit)
    measure: object          # (x, options, folder) -> (x as measured, figures), or None if it can't be had here
    setting: str
    computed: dict = field(default_factory=dict)  # x: what it stands for
    bounded: dict = field(default_factory=dict)   # key: why the law does not go on


# ---- One run of the recorder ----

def available_gib():
    return int(re.search(r"MemAvailable: +(\d+)", Path("/proc/meminfo").read_text())[1]) / 2**20


@contextlib.contextmanager
def room_for_mappings(count):
    """Raises the limit on mappings per process where it is too low, and restores it."""
    before = MAPPINGS.read_text()
    if int(before) > count + 1000:
        yield
        return
    MAPPINGS.write_text(str(count + 10000))
    try:
        yield
    finally:
        MAPPINGS.write_text(before)


def recorded(options, folder, rate=COPIES / WORKERS, workers=WORKERS, pages=65536, mappings=0):
    """Records paced_reads.py; returns its copies a second and the recorder's figures."""
    path = folder / "recording.json"
    path.unlink(missing_ok=True)
    script = Path(__file__).with_name("paced_reads.py")
    with room_for_mappings(mappings):
        load = harness.Process([harness.PYTHON, script, f"--workers={workers}", f"--rate={rate}", f"--pages={pages}",
                                f"--mappings={mappings}"])
        recording = None
        try:
            load.await_line("role", "ready", seconds=300)
            recording = harness.attach(load.pid, path, "--quiet")
            recording.await_sample()
            start = usage.tree_cpu_seconds(recording.pid)
            time.sleep(options.settle)
            load.go()
            began, before = time.monotonic(), usage.tree_cpu_seconds(recording.pid)
            time.sleep(options.window)
            load.go()
            share = (usage.tree_cpu_seconds(recording.pid) - before) / (time.monotonic() - began)
            memory = usage.tree_resident_bytes(recording.pid) / usage.MIB
            maps = usage.map_bytes(recording.pid) / usage.MIB
            harness.wait_until(lambda: len(load.lines) > 2, "the figures of the load")
            recording.interrupt()
        finally:
            if recording:
                recording.stop()
            load.stop()
    first, last = load.lines[1:3]
    copies = (last["reads"] - first["reads"]) / (last["seconds"] - first["seconds"])
    return copies, {"cpu": share * 100, "first": before, "start": start * 1000, "mib": memory, "maps": maps}


def with_workers(workers, options, folder):
    return workers, recorded(options, folder, rate=COPIES / workers, workers=workers)[1]


def with_mappings(mappings, options, folder):
    return mappings, recorded(options, folder, mappings=mappings)[1]


def with_memory(gib, options, folder):
    """x is the memory that all workers have mapped together."""
    if available_gib() < gib / WORKERS + KEPT_FREE:
        return None
    return gib, recorded(options, folder, pages=round(gib / WORKERS * PAGES_A_GIB))[1]


def with_copies(copies, options, folder):
    """x is what the workers really did."""
    return recorded(options, folder, rate=0 if math.isinf(copies) else copies / WORKERS)


# ---- Reading a recording ----

def timeline_of(samples, options, folder):
    """A recording of so many samples, made once by million.py from one of a real DataLoader."""
    where = options.timelines or folder
    path, source = where / f"{samples}.json", where / "dataloader.json"
    maker = [harness.PYTHON, Path(__file__).with_name("million.py"), path, "--recording", source]
    if not source.exists():
        subprocess.run([harness.PYTHON, "-c", "import million, sys; million.record_dataloader(sys.argv[1])", source],
                       check=True, env={**os.environ, "PYTHONPATH": str(maker[1].parent)}, stderr=subprocess.DEVNULL)
    if not path.exists():
        subprocess.run([*maker, f"--ticks={round(samples / 64)}"], check=True, stdout=subprocess.DEVNULL)
    return path


# A child's peak counts what its parent had when it forked, so the command is started from a small one.
MEASURED = """
import os, resource, sys
status = os.spawnv(os.P_WAIT, sys.argv[1], sys.argv[1:])
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, file=sys.stderr)
sys.exit(status)
"""


def reads(verb, most):
    def measure(samples, options, folder):
        if samples > most:
            return None
        timeline = timeline_of(samples, options, folder)
        command = [harness.COWPROF, verb, timeline, *(["-o", folder / "page.html"] if verb == "view" else [])]
        run = subprocess.run([harness.PYTHON, "-ISc", MEASURED, *command], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                             text=True, check=True)
        cpu, peak = map(float, run.stderr.splitlines()[-1].split())
        return samples, {"cpu": cpu, "mib": peak}
    return measure


# ---- The curves ----

RECORDER = {"cpu": (f"CPU from {SETTLE} s on", "% of a core"), "first": ("CPU until then", "s"), "start": ("CPU to the first sample", "ms"),
            "mib": ("resident", "MiB"), "maps": ("BPF maps", "MiB")}
READER = {"cpu": ("CPU", "s"), "mib": ("peak resident", "MiB")}
LOAD = "Python workers that copy pages of a list of strings by reading it"
SAMPLES = [10**4, 3 * 10**4, 10**5, 3 * 10**5, 10**6, 3 * 10**6, 10**7]
CURVES = {
    "workers": Curve("Workers", "workers", [1, 4, 16, 64, 256, 512], RECORDER, with_workers,
                     f"{LOAD}: {COPIES:,} copies/s in total, 256 MiB of strings."),
    "mappings": Curve("Mappings", "mappings of each process", [100, 300, 1000, 3000, 10000, 30000, 100000], RECORDER, with_mappings,
                      f"{WORKERS} {LOAD}: {COPIES:,} copies/s, and mappings of a page that can't be merged."),
    "memory": Curve("Memory", "GiB that the workers have mapped", [2, 4, 8, 16, 32, 48, 64], RECORDER, with_memory,
                    f"{WORKERS} {LOAD}: {COPIES:,} copies/s spread over 0.5 to 16 GiB of strings, all of which each worker has mapped.",
                    {320: "16 workers with 20 GiB each"}, {"cpu": "not measured after the first sweeps; during them as the last points", "first": "the same"}),
    "copies": Curve("Copies a second", "copies a second", [1000, 3000, 10000, 30000, 100000, math.inf], RECORDER, with_copies,
                    f"{WORKERS} {LOAD}, 256 MiB; a worker that has read all is replaced by a new one. The last point is as fast as they can."),
    "report": Curve("Samples, `report`", "samples of processes in the recording", SAMPLES, READER, reads("report", math.inf),
                    "`cowprof report` of recordings that `million.py` makes from one of a real DataLoader: 64 processes."),
    "view": Curve("Samples, `view`", "samples of processes in the recording", SAMPLES, READER, reads("view", 3 * 10**6),
                  "`cowprof view` of the same, to 3 million."),
}


def measure(curve, options, folder):
    """[(x, {figure: (mean, standard error)})], and what could not be measured."""
    rows, missing = {point: [] for point in curve.points}, []
    for _ in range(options.runs):
        for point in curve.points:
            one = curve.measure(point, options, folder) if point not in missing else None
            if one:
                rows[point].append(one)
            elif point not in missing:
                missing.append(point)
    means = []
    for point in curve.points:
        if rows[point]:
            figures = {key: page.mean_and_error([run[key] for _, run in rows[point]]) for key in curve.figures}
            means.append((page.mean_and_error([x for x, _ in rows[point]])[0], figures))
    return means, missing


def analyse(curve, means):
    """{figure: (points with errors, Law)}"""
    found = {}
    for key in curve.figures:
        points = [(x, *figures[key]) for x, figures in means]
        found[key] = points, laws.fit([(x, y) for x, y, _ in points])
    return found


def points_of(curve, means, found):
    """The table of what was measured."""
    titles = [f"{title}, {unit}" for title, unit in curve.figures.values()]
    lines = [f"| {curve.name} | {' | '.join(titles)} |", "| --- |" + " --- |" * len(titles)]
    for x, figures in means:
        lines.append(f"| {x:,.0f} | {' | '.join(page.with_error(*figures[key]) for key in curve.figures)} |")
    for x, what in curve.computed.items():
        cells = [curve.bounded.get(key) or ("no law holds" if laws.off(law, points) else page.rounded(law.at(x)))
                 for key, (points, law) in found.items()]
        lines.append(f"| {x:,.0f}: {what}, computed by the laws | {' | '.join(cells)} |")
    return "\n".join(lines)


def laws_of(curve, missing, found, options):
    """What was varied, and the table of the figures' ranges, with the law of those that follow one at every point."""
    lines = [f"### {curve.title}", "", curve.setting, "",
             "| | least to most | law, if one holds at every point | off it, root mean square |", "| --- | --- | --- | --- |"]
    for (title, unit), (points, law) in zip(curve.figures.values(), found.values()):
        least, most = (page.rounded(end(y for _, y, _ in points)) for end in (min, max))
        span = f"{least if least == most else f'{least} to {most}'} {unit}"
        holds = "none | " if laws.off(law, points) else f"{law.name}: {law.formula(unit)} | {law.residual * 100:.1f} %"
        lines.append(f"| {title} | {span} | {holds} |")
    if missing:
        lines += ["", f"Not measured here: {', '.join(f'{point:,}' for point in missing)}."]
    return "\n".join([*lines, "", f"`tests/bench/curves.py`, {options.runs} runs. {page.machine()}"])


def draw(curve, found):
    return plots.svg([plots.panel(f"{title}, {unit}", curve.name, *found[key], [] if key in curve.bounded else list(curve.computed))
                      for key, (title, unit) in curve.figures.items() if key in ("cpu", "mib")])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=CURVES, action="append", help="only this curve (repeatable)")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--timelines", type=Path, help="folder that keeps the recordings that are read (2 GB)")
    parser.add_argument("--dry", action="store_true", help="print, but leave docs as they are")
    parser.add_argument("--short", action="store_true", help="two curves of two points, to show that it runs; the figures mean nothing")
    options = parser.parse_args()
    options.settle, options.window = (0.2, 0.5) if options.short else (SETTLE, WINDOW)
    options.runs = 1 if options.short else options.runs
    laws.self_check()
    with tempfile.TemporaryDirectory(prefix="cowprof-bench-") as folder:
        for name in options.only or (("workers", "copies") if options.short else CURVES):
            curve = CURVES[name]
            if options.short:
                curve.points = curve.points[:2]
            means, missing = measure(curve, options, Path(folder))
            found = analyse(curve, means)
            text, points = laws_of(curve, missing, found, options), points_of(curve, means, found)
            print(f"{text}\n\n{points}\n", flush=True)
            if not (options.dry or options.short):
                (page.IMAGES / f"curve-{name}.svg").write_text(draw(curve, found), encoding="utf-8")
                page.write_part(f"curve {name}", f"{text}\n\n![{curve.title}](images/curve-{name}.svg)\n\n{page.folded('The points', points)}")


if __name__ == "__main__":
    main()
