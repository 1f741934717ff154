"""What looks like a copy but is not: reused pages, new memory, file pages, shared memory. Counted copies stay below 0.1 %.

A write-protection fault alone proves nothing: each of these workloads raises as many of them as it has pages, or makes the
kernel allocate as many pages.
"""
import pytest

import harness
from counting import assert_counts, assert_near, children_of, planted, run_attached, run_started

PAGES = 60000
REUSES = {
    "child has gone": ["parent_reuses", f"--pages={PAGES}"],
    "child has copies": ["parent_reuses", f"--pages={PAGES}", "--child-copies"],
    "by the kernel": ["parent_reuses", f"--pages={PAGES}", "--by-read"],
}


def assert_reused(report, lines, pages):
    parent = report["parent"]
    assert planted(lines)[parent["pid"]] == {"copies": 0, "reuses": pages, "zero_fills": 0, "file_copies": 0, "shm_pages": 0,
                                             "moved": 0}
    assert parent["copies"] <= pages * 0.001, "reuse was counted as a copy"
    assert_near(parent["reuses"], pages, "reuses")


@pytest.mark.parametrize("workload", REUSES.values(), ids=REUSES.keys())
def test_a_parent_that_reuses_its_pages_copies_nothing(workload, tmp_path):
    report, lines = run_attached(workload, tmp_path)
    assert_reused(report, lines, PAGES)


def test_reuse_during_a_cold_read_is_not_mistaken_for_page_cache(tmp_path):
    """A page that the page cache allocates in the same system call is not the copy of a page reused just before."""
    pages = 20000
    report, lines = run_attached(["parent_reuses", f"--pages={pages}", f"--file={tmp_path / 'cold'}"], tmp_path)
    assert [line["cold_pages"] for line in lines if line["role"] == "file"] == [pages]
    assert_reused(report, lines, pages)


@pytest.mark.parametrize("variant", [[], ["--read-first"], ["--huge"]], ids=["write", "read, then write", "huge"])
def test_new_memory_is_not_a_copy(variant, tmp_path):
    report, lines = run_attached(["zero_fills", "--pages=40960", *variant], tmp_path)
    assert_counts(report, lines, ("zero_fills",))
    (child,) = children_of(lines)
    row = harness.row_of(report, child)
    assert row["copies"] <= 40
    assert row["reuses"] <= 40, "a write to the zero page was counted as reuse"


def test_first_write_to_a_private_file_is_not_a_write_protection_copy(tmp_path):
    report, lines = run_attached(["file_copies", f"--file={tmp_path / 'bytes'}"], tmp_path)
    assert_counts(report, lines, ("copies", "zero_fills"))


@pytest.mark.parametrize("run", [run_attached, run_started], ids=["attach", "start"])
def test_shared_memory_is_not_a_copy_and_counts_against_the_shm_limit(run, tmp_path):
    pages = 25000
    report, lines = run(["shm_pages", f"--pages={pages}", f"--name=/{tmp_path.name}"], tmp_path, "--interval", "10ms")
    assert_counts(report, lines, ("copies", "zero_fills"))
    (shm,) = [limit for limit in report["limits"] if limit["kind"] == "shm"]
    assert shm["unit"] == "bytes"
    assert shm["peak"] >= pages * harness.PAGE * 0.9
