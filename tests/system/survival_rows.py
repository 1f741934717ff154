#!/usr/bin/python3
"""Hazard by hazard, what happened and how much: runs the tests that measure it and prints a table for docs/survival.md.

    tests/system/survival_rows.py [--slow] [pytest's options]

As root. Exit status: pytest's.
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

# The command lines first: the memory of who forks counts as the child's.
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
    print("| row | hazard | result |\n| --- | --- | --- |")
    for row in sorted(rows, key=lambda row: row["row"]):
        print(f"| {row['row']} | {row['hazard']} | {row['figure']} |")
    return status


if __name__ == "__main__":
    sys.exit(main())
