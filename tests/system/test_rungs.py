"""Every rung that works here against planted truth: exact where it says so, an upper bound of a few pages where it says that; what each
sees that others don't; and each one taken away.
"""
import json
import os
import subprocess

import pytest

import harness
import planted
from conftest import needs
from counting import assert_counts, planted as planted_counts, run_attached
from shared_pages import PAGES, Pages

# How each is forced: what --without takes away. fentry takes the faults from the tracepoint where there is one, else from the event.
FORCED = {
    "btf-tracepoints": [],
    "fentry": ["--without=copies"],
    "fentry, faults by the event": ["--without=btf-tracepoints"],
    "perf-event": ["--without=btf-tracepoints", "--without=fentry"],
}
SEES_FOREIGN_WRITES = ("fentry", "fentry, faults by the event")
HAS_ERROR_CODE = ("btf-tracepoints", "fentry")
FEW = 60  # pages of its own that a process copies, and that an upper bound may have in excess
STATES_ITS_BOUND = {"btf-tracepoints": "exact", "fentry": "exact", "perf-event": "upper-bound"}
COPIES = {
    "fork": ["fork_copies"],
    "nested forks": ["nested_forks"],
    "threads": ["thread_copies"],
    "by the kernel": ["kernel_copies"],
}
FOREIGN = {"by the parent": [], "by its mem": ["--mem"], "from outside": ["--outside"]}


def doctor(*options):
    """Its document, and the exit status."""
    result = harness.run_cowprof("doctor", "--json", *options)
    assert result.stderr == ""
    return json.loads(result.stdout), result.returncode


def name_of(way):
    return way.split(",")[0]


@pytest.fixture(params=FORCED)
def way(request):
    """A key of FORCED that works here."""
    name, options = name_of(request.param), FORCED[request.param]
    document, _ = doctor(*options)
    reason = next(rung["reason"] for rung in document["rungs"] if rung["rung"] == name)
    needs(f"rung {name}", document["capabilities"]["copies"] == name, reason)
    return request.param


@pytest.mark.parametrize("workload", COPIES.values(), ids=COPIES.keys())
def test_planted_copies(way, workload, tmp_path):
    report, lines = run_attached(workload, tmp_path, *FORCED[way])
    assert report["exactness"]["rung"] == name_of(way)
    assert report["exactness"]["copies"] == STATES_ITS_BOUND[name_of(way)]
    for pid, truth in assert_counts(report, lines).items():
        assert truth["copies"] <= harness.row_of(report, pid)["copies"] <= truth["copies"] + FEW


def test_two_threads_that_write_one_page_make_one_copy(way, tmp_path):
    report, lines = run_attached(["thread_copies", "--race"], tmp_path, *FORCED[way])
    assert_counts(report, lines)


@pytest.mark.parametrize("option", [[], ["--sparse"]], ids=["every page", "a byte in each huge page"])
def test_a_huge_page_is_copied_by_the_pages_that_are_written(way, option, tmp_path):
    report, lines = run_attached(["huge_pages", *option], tmp_path, *FORCED[way])
    huge_kib = next(line["huge_kib"] for line in lines if line["role"] == "memory")
    needs("huge pages", huge_kib >= 8 * 2048, "the kernel gave none")
    for pid, truth in planted_counts(lines).items():
        assert truth["moved"] == truth["copies"]
        assert truth["copies"] <= harness.row_of(report, pid)["copies"] <= truth["copies"] + FEW


@pytest.mark.usefixtures("hugetlb_pool")
def test_pages_of_hugetlb(way, start_workload, start_recording):
    """They come from a pool of their own: only fentry sees them, and tells copies by the fault's error code."""
    sees = way in HAS_ERROR_CODE and any(rung["rung"] == "fentry" and rung["usable"] for rung in doctor(*FORCED[way])[0]["rungs"])
    pages = Pages(start_workload, "hugetlb")
    recording = start_recording(pages.pid, "--interval", "200ms", *FORCED[way])
    recording.await_sample()
    (worker,) = pages.fork()
    pages.act()
    recording.interrupt()
    copies, seen = harness.row_of(recording.report(), worker)["copies"], PAGES // 2 if sees else 0
    assert seen <= copies <= seen + FEW


@pytest.mark.parametrize("options", FOREIGN.values(), ids=FOREIGN.keys())
def test_writes_by_another_process(way, options, tmp_path):
    """No exception is raised: fentry counts them as the kernel's, of whose memory it is; the others see none of them."""
    report, lines = run_attached(["foreign_writes", *options], tmp_path, *FORCED[way])
    (child,) = [line for line in lines if line["role"] == "child"]
    row, pages = harness.row_of(report, child["pid"]), child["planted_copies"]
    assert child["pagemap_copies"] == pages
    seen = pages if way in SEES_FOREIGN_WRITES else 0
    assert seen <= row["copies"] <= seen + FEW
    assert seen <= row["by_cause"]["kernel"] <= seen + FEW


def test_new_memory_is_no_copy(way, tmp_path):
    report, lines = run_attached(["zero_fills"], tmp_path, *FORCED[way])
    assert_counts(report, lines, ("copies", "zero_fills"))


def test_a_page_that_is_taken_over_is_no_copy(way, tmp_path):
    """The event has no error code: it can't tell such a fault from others."""
    told = name_of(way) != "perf-event"
    report, lines = run_attached(["parent_reuses"], tmp_path, *FORCED[way])
    assert_counts(report, lines, ("copies", "reuses") if told else ("copies",))
    if not told:
        assert report["parent"]["reuses"] is None and report["parent"]["write_protect_faults"] is None


def test_pages_of_shared_memory_are_no_copies(way, tmp_path):
    report, lines = run_attached(["shm_pages"], tmp_path, *FORCED[way])
    assert_counts(report, lines)


def test_private_pages_of_a_file(way, tmp_path):
    """Only an error code tells the first write to a page from any other."""
    report, lines = run_attached(["file_copies", f"--file={tmp_path / 'bytes'}"], tmp_path, *FORCED[way])
    (child,) = [line for line in lines if line["role"] == "child"]
    row, pages = harness.row_of(report, child["pid"]), child["planted_file_copies"]
    if way in HAS_ERROR_CODE:
        assert pages <= row["file_copies"] <= pages + FEW and row["copies"] <= FEW
    elif way == "perf-event":
        assert row["file_copies"] is None and pages <= row["copies"] <= pages + FEW
    else:
        assert row["file_copies"] is None and row["copies"] <= FEW


def test_causes_types_and_lines(way, tmp_path):
    run = planted.run(planted.interpreters()[planted.DEBIAN], "str_list", tmp_path, options=FORCED[way])
    assert planted.deviations(run) == []


# ---- Each one taken away ----


def cpu_seconds(arguments, folder):
    """(exit status, stderr, CPU time): the time on the clock is also the machine's."""
    with open(folder / "stderr", "w+", encoding="utf-8") as stderr:
        process = subprocess.Popen([harness.COWPROF, *arguments], stdout=subprocess.DEVNULL, stderr=stderr, cwd=folder)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        stderr.seek(0)
        return process.returncode, stderr.read(), usage.ru_utime + usage.ru_stime


def every_step_down():
    """Lists of --without, each with one more of the rungs that doctor chose, until there is none."""
    without = []
    while True:
        yield list(without)
        chosen = doctor(*without)[0]["capabilities"]["copies"]
        if chosen is None:
            return
        without.append(f"--without={chosen}")


def test_every_step_down_is_what_doctor_says_or_a_clear_refusal(tmp_path):
    for number, without in enumerate(every_step_down()):
        document, status = doctor(*without)
        chosen = document["capabilities"]["copies"]
        assert status == (0 if chosen else 5) and document["rung"] == chosen
        folder = tmp_path / str(number)
        folder.mkdir()
        status, said, seconds = cpu_seconds([*without, "-o", "recording.json", "--", "true"], folder)
        assert seconds < 1
        if chosen:
            assert status == 0
            assert harness.load_json(folder / "recording.json")["header"]["plan"]["rung"] == chosen
        else:
            assert status == 5 and len(said.splitlines()) == 1 and "--without" in said
            assert not (folder / "recording.json").exists()


@pytest.mark.parametrize("capability", ["faults", "copies", "follow", "signals"])
def test_a_capability_can_be_taken_a_step_down(capability):
    before, after = doctor()[0]["capabilities"], doctor(f"--without={capability}")[0]["capabilities"]
    assert after[capability] != before[capability]
    if capability == "signals":
        assert after == {**before, "signals": None}


def test_what_was_taken_away_stands_in_the_recording(start_workload, start_recording):
    target = start_workload("fork_copies", "--pages=10", "--wait")
    recording = start_recording(target.pid, "--without=signals")
    recording.await_sample()
    recording.interrupt()
    plan = recording.timeline()["header"]["plan"]
    assert plan["rung"] == doctor()[0]["rung"]
    assert [rung["reason"] for rung in plan["rejected"] if rung["rung"] == "process-tracepoints"] == [
        "without signals: forbidden by --without signals"]


def test_a_perf_event_leaves_nothing_behind(start_workload, start_recording):
    """One descriptor a CPU while it records."""
    options = FORCED["perf-event"]
    needs("rung perf-event", doctor(*options)[0]["capabilities"]["copies"] == "perf-event", "see doctor")
    target = start_workload("fork_copies", "--pages=10", "--wait")
    recording = start_recording(target.pid, *options)
    recording.await_sample()
    links = [os.readlink(f"/proc/{recording.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{recording.pid}/fd")]
    assert links.count("anon_inode:[perf_event]") == os.cpu_count()
    recording.interrupt()
