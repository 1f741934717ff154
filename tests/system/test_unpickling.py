"""What a recording says that unpickling an item costs, against what the same interpreter takes for it."""
import json
import subprocess

import pytest

import chroots
import harness
import planted
from conftest import needs

WORKLOAD = harness.REPOSITORY / "tests" / "system" / "workloads" / "unpickled_items.py"
PYTHONS = [name for name in planted.VERSIONS if name not in ("3.6", "3.7")]
MIXES, OTHERS = ("dicts", "tuples", "texts"), ("nested", "floats", "sets", "ordered")
COPY_NS = 2080
# A Process drops its arguments once it has started: a look at that moment finds no items, or finds them by another way.
ATTEMPTS = 3


def command_in(suite, *words):
    if suite in chroots.SUITES:
        chroot, why = chroots.chroot(suite)
        if not chroot:
            pytest.skip(f"Debian {suite}: {why}")
        return chroot.python("workloads/unpickled_items.py", *words)
    python = harness.PYTHON if suite == "system" else planted.interpreters()[suite]
    needs(f"Python {suite}", python, "it is not installed")
    return [python, WORKLOAD, *words]


def measured(suite, kind):
    """The least of three: what else runs on the CPU only adds."""
    command = [*map(str, command_in(suite, kind, "measure"))]
    return min(json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)["seconds"] for _ in range(3))


def recorded(folder, suite, kind):
    """What the report on a recording says of the remedy, and the recording's file."""
    file = folder / "recording.json"
    done = harness.run_cowprof("--output", file, "--", *command_in(suite, kind), seconds=120 * harness.PATIENCE)
    assert done.returncode == 0, done.stderr
    report = harness.report_of(file)
    harness.validate(report, "report.schema.json")
    harness.validate(json.loads(file.read_text()), "timeline.schema.json")
    return next(remedy for remedy in report["remedies"] if remedy["id"] == "serialise"), file


def slowness(file):
    """How much slower this host is than the one of the rates when nothing else ran on it: by a copy, which every recording times."""
    return max(1, json.loads(file.read_text())["header"]["host"]["copy_ns"] / COPY_NS)


def check(folder, suite, kind):
    for _ in range(ATTEMPTS):
        remedy, file = recorded(folder, suite, kind)
        if "dataset.items" in remedy["cost"]:
            break
    said, truth = remedy["cost_seconds_per_item"], measured(suite, kind)
    assert said and said["low"] <= truth <= said["high"] * slowness(file), (remedy["cost"], truth, slowness(file))
    assert said["low"] < said["best"] < said["high"]
    assert "one of the 60,000 of dataset.items" in remedy["cost"] and "measured on another host" in remedy["cost"]
    assert "`cowprof pickle PID`" in remedy["cost"]
    assert f"costs: {remedy['cost']}" in harness.run_cowprof("report", file).stdout


def test_dicts_take_what_is_said(tmp_path):
    check(tmp_path, "system", "dicts")


@pytest.mark.slow
@pytest.mark.parametrize("suite, kind", [(suite, kind) for suite in ("system", *PYTHONS, *chroots.SUITES) for kind in MIXES]
                         + [("system", kind) for kind in OTHERS])
def test_items_take_what_is_said(tmp_path, suite, kind):
    check(tmp_path, suite, kind)


@pytest.mark.slow
def test_code_of_the_program_is_not_guessed(tmp_path):
    remedy, _ = recorded(tmp_path, "system", "written")
    assert remedy["cost_seconds_per_item"] is None
    assert remedy["cost"] == "Each access unpickles its item; `cowprof pickle PID` measures how long that takes."
