"""A real PyTorch DataLoader: its workers' copies according to cowprof, smaps_rollup and page frames.

The test (not cowprof) stops all processes of the training with SIGSTOP while it reads the truth before and after, so that all
three describe the same moments.
"""
import json
import os
import signal
import subprocess

import pytest

import harness
import truth

SCRIPT = harness.REPOSITORY / "tests" / "system" / "dataloader.py"
RUN = ["--items=400000", "--epochs=30", "--report-every=20"]
GROWTH_BYTES = 40 * 2**20


class Moment:
    """The process tree, stopped, and what /proc says about it."""

    def __init__(self, root):
        self.pids = truth.tree(root)
        for pid in self.pids:
            os.kill(pid, signal.SIGSTOP)
        for pid in self.pids:
            harness.wait_until(lambda: truth.state(pid) == "T", f"{pid} to stop")
        self.private = {pid: truth.private_bytes(pid) for pid in self.pids}
        self.frames = {pid: truth.anonymous_frames(pid) for pid in self.pids}

    def release(self):
        for pid in self.pids:
            os.kill(pid, signal.SIGCONT)


@pytest.fixture(scope="module")
def growth(tmp_path_factory):
    """One recording of a training between two moments: (before, after, report, training, timeline)."""
    training = harness.Process([harness.PYTHON, SCRIPT, *RUN, "--batch-size=128"], stderr=subprocess.DEVNULL)
    path = tmp_path_factory.mktemp("dataloader") / "training.json"
    try:
        training.await_line("event", "progress")  # first batches of the first epoch, so its workers exist
        before = Moment(training.pid)
        recording = harness.attach(training.pid, path, "--interval", "250ms")
        try:
            recording.await_sample()
            before.release()
            grown = before.private[before.pids[1]] + GROWTH_BYTES
            harness.wait_until(lambda: truth.private_bytes(before.pids[1]) > grown, "growth", pause=0.05)
            after = Moment(training.pid)
            recording.interrupt()
        finally:
            recording.stop()
        after.release()
        yield before, after, recording.report(), training, recording.timeline()
    finally:
        training.stop()


def test_both_workers_lived_through_the_recording(growth):
    before, after, report, training, _ = growth
    assert before.pids == after.pids and len(before.pids) == 3
    assert report["parent"]["pid"] == training.pid
    assert sorted(row["pid"] for row in report["workers"]) == sorted(before.pids[1:])
    assert report["target"]["start_method"] == "fork"


def test_copies_explain_the_growth_of_private_memory(growth):
    """cowprof's copies agree with smaps_rollup, read by this test, within 3 %."""
    before, after, report, *_ = growth
    for pid in before.pids[1:]:
        grown = after.private[pid] - before.private[pid]
        copied = harness.row_of(report, pid)["copied_bytes"]
        assert grown > GROWTH_BYTES // 2
        assert abs(grown - copied) <= 0.03 * grown, f"worker {pid}: grew {grown}, copied {copied}"


def test_private_bytes_agree_with_smaps_rollup(growth):
    _, after, report, *_ = growth
    for pid in after.pids[1:]:
        row = harness.row_of(report, pid)
        assert abs(row["private_bytes"] - after.private[pid]) <= 0.03 * after.private[pid]
        assert row["peak_private_bytes"] >= row["private_bytes"]


def test_copies_agree_with_page_frames(growth):
    """A page of a worker whose frame has changed was copied; the counts agree within 0.5 %."""
    before, after, report, *_ = growth
    for pid in before.pids[1:]:
        moved = truth.diverged(before.frames[pid], after.frames[pid])
        copies = harness.row_of(report, pid)["copies"]
        assert moved > GROWTH_BYTES // 2 // harness.PAGE
        assert abs(moved - copies) <= 0.005 * moved, f"worker {pid}: {moved} frames, {copies} copies"


def test_pages_a_worker_no_longer_shares(growth):
    """Frames that differ between worker and trainer: the worker's copies plus the few of the trainer."""
    before, after, report, _, _ = growth
    root = report["parent"]["pid"]
    for pid in before.pids[1:]:
        unshared = [truth.diverged(moment.frames[root], moment.frames[pid]) for moment in (before, after)]
        copies = harness.row_of(report, pid)["copies"] + report["parent"]["copies"]
        assert abs(unshared[1] - unshared[0] - copies) <= 0.02 * copies


def test_the_trainer_itself_hardly_copies(growth):
    _, _, report, *_ = growth
    assert report["parent"]["copies"] < 0.1 * sum(row["copies"] for row in report["workers"])


def test_rows_are_compact(growth):
    """At most 120 bytes per process and sample."""
    *_, timeline = growth
    rows = [row for record in timeline["records"] if record["type"] == "sample" for row in record.get("processes", [])]
    assert len(rows) >= 6
    assert sum(len(json.dumps(row, separators=(",", ":"))) for row in rows) <= 120 * len(rows)


def test_a_whole_training_from_start_to_end(tmp_path):
    """Every epoch forks new workers; each has a row and an end."""
    path = tmp_path / "whole.json"
    result = harness.run_cowprof("--output", path, "--quiet", "--", harness.PYTHON, SCRIPT, "--items=40000", "--epochs=3",
                                 "--batches=60", seconds=60)
    assert result.returncode == 0, result.stderr
    report = harness.report_of(path)
    workers = [row for row in report["workers"] if row["role"] == "worker"]
    assert len(workers) == 6
    assert all(row["exit"]["kind"] == "exited" and row["exit"]["code"] == 0 for row in workers)
    assert all(row["copies"] > 1000 for row in workers)
    trainer = report["parent"]
    assert trainer["copies"] < 0.3 * trainer["write_protect_faults"], "pages that the trainer reused were counted as copies"
