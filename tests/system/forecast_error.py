"""Forecast error over time, on planted shapes of growth: what was forecast at a tenth, a fifth, ... of the plateau.

    python3 tests/system/forecast_error.py [--keep FOLDER] [SHAPE ...]      as root: records each shape, prints the table
    python3 tests/system/forecast_error.py --from FOLDER [SHAPE ...]        uses recordings kept by --keep

The true plateau is the most that the workers owned together at any sample of the whole run. The true time is when 95 % of the
remaining growth has happened. A forecast at a moment is the report on the recording cut off after that record.
"""
import argparse
import functools
import subprocess
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
import harness

TESTS = harness.REPOSITORY / "tests" / "system"
WORKLOAD = TESTS / "workloads" / "planted_epochs.py"
LOADER = TESTS / "workloads" / "planted_dataloader.py"  # a real PyTorch DataLoader, paced
DEMO = TESTS / "dataloader.py"  # unpaced, and attached before it loads its data
LARGE = ["--item=large", "--items=20000"]
# Name: arguments of the workload.
PLANTED_SHAPES = {
    "random-1-small": ["--workers=1", "--items=240000", "--epoch-seconds=120", "--seconds=40"],
    "random-2-small": ["--workers=2", "--epoch-seconds=38", "--epochs=2", "--seconds=24"],
    "random-4-small": ["--workers=4", "--epoch-seconds=19", "--epochs=2", "--seconds=24"],
    "random-1-large": ["--workers=1", "--epoch-seconds=15", *LARGE],
    "epochs-2-large": ["--workers=2", "--epoch-seconds=6", "--epochs=4", *LARGE],
    "epochs-4-large": ["--workers=4", "--epoch-seconds=3", "--epochs=9", *LARGE],
    "sequential-1-small": ["--order=sequential", "--workers=1", "--epoch-seconds=15"],
    "sequential-2-small": ["--order=sequential", "--workers=2", "--epoch-seconds=15"],
    "sequential-4-small": ["--order=sequential", "--workers=4", "--epoch-seconds=8", "--epochs=2"],
    "sequential-2-large": ["--order=sequential", "--workers=2", "--epoch-seconds=15", *LARGE],
    "restart-2-small": ["--workers=2", "--restart", "--epoch-seconds=12", "--epochs=4"],
    "restart-2-large": ["--workers=2", "--restart", "--epoch-seconds=5", "--epochs=4", *LARGE],
}
LOADER_SHAPES = {
    "loader-2-small": ["--workers=2", "--epochs=2", "--epoch-seconds=10"],
    "loader-4-small": ["--workers=4", "--items=200000", "--epoch-seconds=20"],
    "loader-3-small-lasting": ["--workers=3", "--items=150000", "--epochs=3", "--persistent", "--epoch-seconds=10"],
    "loader-2-small-in-order": ["--workers=2", "--in-order", "--epoch-seconds=10"],
    "loader-3-large-in-order": ["--workers=3", "--in-order", "--epochs=2", "--persistent", "--epoch-seconds=10", *LARGE],
    "loader-2-large": ["--workers=2", "--epoch-seconds=10", *LARGE],
    "loader-3-large": ["--workers=3", "--epochs=2", "--epoch-seconds=8", *LARGE],
    "loader-4-large-lasting": ["--workers=4", "--epochs=3", "--persistent", "--epoch-seconds=6", *LARGE],
}
DEMO_SHAPES = {
    "demo-3": ["--items=150000", "--words=40", "--workers=3", "--epochs=3", "--batch-size=32"],
    "demo-4": ["--items=250000", "--words=25", "--workers=4", "--epochs=1"],
}
SHAPES = {name: (arguments, workload)
          for workload, shapes in ((WORKLOAD, PLANTED_SHAPES), (LOADER, LOADER_SHAPES), (DEMO, DEMO_SHAPES))
          for name, arguments in shapes.items()}
FRACTIONS = (0.1, 0.2, 0.3, 0.5, 0.7, 0.9)
TIME_FRACTIONS = (0.2, 0.4, 0.6, 0.8)
MOMENTS = 40


def record(arguments, path, workload=WORKLOAD, interval="100ms"):
    """Records a shape from before its first fork to its end; returns its output lines."""
    process = harness.Process([harness.PYTHON, workload, *arguments], stderr=subprocess.DEVNULL)
    try:
        if workload != DEMO:
            process.await_line("event", "ready", 60)
        recording = harness.attach(process.pid, path, "--interval", interval)
        try:
            recording.await_sample()
            if workload != DEMO:
                process.go()
            process.await_line("event", "end", 120)
            process.finish()
            assert recording.wait() == 0, recording.stderr
        finally:
            recording.stop()
    finally:
        process.stop()
    return process.lines


@functools.lru_cache(maxsize=1)
def moments(path):
    """[(t, private bytes of living workers, forecast)] at about forty moments of a finished recording."""
    lines = Path(path).read_text().splitlines()
    samples = [number for number, line in enumerate(lines) if '"type":"sample"' in line]
    step = max(len(samples) // MOMENTS, 1)
    # Look closely at the first second.
    chosen = sorted(set(samples[:12]) | set(samples[::step]))
    looks = []
    with tempfile.TemporaryDirectory() as folder:
        cut = Path(folder) / "cut.json"
        for number in chosen:
            cut.write_text("\n".join(lines[: number + 1]))
            report = harness.report_of(cut)
            living = [worker for worker in report["workers"] if worker["role"] == "worker" and worker["ended_at"] is None]
            private = sum(worker["private_bytes"] or 0 for worker in living)
            looks.append((report["duration_seconds"], private, report["forecast"]))
    return looks


def errors(path):
    """The true plateau in bytes, and for each moment (t, fraction reached, error of `best` or None, inside the range or None)."""
    truth = harness.report_of(path)["totals"]["peak_workers_private_bytes"]
    rows = []
    for t, private, forecast in moments(path):
        plateau = forecast["plateau_bytes"]
        if forecast["ended"] or not private:
            continue
        rows.append((t, private / truth, plateau and plateau["best"] / truth - 1,
                     plateau and plateau["low"] <= truth * 1.001 and plateau["high"] >= truth * 0.999))
    # After the peak there is nothing to forecast: workers exit one by one.
    peak = max((row[1] for row in rows), default=0)
    end = next((number for number, row in enumerate(rows) if row[1] >= min(0.995, peak)), len(rows))
    return truth, rows[:end]


def time_errors(path):
    """For each moment (t, fraction reached, error of the time to the plateau or None, inside the range or None)."""
    truth = harness.report_of(path)["totals"]["peak_workers_private_bytes"]
    seen = [moment for moment in moments(path) if not moment[2]["ended"]]
    rows = []
    for number, (t, private, forecast) in enumerate(seen):
        if private >= 0.995 * truth:
            break
        level, due, eta = private + 0.95 * (truth - private), None, forecast["plateau_eta_seconds"]
        for before, after in zip(seen[number:], seen[number + 1:]):
            if before[1] < level <= after[1]:
                due = before[0] + (level - before[1]) / (after[1] - before[1]) * (after[0] - before[0]) - t
                break
        if private and due:
            rows.append((t, private / truth, eta and eta["best"] / due - 1, eta and eta["low"] <= due <= eta["high"]))
    return rows


def cells_of(rows, fractions):
    at = [next((row[2] for row in rows if row[1] >= fraction), None) for fraction in fractions]
    return ["      -" if error is None else f"{100 * error:+5.0f} %" for error in at]


def table_row(shape, truth, rows):
    cells = cells_of(rows, FRACTIONS)
    late = [row for row in rows if row[1] >= 0.2 and row[2] is not None]
    inside = sum(row[3] for row in late) / len(late) if late else 0
    worst = max((abs(row[2]) for row in late), default=0)
    figures = f"   {100 * worst:4.0f} %   {100 * inside:4.0f} %" if late else "      -        -"
    return f"{shape:23s} {truth / 2**20:6.0f} MiB  " + "  ".join(cells) + figures


def coverage(rows, most=1.0):
    """(moments at which the interval held the truth, at which there was one, all), from 20 % of the plateau to `most` of it."""
    among = [row for row in rows if 0.2 <= row[1] <= most]
    told = [row for row in among if row[2] is not None]
    return sum(row[3] for row in told), len(told), len(among)


def share(part, whole):
    return f"{100 * part / whole:4.0f} %" if whole else "     -"


def time_cells(rows):
    inside, told, moments_seen = coverage(rows, 0.9)
    return "  ".join(cells_of(rows, TIME_FRACTIONS)) + f"   {share(inside, told)}  {share(told, moments_seen)}"


def summary(name, counts):
    """How often an interval was given and held the truth, over all shapes, and in which shapes less than 90 % of the time."""
    inside, told, seen = (sum(row[number] for row in counts.values()) for number in range(3))
    below = [f"{shape} ({row[0]} of {row[1]})" for shape, row in counts.items() if row[1] and row[0] < 0.9 * row[1]]
    return (f"{name}: given at {told} of {seen} moments, held the truth at {share(inside, told).strip()} of them; below 90 %: "
            f"{', '.join(below) or 'no shape'}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shapes", nargs="*", metavar="SHAPE", help=", ".join(SHAPES))
    parser.add_argument("--keep", type=Path, help="folder in which to keep the recordings")
    parser.add_argument("--from", type=Path, dest="source", help="folder with recordings from --keep")
    arguments = parser.parse_args()
    print(f"{'':23s} {'plateau':>10s}  " + "  ".join(f"at {100 * f:2.0f} %" for f in FRACTIONS) + "  worst    inside  |  "
          + "  ".join(f"at {100 * f:2.0f} %" for f in TIME_FRACTIONS) + "   inside   given\n"
          f"{'':35s} error of the best estimate at that share of it; from 20 % on"
          f"{'':16s} |  the same for the time to reach it", flush=True)
    heights, times = {}, {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.source or arguments.keep or Path(scratch)
        folder.mkdir(exist_ok=True)
        for shape in arguments.shapes or SHAPES:
            path = folder / f"{shape}.json"
            if not arguments.source:
                path.unlink(missing_ok=True)
                shape_arguments, workload = SHAPES[shape]
                record(shape_arguments, path, workload)
            (truth, rows), rows_of_time = errors(path), time_errors(path)
            heights[shape], times[shape] = coverage(rows), coverage(rows_of_time, 0.9)
            print(table_row(shape, truth, rows), " | ", time_cells(rows_of_time), flush=True)
    print(summary("plateau", heights))
    print(summary("time to it", times))


if __name__ == "__main__":
    main()
