#!/usr/bin/python3
"""Measures the size of a long recording and of its page, and the cost of `cowprof view`. page_speed.mjs measures the page's speed.

    page_size.py [TIMELINE.json] [--processes 64] [--ticks 15625]

Without a timeline, million.py makes one of a million samples (needs root and torch). Prints, never asserts.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "system"))
import harness  # noqa: E402  (the folder above has to be known first)


def bytes_by_key(path):
    """Bytes per key of the samples and the number of process rows, estimated from every 20th record."""
    sizes, rows = {}, 0
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines):
            if number % 20 or '"type":"sample"' not in line:
                continue
            record = json.loads(line.strip(",\n"))
            rows += len(record.get("processes", []))
            for key, value in record.items():
                sizes[key] = sizes.get(key, 0) + len(json.dumps(value, separators=(",", ":")))
    return {key: size / max(1, rows) for key, size in sizes.items()}, rows * 20


def run_view(timeline, page):
    """Wall seconds, CPU seconds and peak KiB of `cowprof view`."""
    started = time.monotonic()
    child = subprocess.Popen([str(harness.COWPROF), "view", str(timeline), "-o", str(page)], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    assert status == 0, status
    return time.monotonic() - started, usage.ru_utime + usage.ru_stime, usage.ru_maxrss


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("timeline", nargs="?")
    parser.add_argument("--processes", default="64")
    parser.add_argument("--ticks", default="15625")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        timeline = arguments.timeline or Path(folder) / "timeline.json"
        if not arguments.timeline:
            subprocess.run([harness.PYTHON, Path(__file__).with_name("million.py"), timeline, "--processes", arguments.processes,
                            "--ticks", arguments.ticks], check=True)
        page = Path(folder) / "page.html"
        wall, cpu, most_kib = run_view(timeline, page)
        sizes, rows = bytes_by_key(timeline)
        named = ", ".join(f"{key} {size:.1f}" for key, size in sorted(sizes.items(), key=lambda item: -item[1]) if size >= 0.5)
        print(f"timeline: {Path(timeline).stat().st_size / 1e6:.1f} MB, about {rows} process samples; bytes per process sample: {named}")
        print(f"page: {page.stat().st_size / 1e6:.2f} MB; cowprof view: {wall:.1f} s, CPU {cpu:.1f} s, {most_kib / 1024:.0f} MiB at most")


if __name__ == "__main__":
    main()
