"""Every rung that works here against planted truth: exact where it claims to be, an upper bound where it claims that; what only some
rungs see; and the fallback when each is disabled.
"""
import json
import os
import shutil
import subprocess

import pytest

import harness
import planted
from conftest import needs
from counting import assert_counts, planted as planted_counts, run_attached
from shared_pages import PAGES, Pages

# How to force each rung: what --without disables. fentry gets faults from the tracepoint if there is one, else from the perf event.
FORCED = {
    "btf-tracepoints": [],
    "fentry": ["--without=copies"],
    "fentry, faults by the event": ["--without=btf-tracepoints"],
    "perf-event": ["--without=btf-tracepoints", "--without=fentry"],
}
SEES_FOREIGN_WRITES = ("fentry", "fentry, faults by the event")
HAS_ERROR_CODE = ("btf-tracepoints", "fentry")
FEW = 60  # pages that a process copies on its own, and by which an upper bound may exceed the truth
STATES_ITS_BOUND = {"btf-tracepoints": "exact", "fentry": "exact", "perf-event": "upper-bound"}
COPIES = {
    "fork": ["fork_copies"],
    "nested forks": ["nested_forks"],
    "threads": ["thread_copies"],
    "by the kernel": ["kernel_copies"],
}
FOREIGN = {"by the parent": [], "by its mem": ["--mem"], "from outside": ["--outside"]}


def name_of(way):
    return way.split(",")[0]


@pytest.fixture(params=FORCED)
def way(request):
    """A key of FORCED whose rung works here."""
    name, options = name_of(request.param), FORCED[request.param]
    document, _ = harness.doctor(*options)
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


@pytest.mark.slow
def test_the_probes_load_where_no_file_in_memory_can_be_made(tmp_path):
    """As where vm.memfd_noexec is 2, before Linux 6.6."""
    needs("strace", shutil.which("strace"), "install Debian's package strace")
    needs("rung btf-tracepoints", harness.doctor()[0]["capabilities"]["copies"] == "btf-tracepoints", "not the chosen rung")
    path, calls = tmp_path / "run.json", tmp_path / "calls"
    inject = ["strace", "-f", "-qq", "-e", "trace=memfd_create", "-e", "inject=memfd_create:error=EACCES", "-o", calls]
    code = "import os; data = [str(i) * 60 for i in range(9999)]; child = os.fork(); [len(text) for text in data]; child and os.waitpid(child, 0)"
    subprocess.run([*inject, harness.COWPROF, "--quiet", "--output", path, "--", harness.PYTHON, "-c", code], check=True, timeout=harness.DEADLINE)
    assert "INJECTED" in calls.read_text()
    report = harness.report_of(path)
    assert (report["exactness"]["rung"], report["exactness"]["copies"]) == ("btf-tracepoints", "exact")
    assert report["workers"][0]["copies"] > 100


def test_two_threads_that_write_one_page_make_one_copy(way, tmp_path):
    report, lines = run_attached(["thread_copies", "--race"], tmp_path, *FORCED[way])
    assert_counts(report, lines)


@pytest.mark.parametrize("option", [[], ["--sparse"]], ids=["every page", "a byte in each huge page"])
def test_only_the_written_pages_of_a_huge_page_are_copied(way, option, tmp_path):
    report, lines = run_attached(["huge_pages", *option], tmp_path, *FORCED[way])
    huge_kib = next(line["huge_kib"] for line in lines if line["role"] == "memory")
    needs("huge pages", huge_kib >= 8 * 2048, "the kernel provided none")
    for pid, truth in planted_counts(lines).items():
        assert truth["moved"] == truth["copies"]
        assert truth["copies"] <= harness.row_of(report, pid)["copies"] <= truth["copies"] + FEW


# Hides the kernel's BTF, where it has one.
WITHOUT_BTF = ["unshare", "--mount", "sh", "-c", '[ ! -d /sys/kernel/btf ] || mount -t tmpfs tmpfs /sys/kernel/btf; exec "$@"', "sh"]
NO_BTF = ("cowprof: copies are not counted exactly, since btf-tracepoints can't be used: this kernel has no BTF (/sys/kernel/btf/vmlinux "
          "can't be read); use a kernel with CONFIG_DEBUG_INFO_BTF, or mount /sys in the container")


def run_without_btf(*arguments):
    return subprocess.run([*WITHOUT_BTF, harness.COWPROF, *map(str, arguments)], capture_output=True, text=True, check=True,
                          timeout=harness.DEADLINE, stdin=subprocess.DEVNULL)


def test_a_kernel_without_btf_is_said_in_a_line(start_workload, tmp_path):
    rungs = json.loads(run_without_btf("doctor", "--json").stdout)["rungs"]
    assert [rung["rung"] for rung in rungs if rung["usable"]] == ["page-map"]
    assert all("no BTF" in rung["reason"] for rung in rungs if not rung["usable"])
    program = ["--output", tmp_path / "r.json", "--", harness.WORKLOADS / "fork_copies", "--pages=100"]
    assert run_without_btf(*program).stderr.splitlines()[1] == NO_BTF
    target = start_workload("fork_copies", "--pages=10", "--wait")
    attached = run_without_btf("--output", tmp_path / "a.json", "--duration", "100ms", "--attach", target.pid)
    assert attached.stderr.splitlines()[1:] == [NO_BTF]
    assert harness.report_of(tmp_path / "a.json")["exactness"]["rung"] == "page-map"
    assert run_without_btf("--quiet", *program).stderr == ""
    assert NO_BTF not in run_without_btf("--without", "btf-tracepoints", *program).stderr


@pytest.mark.usefixtures("hugetlb_pool")
def test_pages_of_hugetlb(way, start_workload, start_recording):
    """hugetlb pages come from their own pool: only fentry sees them, and tells copies by the fault's error code."""
    sees = way in HAS_ERROR_CODE and any(rung["rung"] == "fentry" and rung["usable"] for rung in harness.doctor(*FORCED[way])[0]["rungs"])
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
    """Such writes raise no exception: fentry charges them to the owner of the memory, as cause `kernel`; other rungs miss them."""
    report, lines = run_attached(["foreign_writes", *options], tmp_path, *FORCED[way])
    (child,) = [line for line in lines if line["role"] == "child"]
    row, pages = harness.row_of(report, child["pid"]), child["planted_copies"]
    assert child["pagemap_copies"] == pages
    seen = pages if way in SEES_FOREIGN_WRITES else 0
    assert seen <= row["copies"] <= seen + FEW
    assert seen <= row["by_cause"]["kernel"] <= seen + FEW


def test_new_memory_is_not_a_copy(way, tmp_path):
    report, lines = run_attached(["zero_fills"], tmp_path, *FORCED[way])
    assert_counts(report, lines, ("copies", "zero_fills"))


def test_a_reused_page_is_not_a_copy(way, tmp_path):
    """The perf event has no error code, so it can't tell such a fault from others."""
    told = name_of(way) != "perf-event"
    report, lines = run_attached(["parent_reuses"], tmp_path, *FORCED[way])
    assert_counts(report, lines, ("copies", "reuses") if told else ("copies",))
    if not told:
        assert report["parent"]["reuses"] is None and report["parent"]["write_protect_faults"] is None


def test_pages_of_shared_memory_are_not_copies(way, tmp_path):
    report, lines = run_attached(["shm_pages"], tmp_path, *FORCED[way])
    assert_counts(report, lines)


def test_private_pages_of_a_file(way, tmp_path):
    """Only the error code tells the first write to a page from a later one."""
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


# ---- Each rung disabled ----


def cpu_seconds(arguments, folder):
    """(exit status, stderr, CPU time). Wall time would depend on the load of the machine."""
    with open(folder / "stderr", "w+", encoding="utf-8") as stderr:
        process = subprocess.Popen([harness.COWPROF, *arguments], stdout=subprocess.DEVNULL, stderr=stderr, cwd=folder)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        stderr.seek(0)
        return process.returncode, stderr.read(), usage.ru_utime + usage.ru_stime


def every_step_down():
    """Lists of --without options, each disabling one more of the rungs that doctor chose, until none is left."""
    without = []
    while True:
        yield list(without)
        chosen = harness.doctor(*without)[0]["capabilities"]["copies"]
        if chosen is None:
            return
        without.append(f"--without={chosen}")


def test_every_fallback_is_what_doctor_says_or_a_clear_refusal(tmp_path):
    for number, without in enumerate(every_step_down()):
        document, status = harness.doctor(*without)
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
def test_without_lowers_one_capability_by_a_rung(capability):
    before, after = harness.doctor()[0]["capabilities"], harness.doctor(f"--without={capability}")[0]["capabilities"]
    assert after[capability] != before[capability]
    if capability == "signals":
        assert after == {**before, "signals": None}


def test_disabled_sources_are_named_in_the_recording(start_workload, start_recording):
    target = start_workload("fork_copies", "--pages=10", "--wait")
    recording = start_recording(target.pid, "--without=signals")
    recording.await_sample()
    recording.interrupt()
    plan = recording.timeline()["header"]["plan"]
    assert plan["rung"] == harness.doctor()[0]["rung"]
    assert [rung["reason"] for rung in plan["rejected"] if rung["rung"] == "process-tracepoints"] == [
        "without signals: forbidden by --without signals"]


def test_a_perf_event_leaves_nothing_behind(start_workload, start_recording):
    """The perf event takes one descriptor per CPU, only while it records."""
    options = FORCED["perf-event"]
    needs("rung perf-event", harness.doctor(*options)[0]["capabilities"]["copies"] == "perf-event", "see doctor")
    target = start_workload("fork_copies", "--pages=10", "--wait")
    recording = start_recording(target.pid, *options)
    recording.await_sample()
    links = [os.readlink(f"/proc/{recording.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{recording.pid}/fd")]
    assert links.count("anon_inode:[perf_event]") == os.cpu_count()
    recording.interrupt()
