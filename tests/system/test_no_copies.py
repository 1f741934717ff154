"""What looks like a copy but is not: reused pages, new memory, file pages, shared memory. Counted copies stay below 0.1 %.

A write-protection fault alone proves nothing: each of these workloads raises as many of them as it has pages, or makes the
kernel allocate as many pages.
"""
import os
import re
from pathlib import Path

import pytest

import harness
from conftest import needs
from counting import assert_counts, assert_near, children_of, planted, run_attached, run_started
from memory_groups import MB, MemoryGroup, memory_root

PAGES = 60000
REUSES = {
    "child has gone": ["parent_reuses", f"--pages={PAGES}"],
    "child has copies": ["parent_reuses", f"--pages={PAGES}", "--child-copies"],
    "by the kernel": ["parent_reuses", f"--pages={PAGES}", "--by-read"],
}


def assert_reused(report, lines, pages):
    parent = report["parent"]
    assert planted(lines)[parent["pid"]] == {"copies": 0, "reuses": pages, "zero_fills": 0, "file_copies": 0, "shm_pages": 0,
                                             "swap_ins": 0, "moved": 0}
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


@pytest.fixture
def huge_pages_without_reclaim():
    """No memory is reclaimed for a huge page, as for memory that asks for none where they are always used; and khugepaged makes
    none of a small page afterwards."""
    knob = Path("/sys/kernel/mm/transparent_hugepage/defrag")
    needs("huge pages", knob.exists() and "[never]" not in (knob.parent / "enabled").read_text(), "the host has none")
    before = knob.read_text().split("[")[1].split("]")[0]
    missing = knob.parent / "khugepaged" / "max_ptes_none"  # of the 512 pages that it makes one of
    missing_before = missing.read_text()
    knob.write_text("never")
    missing.write_text("0")
    try:
        yield
    finally:
        knob.write_text(before)
        missing.write_text(missing_before)


@pytest.mark.usefixtures("huge_pages_without_reclaim")
@pytest.mark.parametrize("variant", [[], ["--sparse"]], ids=["every page", "a byte in each huge page"])
def test_a_huge_page_that_the_cgroup_refuses_is_not_counted(variant, tmp_path):
    """The kernel allocates it, finds no room for it in a cgroup that the page cache has filled, and takes small pages instead."""
    needs("memory-cgroup", memory_root() is not None, "no memory cgroup that can be divided")
    data = tmp_path / "data"
    with open(data, "wb") as file:
        file.write(bytes(400 * MB))
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)  # so that the group is charged for it
    with MemoryGroup(200 * MB) as group:
        report, lines = run_attached(["zero_fills", "--pages=32768", "--huge", f"--cache={data}", *variant], tmp_path, preexec_fn=group.join)
    (child,) = children_of(lines)
    pages = planted(lines)[child]["zero_fills"]
    refused = pages < 32768 // 2 if variant else pages == 32768  # of 64 a few may find the room that reclaim has just made
    assert refused, "huge pages were not refused"
    buffer = 256  # that the file is read into
    assert pages + buffer <= harness.row_of(report, child)["zero_fills"] <= pages + buffer + 60 + pages // 100


@pytest.mark.parametrize("mode", ["write", "shm-write", "shm-read"])
def test_what_a_system_call_takes_for_the_page_cache_is_not_the_processs(mode, tmp_path):
    report, lines = run_attached(["kernel_touches", f"--{mode}", f"--file={tmp_path / 'file'}"], tmp_path)
    assert_counts(report, lines, ("copies", "zero_fills", "shm_pages", "swap_ins"))
    (child,) = children_of(lines)
    assert harness.row_of(report, child)["kernel_faults"] > 1000, "the kernel touched nothing"


@pytest.fixture
def numa_balancing():
    """The first CPU of each of two NUMA nodes, between which the kernel moves pages."""
    nodes = [re.match(r"\d+", path.read_text()) for path in sorted(Path("/sys/devices/system/node").glob("node[0-9]*/cpulist"))]
    cpus = [first.group() for first in nodes if first]
    knob = Path("/proc/sys/kernel/numa_balancing")
    needs("NUMA", len(cpus) >= 2 and knob.exists(), "the machine has one node")
    before = knob.read_text()
    knob.write_text("1")
    try:
        yield cpus[:2]
    finally:
        knob.write_text(before)


def test_pages_that_are_moved_to_another_node_are_not_counted_again(numa_balancing, tmp_path):
    """The kernel moves them in page faults, for which it allocates new ones."""
    pages, (start, end) = 5000, numa_balancing
    report, lines = run_attached(["numa_moves", f"--pages={pages}", f"--from={start}", f"--to={end}"], tmp_path)
    (moved,) = [line["moved"] for line in lines if line["role"] == "nodes"]
    assert moved > pages / 2, "the kernel moved too few pages"
    assert_counts(report, lines, ("copies", "zero_fills", "swap_ins"))


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
