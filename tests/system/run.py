#!/usr/bin/python3
"""Runs the system tests, and those that failed once more when the others are done.

    tests/system/run.py NAME PYTEST_OPTIONS...

They measure real processes on a machine that others may use, so a few depend on getting a CPU in time. What fails twice fails; what
passes the second time is listed in NAME_unsteady.txt, which scripts/run-ctest.py prints. More than MOST failures are not repeated:
that is a fault, not the machine.
Exit status: pytest's, of the last run.
"""
import subprocess
import sys
import tempfile
from pathlib import Path

import harness

MOST = 8


def run(*options):
    """Exit status, and what failed, if it can be repeated."""
    with tempfile.NamedTemporaryFile("r") as failed:
        status = subprocess.run([sys.executable, "-m", "pytest", f"--failed={failed.name}", *options], check=False).returncode
        return status, failed.read().splitlines()


def main():
    name, *options = sys.argv[1:]
    unsteady = harness.BUILD / f"{name}_unsteady.txt"
    unsteady.unlink(missing_ok=True)
    status, failed = run(*options)
    if status != 1 or not 0 < len(failed) <= MOST:
        return status
    print(f"\n{len(failed)} failed; once more:", *failed, sep="\n  ", flush=True)
    status, _ = run(*[option for option in options if not Path(option).exists()], "-m", "slow or not slow", *failed)
    if status == 0:
        unsteady.write_text("".join(f"  {test}\n" for test in failed))
    return status


sys.exit(main())
