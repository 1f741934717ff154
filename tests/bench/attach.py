#!/usr/bin/python3
"""How long it takes from the start of cowprof to the first sample on disk, and from SIGINT to its end, with 1 and 64 workers.

Usage, as root: tests/bench/attach.py [--cowprof TOOL] [--rounds N]. Prints, never asserts.
"""
import argparse
import os
import signal
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


def fork_idle():
    if (pid := os.fork()) == 0:
        signal.pause()
    return pid


def attach_once(tool, folder):
    path = folder / "run.json"
    path.unlink(missing_ok=True)
    began = time.monotonic()
    recorder = subprocess.Popen([tool, "--attach", str(os.getpid()), "--quiet", "--output", path], stdout=subprocess.DEVNULL)
    while not (path.exists() and b'"sample"' in path.read_bytes()):
        time.sleep(0.002)
        assert recorder.poll() is None, "the recorder ended"
    attached = time.monotonic() - began
    time.sleep(1)
    began = time.monotonic()
    recorder.send_signal(signal.SIGINT)
    recorder.wait()
    return attached, time.monotonic() - began


def in_words(values):
    error = f" ± {statistics.stdev(values) / len(values) ** 0.5:.3f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.3f}{error}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cowprof", type=Path, default=Path(os.environ.get("COWPROF_BUILD", REPOSITORY / "build")) / "cowprof")
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    print("| workers | to the first sample, s | from SIGINT to the end, s |\n| --- | --- | --- |")
    for workers in (1, 64):
        children = [fork_idle() for _ in range(workers)]
        try:
            with tempfile.TemporaryDirectory() as folder:
                rounds = [attach_once(options.cowprof, Path(folder)) for _ in range(options.rounds)]
            print(f"| {workers} | {in_words([one for one, _ in rounds])} | {in_words([one for _, one in rounds])} |", flush=True)
        finally:
            for child in children:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)


if __name__ == "__main__":
    main()
