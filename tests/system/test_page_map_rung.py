"""The page-map rung, which needs neither probes nor privileges: cowprof and its target run as an ordinary user, and the report has
the same form. Its counts are compared with page frames, which the test reads as root, at the last sample."""
import os
import re
import signal
from pathlib import Path

import pytest

import harness
import planted
import truth
from shared_pages import PAGES, STRAY, Pages, await_sweep, has_copied


def diverged(worker, parent):
    return truth.diverged(truth.anonymous_frames(parent), truth.anonymous_frames(worker))


def run(start_workload, record_as_nobody, mode, **options):
    """Records one generation, swept before it writes. Returns the workload, its workers, their diverged frames and the report."""
    pages = Pages(start_workload, mode, **options)
    recording = record_as_nobody(pages.pid, "--interval", "200ms")
    workers = pages.fork()
    await_sweep(recording, workers)
    pages.act()
    frames = {worker: diverged(worker, pages.pid) for worker in workers} if mode != "exec" else {}
    recording.interrupt()
    report = recording.report()
    assert report["exactness"]["copies"] == "page-map" and report["exactness"]["rung"] == "page-map"
    return pages, workers, frames, report


@pytest.mark.parametrize("workers", [1, 3])
def test_copies_are_exact_at_the_last_sample(start_workload, record_as_nobody, workers):
    pages, pids, frames, report = run(start_workload, record_as_nobody, "copies", workers=workers)
    for pid in pids:
        row = harness.row_of(report, pid)
        assert PAGES <= row["copies"] <= PAGES + STRAY
        assert abs(row["copies"] - frames[pid]) <= 0.005 * PAGES
        assert row["by_cause"]["data"] == row["copies"]  # no Python
        assert row["faults"] >= row["copies"]
        assert row["write_protect_faults"] is None and row["zero_fills"] is None and row["reuses"] is None
        assert abs(row["private_bytes"] - truth.private_bytes(pid)) <= 0.05 * row["private_bytes"] + (1 << 20)
    assert harness.row_of(report, pages.pid)["copies"] <= STRAY
    assert report["by_line"] == []
    assert sum(region["copied_pages"] for region in report["by_region"]) == pytest.approx(report["totals"]["copies"], rel=0.02)


@pytest.mark.parametrize("workers", [1, 2])
def test_the_parents_copies_are_not_charged_to_workers(start_workload, record_as_nobody, workers):
    pages, pids, _, report = run(start_workload, record_as_nobody, "parent", workers=workers)
    for pid in pids:
        assert harness.row_of(report, pid)["copies"] <= 0.05 * PAGES
    assert abs(harness.row_of(report, pages.pid)["copies"] - PAGES) <= 0.05 * PAGES


def test_both_sides_write(start_workload, record_as_nobody):
    """With two workers, each one's copies are told apart."""
    pages, pids, _, report = run(start_workload, record_as_nobody, "both", workers=2)
    for pid in pids:
        assert PAGES / 2 <= harness.row_of(report, pid)["copies"] <= PAGES / 2 + STRAY
    assert abs(harness.row_of(report, pages.pid)["copies"] - PAGES / 2) <= STRAY


def test_copies_of_a_worker_with_children_count_once(start_workload, record_as_nobody):
    """A page that differs from the parent's, and is shared with the worker's child, is one copy."""
    pages, (pid,), _, report = run(start_workload, record_as_nobody, "middle")
    assert PAGES <= harness.row_of(report, pid)["copies"] <= PAGES + STRAY
    assert report["totals"]["copies"] <= PAGES + 3 * STRAY
    assert harness.row_of(report, pages.pid)["copies"] <= STRAY


# PAGEMAP_SCAN (Linux 6.7) tells zero pages from shared ones, where there are any: otherwise the write is a copy.
KNOWS_ZEROES = truth.KERNEL >= (6, 7) and truth.has_zero_page()


@pytest.mark.parametrize("mode", ["zero", "new", "file"])
def test_unshared_pages_are_not_copies(start_workload, record_as_nobody, mode):
    _, (pid,), _, report = run(start_workload, record_as_nobody, mode)
    row = harness.row_of(report, pid)
    assert row["copies"] <= STRAY + (PAGES if mode == "zero" and not KNOWS_ZEROES else 0)
    assert row["private_bytes"] >= PAGES * harness.PAGE


def test_only_the_copied_part_of_huge_pages_is_counted(start_workload, record_as_nobody):
    """Bit 56 of the pagemap is the same for all 512 pages of the parent's huge page, whatever was copied of them."""
    pages, pids, frames, report = run(start_workload, record_as_nobody, "huge", workers=2)
    for pid in pids:
        row = harness.row_of(report, pid)
        assert PAGES / 8 <= row["copies"] <= PAGES / 8 + STRAY
        assert abs(row["copies"] - frames[pid]) <= STRAY
    assert harness.row_of(report, pages.pid)["still_shared_bytes"] >= 0.8 * PAGES * harness.PAGE


@pytest.mark.usefixtures("hugetlb_pool")
def test_pages_of_hugetlb_are_counted_by_bytes(start_workload, record_as_nobody):
    """Each write copies 2 MiB, from a pool that no probe sees."""
    _, (pid,), frames, report = run(start_workload, record_as_nobody, "hugetlb")
    row = harness.row_of(report, pid)
    assert PAGES / 2 <= row["copies"] <= PAGES / 2 + STRAY
    assert abs(row["copies"] - frames[pid]) <= STRAY
    assert row["private_bytes"] >= PAGES / 2 * harness.PAGE


@pytest.mark.parametrize("mode", ["busy", "still"])
def test_the_last_sharer_of_a_page_is_not_charged_a_copy(start_workload, record_as_nobody, mode):
    """The originals of what the parent copied stay with the workers. The last of them owns the pages alone without having copied
    them, whether or not it has as many page faults."""
    pages = Pages(start_workload, mode, workers=2)
    recording = record_as_nobody(pages.pid, "--interval", "200ms")
    remaining, leaving = pages.fork()
    await_sweep(recording, [remaining, leaving])
    pages.act()
    harness.wait_until(lambda: has_copied(recording, pages.pid), "the copies of the parent", pause=0.1)
    os.kill(leaving, signal.SIGKILL)
    harness.wait_until(lambda: truth.state(leaving) is None, "it to end")
    pages.step("again", 1)
    recording.interrupt()
    report = recording.report()
    assert PAGES <= harness.row_of(report, pages.pid)["copies"] <= PAGES + STRAY
    assert harness.row_of(report, remaining)["copies"] <= STRAY


def test_pages_left_by_the_parent_are_copied_by_all_workers_but_the_last(start_workload, record_as_nobody):
    pages = Pages(start_workload, "left", workers=3)
    recording = record_as_nobody(pages.pid, "--interval", "200ms")
    pids = pages.fork()
    await_sweep(recording, pids)
    pages.act()
    harness.wait_until(lambda: has_copied(recording, pages.pid), "the copies of the parent", pause=0.1)
    pages.step("again", 3)
    recording.interrupt()
    report = recording.report()
    assert PAGES <= harness.row_of(report, pages.pid)["copies"] <= PAGES + STRAY
    assert 2 * PAGES <= sum(harness.row_of(report, pid)["copies"] for pid in pids) <= 2 * PAGES + 3 * STRAY


def test_a_started_program_is_not_a_worker_with_inherited_pages(nobodys_folder):
    """It forks and execs between two sweeps, as when `bash train.sh` starts a program."""
    path = nobodys_folder / "r.json"
    result = harness.run_cowprof("--quiet", "--output", path, "--interval", "100ms", "--", "sh", "-c", "sleep 2; true", **harness.AS_NOBODY)
    assert result.returncode == 0, result.stderr
    records = harness.load_json(path)["records"]
    (started,) = [row["index"] for row in records if row.get("event") == "process" and row["origin"] == "fork"]
    assert started in [row["index"] for row in records if row.get("event") == "exec"]


HUGE_PAGES_AND_A_PROGRAM = """
import json, mmap, subprocess
program = subprocess.Popen(["sleep", "1000"])
area = mmap.mmap(-1, 64 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
area.madvise(mmap.MADV_HUGEPAGE)
area[:] = bytes(64 << 20)
print(json.dumps({"role": "ready"}), flush=True)
input()
program.kill()
"""


def test_huge_pages_of_a_process_that_started_programs_are_its_own(record_as_nobody):
    process = harness.Process([harness.PYTHON, "-c", HUGE_PAGES_AND_A_PROGRAM], **harness.AS_NOBODY)
    try:
        process.await_line("role", "ready")
        assert re.search(r"AnonHugePages: +[1-9]", Path(f"/proc/{process.pid}/smaps_rollup").read_text())
        recording = record_as_nobody(process.pid, "--interval", "200ms")
        await_sweep(recording, [process.pid])
        recording.interrupt()
        row = harness.row_of(recording.report(), process.pid)
        assert row["still_shared_bytes"] <= 4 << 20 and row["private_bytes"] >= 64 << 20
        process.go()
        process.finish()
    finally:
        process.stop()


def test_each_generation_copies_again(start_workload, record_as_nobody):
    """Pages that one generation left to the parent are shared with the next one, and copied again."""
    pages = Pages(start_workload, "copies")
    recording = record_as_nobody(pages.pid, "--interval", "200ms")
    for generation in 1, 2:
        (worker,) = pages.fork(generation)
        await_sweep(recording, [worker])
        pages.act(generation)
        if generation == 1:
            harness.wait_until(lambda: (has_copied(recording, worker)), "the copies of the first worker", pause=0.1)
            os.kill(worker, signal.SIGKILL)
            harness.wait_until(lambda: truth.state(worker) is None, "it to end")
    recording.interrupt()
    rows = recording.report()["workers"]
    assert len(rows) == 2
    for row in rows:
        assert PAGES <= row["copies"] <= PAGES + STRAY
    assert rows[0]["ended_at"] is not None


def test_a_worker_that_becomes_another_program_inherits_nothing(start_workload, record_as_nobody):
    pages = Pages(start_workload, "exec")
    recording = record_as_nobody(pages.pid, "--interval", "200ms")
    (worker,) = pages.fork()
    await_sweep(recording, [worker])
    pages.act()
    harness.wait_until(lambda: Path(f"/proc/{worker}/cmdline").read_bytes() == b"sleep\x001000\x00", "the exec")
    recording.interrupt()
    row = harness.row_of(recording.report(), worker)
    assert row["command"] == "sleep 1000"
    assert row["still_shared_bytes"] <= 1 << 20 and row["private_bytes"] <= 4 << 20


def test_short_lived_workers_may_be_missed_but_never_miscounted(nobodys_folder):
    path = nobodys_folder / "r.json"
    result = harness.run_cowprof("--output", path, "--interval", "100ms", "--", harness.WORKLOADS / "fork_storm",
                                 "--forks=300", "--rate=400", "--pages=64", **harness.AS_NOBODY)
    assert result.returncode == 0, result.stderr
    report = harness.report_of(path)
    harness.validate(report, "report.schema.json")
    assert 0 < len(report["workers"]) <= 300 + 75 + 43  # every fourth forks a child, every seventh leaves an orphan
    for row in report["workers"]:
        assert row["copies"] is None or row["copies"] <= 64 + STRAY
        assert row["ended_at"] is not None


def test_an_end_with_an_unknown_status_has_none(start_workload, record_as_nobody, nobodys_folder):
    """The parent reaps its worker at once; the status is known only where the kernel keeps it (Linux 6.15)."""
    pages = Pages(start_workload, "copies")
    recording = record_as_nobody(pages.pid, "--interval", "200ms")
    (worker,) = pages.fork()
    await_sweep(recording, [worker])
    os.kill(worker, signal.SIGKILL)
    harness.wait_until(lambda: any(record.get("event") == "exit" for record in harness.records_of(recording.path)), "the exit in the recording")
    recording.interrupt()
    row = harness.row_of(recording.report(), worker)
    assert row["ended_at"] is not None
    assert row["exit"] is None or (row["exit"]["signal"], row["exit"]["cause"]) == ("SIGKILL", None)
    text = harness.run_cowprof("report", recording.path).stdout
    assert ("killed by SIGKILL" in text) == (row["exit"] is not None)
    assert "as the page map shows them at each sample (page-map)" in text and "every copy counted" not in text
    page = nobodys_folder / "page.html"
    assert harness.run_cowprof("view", recording.path, "-o", page).returncode == 0 and page.stat().st_size > 10000


# ---- Python ----

CAUSES = {  # {scenario: (cause reported from bytes, type or None)}
    "str_list": ("refcount", "str"), "gc_collect": ("gc_header", None), "array_write": ("data", None),
}


@pytest.mark.parametrize("scenario", CAUSES)
def test_causes_and_types_from_bytes(scenario, nobodys_folder):
    cause, kind = CAUSES[scenario]
    process = harness.Process([harness.PYTHON, planted.WORKLOAD, scenario, "--linger=2.5"])  # as root, because it reads page frames
    try:
        harness.wait_until(lambda: process.lines, "the workload to be ready")
        rungs = [row["rung"] for row in harness.doctor()[0]["rungs"]]
        recording = harness.attach(process.pid, nobodys_folder / "r.json", "--interval", "200ms",
                                   *[f"--without={rung}" for rung in rungs if rung != "page-map"])
        recording.await_sample()
        process.go()
        assert recording.wait() == 0, recording.stderr
        worker = next(line for line in process.finish() if line["role"] == "worker")
    finally:
        process.stop()
    report = recording.report()
    row = harness.row_of(report, worker["pid"])
    assert abs(row["copies"] - worker["pagemap_copies"]) <= 0.01 * worker["pagemap_copies"] + STRAY
    assert row["by_cause"][cause] >= 0.9 * row["copies"]
    if kind:
        assert report["by_type"][0]["type"] == kind and report["by_type"][0]["share"] >= 0.9
    assert report["by_line"] == []


FROZEN = """
import gc, os, sys, time
data = [{str(i): i} for i in range(100_000)]
gc.collect()
if sys.argv[1] == "frozen":
    gc.freeze()
if os.fork() == 0:
    time.sleep(2)
    for part in range(5):
        for item in data[part * 20_000:(part + 1) * 20_000]: len(item)
        gc.collect()
    time.sleep(2.5)
    os._exit(0)
os.wait()
"""


@pytest.mark.parametrize("frozen", [True, False])
def test_what_was_frozen_is_not_said_to_be_collected(frozen, nobodys_folder):
    rungs = [row["rung"] for row in harness.doctor()[0]["rungs"]]
    path = nobodys_folder / "r.json"
    done = harness.run_cowprof("--quiet", "--output", path, *[f"--without={rung}" for rung in rungs if rung != "page-map"], "--",
                               harness.PYTHON, "-c", FROZEN, "frozen" if frozen else "not")
    assert done.returncode == 0, done.stderr
    report = harness.report_of(path)
    (worker,) = report["workers"]
    assert worker["copies"] > 1500
    collected = worker["by_cause"]["gc_header"]
    assert collected < 0.05 * worker["copies"] if frozen else collected > 0.3 * worker["copies"], worker["by_cause"]
    assert not frozen or "cow-gc-header" not in [one["id"] for one in report["diagnoses"]]
