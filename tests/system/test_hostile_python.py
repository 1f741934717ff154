"""Workers that would mislead or break a careless profiler: lookalike objects, hostile names, cyclic frames, sudden deaths.

Whatever they do, cowprof exits with status 0 within the deadline, the report is valid, and no cause, type or line is invented.
"""
import json
import re

import pytest

import harness
import planted
from conftest import needs

WORKLOAD = planted.WORKLOAD.with_name("hostile_python.py")
LOOKALIKES = ("lookalike_memset", "lookalike_memmove", "lookalike_store", "lookalike_array", "lookalike_numpy")
OWN_COPIES = 300  # what the interpreter copies on its own, mostly for reference counts
# C0 controls (except line feed) and C1 controls, direction marks, line separators, the byte order mark.
UNPRINTABLE = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


def usual_pythons():
    """The distribution's interpreter and the oldest and newest of the others."""
    found = [name for name, python in planted.interpreters().items() if python]
    others = [name for name in found if name != planted.DEBIAN]
    usual = {planted.DEBIAN, *others[:1], *others[-1:]}
    return [pytest.param(name, marks=[] if name in usual else pytest.mark.slow) for name in found]


@pytest.fixture(params=usual_pythons())
def python(request):
    return planted.interpreters()[request.param]


def run(python, scenario, folder, *options):
    try:
        return planted.run(python, scenario, folder, workload=WORKLOAD, options=options)
    except planted.Skipped as reason:
        needs(f"scenario {scenario}", False, reason)


def causes_of(run):
    row = harness.row_of(run.report, run.worker["pid"])
    causes = row["by_cause"]
    assert sum(causes.values()) == row["copies"]
    assert not list(planted.check_count(run.worker, row))
    return causes, row["copies"]


def assert_printable(text, size=200_000):
    assert not UNPRINTABLE.search(text), repr(UNPRINTABLE.search(text))
    assert len(text) < size


def text_report(path):
    result = harness.run_cowprof("report", path)
    assert result.returncode == 0, result.stderr
    return result.stdout + result.stderr


# Only the distribution's interpreter has numpy.
def lookalike_runs():
    for scenario in LOOKALIKES:
        for parameter in usual_pythons():
            if scenario != "lookalike_numpy" or parameter.values[0] == planted.DEBIAN:
                yield pytest.param(*parameter.values, scenario, marks=parameter.marks)


@pytest.mark.parametrize("version, scenario", lookalike_runs())
def test_a_write_to_a_lookalike_object_is_data(version, scenario, tmp_path):
    """Writes by C code or an item store to inherited memory full of {3, type} are data or unknown, never that type."""
    done = run(planted.interpreters()[version], scenario, tmp_path)
    causes, copies = causes_of(done)
    assert causes["data"] + causes["unknown"] >= done.worker["planted_copies"] - OWN_COPIES, causes
    types = planted.types_of(done.report)
    assert all(types[name] <= OWN_COPIES for name in ("int", "float", "list")), types.most_common(5)
    assert not list(planted.check_lines(done.worker, done.report))


def test_names_are_kept_apart_and_harmless(python, tmp_path):
    """Types, functions and files whose names are a megabyte long or contain control characters, escapes or markup stay text."""
    done = run(python, "names", tmp_path)
    causes, copies = causes_of(done)
    assert causes["refcount"] > 0.95 * copies
    text = json.dumps(done.report)
    assert len(text) < 4_000_000
    json.loads(text)
    assert_printable(text_report(done.path))
    types = done.report["by_type"]
    assert sum(row["copies"] > 0.003 * copies for row in types) >= 8, [row["type"][:40] for row in types]


def test_names_do_no_harm_on_the_terminal_while_recording(tmp_path):
    """The same for what the recording prints while it runs."""
    process = harness.Process([harness.PYTHON, WORKLOAD, "names"])
    try:
        process.await_line("role", "ready")
        recording = harness.Recording(tmp_path / "live.json", ["--attach", process.pid, "--output", tmp_path / "live.json",
                                                               "--interval", "200ms"])
        try:
            recording.await_sample()
            process.go()
            said, complained = recording.popen.communicate(timeout=harness.DEADLINE)
        finally:
            recording.stop()
    finally:
        process.stop()
    assert recording.popen.returncode == 0, complained
    assert_printable(said.replace("\r", "\n"))
    assert_printable(complained.replace("\r", "\n"))


@pytest.mark.parametrize("scenario", ["frame_cycle", "frame_pair"])
def test_a_cycle_of_frames_ends(python, scenario, tmp_path):
    """If a frame's caller is itself or its callee, the line is still known and the stack walk ends."""
    done = run(python, scenario, tmp_path)
    assert not planted.deviations(done)


def test_a_cycle_of_frames_seen_by_every_sample_stays_small(tmp_path):
    """An endless stack does not fill the file."""
    done = run(harness.PYTHON, "frame_cycle", tmp_path)
    assert done.path.stat().st_size < 1_000_000


def test_workers_that_unmap_and_die_while_they_are_read(python, tmp_path):
    """A hundred workers that are killed half-way, unmap what they copied, or exec; and a parent that unmaps."""
    process = harness.Process([python, WORKLOAD, "storm"])
    try:
        process.await_line("role", "ready")
        recording = planted.attach_and_go(process, tmp_path)
        workers = process.finish()[-1]["workers"]
    finally:
        process.stop()
    recording.timeline()
    report = recording.report(healthy=False)
    assert len({row["pid"] for row in report["workers"]}) == len(report["workers"]) == workers
    causes = report["totals"]["by_cause"]
    assert sum(causes.values()) == report["totals"]["copies"]
    assert causes["refcount"] > 0.2 * report["totals"]["copies"]
    assert_printable(text_report(recording.path))
