"""Tracking a process tree: none missed, none listed twice, no unrelated ones, and every end has its cause."""
import collections
import os
import signal
import time

import pytest

import harness
from counting import run_attached, run_started

STORM = ["fork_storm", "--forks=120", "--rate=2000", "--pages=64"]
OWN_COPIES = 40  # stack and libc pages of a short-lived child


def ending(row):
    assert row["exit"], f"the exit of {row['pid']} was missed"
    return row["pid"], row["exit"]["kind"], row["exit"]["code"]


def assert_storm(report, lines):
    """Every fork has exactly one row with its exit code and copies. A long storm reuses pids."""
    (forks,) = [line["forks"] for line in lines if line["role"] == "storm"]
    told = [line for line in lines if line["role"] in ("child", "nested", "orphan")]
    assert len(told) == len(report["workers"]) == forks
    truth = collections.Counter((line["pid"], "exited", line["exit_code"]) for line in told)
    listed = collections.Counter(ending(row) for row in report["workers"])
    assert truth - listed == collections.Counter(), "missed"
    assert listed - truth == collections.Counter(), "strangers"
    pages = {line["planted_copies"] for line in told}
    assert pages == {line["pagemap_copies"] for line in told} and len(pages) == 1
    for row in report["workers"]:
        assert max(pages) <= row["copies"] <= max(pages) + OWN_COPIES


@pytest.mark.parametrize("run", [run_attached, run_started], ids=["attach", "start"])
@pytest.mark.parametrize("runs", [5, pytest.param(500, marks=pytest.mark.slow)])
def test_no_fork_and_no_exit_is_ever_missed(run, runs, tmp_path):
    for number in range(runs):
        folder = tmp_path / str(number)
        folder.mkdir()
        assert_storm(*run(STORM, folder))


@pytest.mark.slow
def test_a_long_storm(tmp_path):
    """1000 forks a second for 20 seconds: nothing lost, no process missed."""
    assert_storm(*run_started(["fork_storm", "--forks=20000", "--rate=1000", "--pages=16"], tmp_path))


def boot_ns():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


def record_moving_tree(shape, start_workload, start_recording):
    """Attaches to a tree that forks all the time. Returns the report, the lines, and when the attach began and ended."""
    tree = start_workload("attach_tree", *shape)
    tree.await_line("role", "leaf")
    begun = boot_ns()
    recording = start_recording(tree.pid, "--interval", "100ms")
    recording.await_sample()
    done = boot_ns()
    harness.wait_until(lambda: tree.lines[-1].get("born_ns", 0) > done + 300_000_000, "more leaves")
    lines = tree.finish()
    assert recording.wait() == 0, recording.stderr
    assert lines[-1]["bad_endings"] == 0
    report = recording.report()
    recorded = [record for record in recording.timeline()["records"] if record.get("event") == "process"]
    assert len(recorded) == 1 + len(report["workers"]), "the report lacks processes that the recording has"
    return report, [line for line in lines if "born_ns" in line], begun, done


@pytest.mark.parametrize("attempt", range(15))
@pytest.mark.parametrize("shape", [[], ["--branches=8", "--leaf-us=500"]], ids=["steady", "frantic"])
def test_attach_to_a_moving_tree_misses_nobody(shape, attempt, start_workload, start_recording):
    report, lives, begun, done = record_moving_tree(shape, start_workload, start_recording)
    rows = collections.Counter(row["pid"] for row in [report["parent"], *report["workers"]])
    must = {life["pid"] for life in lives if life["ended_ns"] > done}
    may = {life["pid"] for life in lives if life["ended_ns"] > begun - 50_000_000}
    assert len(must) > 50
    assert [pid for pid, times in rows.items() if times > 1] == [], "listed twice"
    assert must - set(rows) == set(), "missed"
    assert set(rows) - may == set(), "unrelated processes, or processes that had ended before the attach"
    copies = {row["pid"]: row["copies"] for row in report["workers"]}
    for life in lives:
        if life["born_ns"] > done and life["role"] == "leaf":
            assert life["planted_copies"] <= copies[life["pid"]] <= life["planted_copies"] + OWN_COPIES


@pytest.mark.parametrize("run", [run_attached, run_started], ids=["attach", "start"])
def test_every_ending_is_reported(run, tmp_path):
    report, lines = run(["endings", f"--file={tmp_path / 'mapped'}"], tmp_path)
    endings = [line for line in lines if line["role"] == "ending"]
    assert len(endings) == 8
    for line in endings:
        exit_of = harness.row_of(report, line["pid"])["exit"]
        if line["signal"]:
            assert (exit_of["kind"], exit_of["signal"]) == ("signaled", signal.Signals(line["signal"]).name), line["by"]
        else:
            assert (exit_of["kind"], exit_of["code"], exit_of["signal"]) == ("exited", line["code"], None), line["by"]


def test_a_kill_by_an_unrelated_process_is_reported(start_workload, start_recording, tmp_path):
    tree = start_workload("attach_tree", "--branches=1", "--leaf-us=200000")
    leaf = tree.await_line("role", "leaf")
    recording = start_recording(tree.pid, "--interval", "100ms")
    recording.await_sample()
    os.kill(leaf["parent"], signal.SIGKILL)
    harness.wait_until(lambda: not os.path.exists(f"/proc/{leaf['parent']}") or _is_zombie(leaf["parent"]), "the kill")
    tree.finish()
    assert recording.wait() == 0, recording.stderr
    exit_of = harness.row_of(recording.report(), leaf["parent"])["exit"]
    assert (exit_of["kind"], exit_of["signal"]) == ("signaled", "SIGKILL")
    assert not (exit_of["cause"] or "").startswith("oom"), "a plain kill was taken for an OOM kill"


def _is_zombie(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
        return stat.read().rpartition(")")[2].split()[0] == "Z"


def test_rows_end_in_order(tmp_path):
    """started_at and ended_at of each row lie within the recording, in order."""
    report, _ = run_started(["fork_copies", "--children=3"], tmp_path)
    for row in report["workers"]:
        assert 0 <= row["started_at"] <= row["ended_at"] <= report["duration_seconds"] + 0.5


@pytest.mark.parametrize("how", ["vfork", "fork"])
def test_a_command_is_not_charged_its_parents_memory(how, tmp_path):
    """A child between its vfork or fork and its exec has what its parent has, and owns next to nothing of it."""
    pages = 50000
    report, _ = run_attached(["command_runner", f"--pages={pages}", f"--{how}"], tmp_path, "--interval", "100ms")
    large, little = pages * 4096, 2 << 20
    assert len(report["workers"]) == 60
    for row in report["workers"]:
        assert row["role"] not in ("worker", "pool")
        assert (row["peak_private_bytes"] or 0) < little
        assert (row["still_shared_bytes"] or 0) < little
    assert large <= report["parent"]["peak_private_bytes"] < large + little
    assert "no worker was forked" in report["headline"]["sentence"].lower()
