#!/usr/bin/python3
"""Runs the unit tests, and all of them once more if one failed.

    tests/unit/run.py NAME UNIT_TESTS [CATCH_OPTIONS]...

Some fork real processes on a machine that others may use. What fails twice fails; what passes the second time is listed in
NAME_unsteady.txt, which scripts/run-ctest.py prints.
Exit status: that of the last run.
"""
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

NAMED = re.compile(r"^(?:failed|hangs|crashed): .+", re.MULTILINE)  # by main.cc


def run(command):
    """Exit status, and the lines that name what did not pass. Ends processes that outlive the tests: as long as they had its output,
    ctest would wait for them."""
    with tempfile.TemporaryFile("w+", errors="replace") as said:
        tests = subprocess.Popen(command, stderr=said, start_new_session=True)
        try:
            status = tests.wait()
        finally:
            try:
                os.killpg(tests.pid, signal.SIGKILL)
                print("Processes of the tests outlived them, and were killed.", flush=True)
            except ProcessLookupError:
                pass
        said.seek(0)
        text = said.read()
    print(text, end="", file=sys.stderr, flush=True)
    return status, NAMED.findall(text)


def main():
    name, *command = sys.argv[1:]
    unsteady = Path(f"{name}_unsteady.txt")
    unsteady.unlink(missing_ok=True)
    status, failed = run(command)
    if status == 0 or not failed:
        return status
    print("\nOnce more, since these did not pass:", *failed, sep="\n  ", flush=True)
    status, _ = run(command)
    if status == 0:
        unsteady.write_text("".join(f"  {name}: {line}\n" for line in failed))
    return status


sys.exit(main())
