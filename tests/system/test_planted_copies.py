"""Copies that a workload planted against copies that cowprof counted: they agree within 0.5 %, for every way to make a copy.

The workload also compares its page frames with its parent's, so pagemap confirms what it says it planted.
"""
import pytest

import harness
from counting import assert_counts, children_of, run_attached, run_started

COPIES = {
    "fork": ["fork_copies"],
    "two children": ["fork_copies", "--children=2"],
    "nested forks": ["nested_forks"],
    "vfork and exec": ["vfork_exec"],
    "threads": ["thread_copies"],
    "racing threads": ["thread_copies", "--race"],
    "by the kernel": ["kernel_copies"],
    "exec": ["exec_self"],
}


@pytest.mark.parametrize("run", [run_attached, run_started], ids=["attach", "start"])
@pytest.mark.parametrize("workload", COPIES.values(), ids=COPIES.keys())
def test_planted_copies_are_counted(run, workload, tmp_path):
    report, lines = run(workload, tmp_path)
    assert_counts(report, lines)
    assert report["exactness"]["copies"] == "exact"


@pytest.mark.parametrize("run", [run_attached, run_started], ids=["attach", "start"])
def test_copies_during_a_cold_read_are_not_mistaken_for_page_cache(run, tmp_path):
    """Page-cache pages are allocated in the same system call as the copies."""
    report, lines = run(["kernel_copies", "--pages=8000", f"--file={tmp_path / 'cold'}"], tmp_path)
    assert [line["cold_pages"] for line in lines if line["role"] == "file"] == [8000]
    assert_counts(report, lines)


def test_a_page_of_a_private_file_that_was_read_before_is_a_copy(tmp_path):
    report, lines = run_attached(["file_copies", f"--file={tmp_path / 'bytes'}", "--read-first"], tmp_path)
    assert_counts(report, lines)


def test_threads_count_as_their_process(tmp_path):
    report, lines = run_started(["thread_copies"], tmp_path)
    (child,) = children_of(lines)
    assert [row["pid"] for row in report["workers"]] == [child]
    assert report["parent"]["pid"] == lines[-1]["pid"]


def test_faults_agree_with_getrusage(tmp_path):
    """The kernel's own count of minor and major faults, from getrusage(2)."""
    report, lines = run_started(["fork_copies"], tmp_path)
    for line in lines:
        faults = harness.row_of(report, line["pid"])["faults"]
        assert line["faults"] * 0.995 <= faults <= line["faults"] * 1.005 + 20, line


def test_totals_are_the_sum_of_the_rows(tmp_path):
    report, _ = run_started(["fork_copies", "--children=2"], tmp_path)
    rows = [report["parent"], *report["workers"]]
    totals = report["totals"]
    assert totals["copies"] == sum(row["copies"] for row in rows)
    assert totals["copied_bytes"] == totals["copies"] * harness.PAGE
    assert sum(count for count in totals["by_cause"].values() if count) in (0, totals["copies"])
    for row in rows:
        assert row["copied_bytes"] == row["copies"] * harness.PAGE
