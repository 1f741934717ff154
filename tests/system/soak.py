#!/usr/bin/python3
"""The soak test: records a real DataLoader, whose workers are restarted at each epoch, for a given time.

    tests/system/soak.py --minutes 60

Prints a line per look and a verdict at the end: cowprof's resident memory after the warm-up, its descriptors, BPF maps, share of
a core and losses, and whether the file was a valid recording at every look. The exit status is 1 if a bound is exceeded. Needs
root; test_soak.py runs a short one.
"""
import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import harness
import usage

SCRIPT = harness.REPOSITORY / "tests" / "system" / "dataloader.py"
MOST_DRIFT = usage.MIB  # growth of resident memory after the warm-up


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--looks", type=int, default=30, help="how many times the figures are taken")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--batches", type=int, default=6, help="batches per epoch; its workers end with it")
    return parser.parse_args()


@contextlib.contextmanager
def training(workers, batches):
    command = [harness.PYTHON, SCRIPT, "--items=20000", f"--workers={workers}", f"--batches={batches}", "--batch-size=64",
               "--epochs=1000000000", "--report-every=1000000"]
    process = harness.Process(command, stderr=subprocess.DEVNULL)
    try:
        process.await_line("event", "ready", seconds=120)
        yield process
    finally:
        process.stop()


def parsed(path):
    """The recording, which is valid JSON at any time; retries a read that coincided with a write."""
    for _ in range(3):
        with contextlib.suppress(json.JSONDecodeError):
            return harness.load_json(path)
    raise AssertionError(f"{path} was not valid JSON three times in a row")


def look(recording, train, meter, began):
    document = parsed(recording.path)
    ended = sum(record.get("event") == "exit" for record in document["records"])
    losses = [record["losses"] for record in document["records"] if record.get("losses")]
    figures = {"seconds": round(time.monotonic() - began), "epochs": sum(line["event"] == "epoch" for line in train.lines),
               "ended": ended, "resident": usage.resident_bytes(recording.pid),
               "descriptors": usage.descriptors(recording.pid), "maps": usage.map_bytes(recording.pid),
               "cpu": meter.share(), "lost": sum(losses[-1].values()) if losses else 0,
               "file": recording.path.stat().st_size}
    meter.start()
    return figures


HEADER = ("| s | epochs | workers that ended | resident | descriptors | BPF maps | CPU | lost | file |\n"
          "| --- | --- | --- | --- | --- | --- | --- | --- | --- |")


def row(one):
    return (f"| {one['seconds']} | {one['epochs']} | {one['ended']} | {one['resident'] / usage.MIB:.2f} MiB | "
            f"{one['descriptors']} | {one['maps'] / usage.MIB:.1f} MiB | {100 * one['cpu']:.1f} % | {one['lost']} | "
            f"{one['file'] / usage.MIB:.2f} MiB |")


def soak(minutes, looks, workers, batches, folder, say=print):
    """Returns the figures of each look, and validates the final recording against the schema."""
    say(HEADER)
    figures = []
    with training(workers, batches) as train:
        recording = harness.attach(train.pid, Path(folder) / "soak.json", "--quiet")
        try:
            recording.await_sample()
            began, meter = time.monotonic(), usage.Meter(recording.pid)
            for number in range(1, looks + 1):
                time.sleep(max(0.0, began + minutes * 60 * number / looks - time.monotonic()))
                figures.append(look(recording, train, meter, began))
                say(row(figures[-1]))
            recording.interrupt()
        finally:
            recording.stop()
    assert not recording.stderr, recording.stderr
    recording.timeline()
    return figures


def drift(figures):
    """Growth of resident memory after the warm-up (the first third): the maximum of the last third minus that of the second."""
    third = len(figures) // 3
    resident = [one["resident"] for one in figures]
    return max(resident[2 * third:]) - max(resident[third:2 * third])


def rise_of(values):
    """From the first to the last of equally spaced values, by a line of least squares, and its standard error."""
    slope, start = statistics.linear_regression(range(len(values)), values)
    left = sum((value - start - slope * at) ** 2 for at, value in enumerate(values)) / (len(values) - 2)
    spread = sum((at - (len(values) - 1) / 2) ** 2 for at in range(len(values)))
    return slope * (len(values) - 1), (left / spread) ** 0.5 * (len(values) - 1)


def breaches(figures):
    """The bounds that were exceeded, as text."""
    found = []
    if drift(figures) > MOST_DRIFT:
        found.append(f"resident memory rose by {drift(figures) / usage.MIB:.2f} MiB")
    # They include files of the workers that happen to live, so single looks differ by ten.
    held = [one["descriptors"] for one in figures]
    rise, error = rise_of(held)
    if rise > max(1, 3 * error):
        found.append(f"descriptors rose by {rise:.1f} ± {error:.1f}: {held}")
    if len({one["maps"] for one in figures}) > 1:
        found.append("the BPF maps changed size")
    if any(one["lost"] for one in figures):
        found.append(f"{figures[-1]['lost']} events lost")
    return found


def main():
    arguments = parse_arguments()
    with tempfile.TemporaryDirectory(prefix="cowprof-soak-") as folder:
        figures = soak(arguments.minutes, arguments.looks, arguments.workers, arguments.batches, folder,
                       say=lambda line: print(line, flush=True))
    print(f"\ndrift {drift(figures) / usage.MIB:.2f} MiB after the warm-up; {'; '.join(breaches(figures)) or 'all bounds hold'}")
    return 1 if breaches(figures) else 0


if __name__ == "__main__":
    sys.exit(main())
