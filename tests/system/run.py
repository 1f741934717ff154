#!/usr/bin/python3
"""Runs the system tests with pytest's options, and those that failed once more when the others are done.

They measure real processes on a machine that others may use, so a few depend on getting a CPU in time. What fails twice fails; what
passes the second time is listed at the end as unsteady. More than MOST failures are not repeated: that is a fault, not the machine.
"""
import subprocess
import sys
from pathlib import Path

import harness

MOST = 8
FAILED = harness.BUILD / "system_failed.txt"      # written by conftest.py
UNSTEADY = harness.BUILD / "system_unsteady.txt"  # printed by scripts/run-ctest.py


def pytest(*arguments):
    return subprocess.run([sys.executable, "-m", "pytest", *arguments], check=False).returncode


def main():
    for path in FAILED, UNSTEADY:
        path.unlink(missing_ok=True)
    status = pytest(*sys.argv[1:])
    failed = FAILED.read_text().splitlines() if FAILED.exists() else []
    if status != 1 or not 0 < len(failed) <= MOST:
        return status
    print(f"\n{len(failed)} failed; once more:", *failed, sep="\n  ", flush=True)
    options = [argument for argument in sys.argv[1:] if argument not in ("-m", "slow") and not Path(argument).exists()]
    status = pytest(*options, "-m", "slow or not slow", *failed)
    if status == 0:
        UNSTEADY.write_text("".join(f"  {test}\n" for test in failed))
    return status


sys.exit(main())
