"""Runs inside a guest, started by init: forces each rung and counts planted workloads with it, then runs system tests.

Reports results as JSON lines on descriptor 3, which run.py reads; everything else goes to the console. Judges nothing.
"""
import base64
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest import mock

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "system"))
import counting  # noqa: E402
import harness  # noqa: E402

LINES = 3
MOST_AGAIN = 3
STUCK_SECONDS = 240  # seconds after which the stacks of a hanging test are printed on the console
# Planted at every rung. The last two plant no copies, so any that are counted there are errors.
PLANTED = {
    "fork": ["fork_copies", "--pages=20000"],
    "threads": ["thread_copies"],
    "by the kernel": ["kernel_copies"],
    "reuses": ["parent_reuses"],
    "new memory": ["zero_fills"],
}


def tell(**line):
    os.write(LINES, f"{json.dumps(line)}\n".encode())


def count(rung, above, name, command):
    """Counts one workload at one rung, with every rung above it disabled."""
    options = [word for other in above for word in ("--without", other)]
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(harness, "validate"):  # the tests do that, and it is slow here
        report, lines = counting.run_attached(command, Path(folder), *options)
    truth = counting.planted(lines)
    rows = {row["pid"]: row for row in [report["parent"], *report["workers"]]}
    counted = [rows[pid]["copies"] if pid in rows else None for pid in truth]
    tell(rung=rung, workload=name, used=report["exactness"]["rung"], exactness=report["exactness"]["copies"],
         processes=len(truth), planted=sum(figures["copies"] for figures in truth.values()),
         counted=None if None in counted else sum(counted), losses=report["losses"])


def count_at_every_rung(rungs, wanted):
    """`rungs` are those from doctor that count copies, best first; counts at the `wanted` ones, or at all."""
    for number, rung in enumerate(rungs):
        if not rung["usable"] or (wanted and rung["rung"] not in wanted):
            continue
        if rung["exactness"] == "page-map":  # counts only what a sweep sees of living processes; test_page_map_rung.py tests it
            continue
        above = [other["rung"] for other in rungs[:number]]
        for name, command in PLANTED.items():
            try:
                count(rung["rung"], above, name, command)
            except Exception as error:  # reported, and the other workloads continue
                tell(rung=rung["rung"], workload=name, error=f"{type(error).__name__}: {error}"[:2000])


class Outcomes:
    """A pytest plugin that reports which test is running and how each one ended; keeps those that failed."""

    def __init__(self, again=False):
        self.again, self.failed, self.ended = again, {}, set()

    @staticmethod
    def pytest_runtest_logstart(nodeid):
        tell(running=nodeid.split("/")[-1])

    def pytest_runtest_logreport(self, report):
        if report.when == "call" or report.outcome != "passed":
            reason = report.longrepr[2] if report.skipped else str(report.longrepr or "")
            line = {"test": report.nodeid.split("/")[-1], "outcome": report.outcome, "seconds": round(report.duration, 1), "reason": reason[-4000:]}
            self.ended.add(report.nodeid)
            if report.outcome == "failed":
                self.failed[report.nodeid] = line
            else:
                tell(**line, again=self.again)


def run_tests(tests):
    """Those that fail run once more, unless they are many: see tests/system/run.py."""
    options = ["-q", "-p", "no:cacheprovider", "--tb=short", "-o", f"faulthandler_timeout={STUCK_SECONDS}"]
    outcomes = Outcomes()
    pytest.main([*options, *[f"tests/system/{test}" for test in tests]], plugins=[outcomes])
    if 0 < len(outcomes.failed) <= MOST_AGAIN:
        first, outcomes = outcomes, Outcomes(again=True)
        pytest.main([*options, *first.failed], plugins=[outcomes])
        outcomes.failed |= {node: line for node, line in first.failed.items() if node not in outcomes.ended}
    for line in outcomes.failed.values():
        tell(**line)


def main():
    job = json.loads(base64.urlsafe_b64decode(sys.argv[1]))
    doctor = json.loads(harness.run_cowprof("doctor", "--json").stdout)
    tell(kernel=os.uname().release, doctor=doctor)
    count_at_every_rung([rung for rung in doctor["rungs"] if "copies" in rung["capabilities"]], job["rungs"])
    if job["tests"]:
        run_tests(job["tests"])
    for command in job["commands"]:
        result = subprocess.run(["bash", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        tell(command=command, status=result.returncode, output=result.stdout)
    tell(done=True)


if __name__ == "__main__":
    main()
