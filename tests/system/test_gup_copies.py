"""Copies that raise no page fault exception: the kernel counts their faults, and a sweep finds the pages."""
import pytest

import harness
from counting import assert_counts, children_of, run_attached, run_started

COPYING = ["lock", "populate", "direct"]


def child_row(report, lines):
    (child,) = children_of(lines)
    return harness.row_of(report, child)


@pytest.mark.parametrize("how", COPYING)
def test_copies_by_gup_are_counted_and_told(how, tmp_path):
    report, lines = run_attached(["gup_copies", f"--how={how}", f"--file={tmp_path / 'direct'}"], tmp_path)
    assert_counts(report, lines)
    row = child_row(report, lines)
    assert abs(row["gup_copies"] - 20000) <= 100
    assert row["by_cause"]["kernel"] >= row["gup_copies"]
    assert 19900 <= sum(region["copied_pages"] for region in report["by_region"]) <= 20300
    sentence = report["headline"]["sentence"]
    assert "System calls that lock, pin or prefault memory" in sentence and "78" in sentence, sentence
    assert report["diagnoses"][0]["id"] == "cow-data"
    assert report["diagnoses"][0]["saves_bytes"] is None


def test_verify_sees_them_within_a_second(tmp_path):
    """Pages that are compared are swept each second; what they hold is what the parent's hold."""
    report, lines = run_attached(["gup_copies", "--how=lock", "--hold=3"], tmp_path, "--verify")
    assert_counts(report, lines)
    assert "System calls that lock" in report["headline"]["sentence"]


@pytest.mark.parametrize("how", ["onfault", "fresh"])
def test_locked_memory_that_is_not_copied_is_not_counted(how, tmp_path):
    report, lines = run_started(["gup_copies", f"--how={how}"], tmp_path)
    assert_counts(report, lines)
    assert child_row(report, lines)["gup_copies"] == 0


def test_the_end_of_a_recording_finds_what_was_just_copied(tmp_path):
    workload = harness.Process([harness.WORKLOADS / "gup_copies", "--how=populate", "--hold=60", "--wait"])
    try:
        workload.await_line("role", "ready")
        recording = harness.attach(workload.pid, tmp_path / "ended.json")
        recording.await_sample()
        workload.go()
        workload.await_line("role", "child")
        recording.interrupt()
        assert abs(recording.report()["workers"][0]["gup_copies"] - 20000) <= 100
    finally:
        workload.stop()
