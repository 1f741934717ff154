#!/usr/bin/python3
"""Runs the tests that measure what cowprof survives and prints the table of docs/survival.md, one row per hazard.

    tests/system/survival_rows.py [--slow] [pytest's options]

Run as root. The exit status is pytest's.
"""
import datetime
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

import harness

# Command lines come first: a child's peak memory includes that of the pytest that forked it, which grows.
TESTS = ("test_command_lines.py", "test_survive_processes.py", "test_survive_target.py", "test_survive_recorder.py", "test_harmless.py",
         "test_soak.py", "test_lifecycle.py::test_killed_at_any_moment_leaves_a_valid_file")


def main():
    here = Path(__file__).parent
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        command = [harness.PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--figures", file.name,
                   *(str(here / test) for test in TESTS), *sys.argv[1:]]
        status = subprocess.run(command, stdout=sys.stderr, check=False).returncode
        rows = json.loads(Path(file.name).read_text() or "[]")
    print(f"{datetime.date.today()}, Linux {platform.release()}, {os.cpu_count()} CPUs, "
          f"load {os.getloadavg()[1]:.0f} over 5 minutes:\n")
    print("| area | hazard | result |\n| --- | --- | --- |")
    for row in sorted(rows, key=lambda row: row["row"]):
        print(f"| {row['row']} | {row['hazard']} | {row['figure']} |")
    return status


if __name__ == "__main__":
    sys.exit(main())
