"""The page-map rung for an ordinary user: limits and alerts, namespaces, hidepid, and access to other processes."""
import json
import re
import subprocess
from pathlib import Path

import harness
import memory_groups
from conftest import needs
from shared_pages import PAGES, STRAY, Pages, await_sweep


def test_a_cgroup_limit_is_forecast_and_alerted_before_it_is_reached(start_workload, record_as_nobody):
    needs("memory-cgroup", memory_groups.memory_root() is not None, "no memory cgroup that can be divided")
    with memory_groups.MemoryGroup(256 * memory_groups.MB) as group:
        process = start_workload("ramp", "--kind=copy", "--rate=20", "--mb=400", "--wait", **harness.AS_NOBODY)
        process.await_line("role", "ready")
        group.add(process.pid)
        recording = record_as_nobody(process.pid, "--interval", "200ms", "--alert-at=70%")
        process.go()
        harness.wait_until(lambda: any(record["type"] == "alert" for record in harness.records_of(recording.path)),
                           "an alert", pause=0.1)
        recording.interrupt()
        report = recording.report()
        (limit,) = [limit for limit in report["limits"] if limit["kind"].startswith("cgroup")]
        assert limit["limit"] == 256 * memory_groups.MB and report["alerts"]
        assert report["forecast"]["verdict"] in ("tight", "will-exceed")
        assert report["forecast"]["first_limit"] == limit["kind"]


def record_inside(folder, setup, *unshare, **options):
    """Records two workers that copy all pages in new namespaces. Asserts that everything is counted, under the inner pids."""
    path = folder / "r.json"
    script = (f"{setup} {harness.COWPROF} --quiet --output {path} --interval 100ms -- "
              f"{harness.WORKLOADS}/shared_pages --mode=copies --workers=2 --pages={PAGES}; exit")
    process = subprocess.Popen(["unshare", *unshare, "--fork", "--kill-child", "sh", "-c", script], stdin=subprocess.PIPE, text=True,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, **options)

    def step(done, what):
        process.stdin.write("\n")
        process.stdin.flush()
        harness.wait_until(lambda: process.poll() is not None or done(workers_of(path)), what, pause=0.1)
        assert process.poll() is None, process.stderr.read()

    try:
        step(lambda rows: [row["page_map"] is not None for row in rows] == [True, True], "a sweep of both workers")
        step(lambda rows: all((row["copies"] or 0) >= PAGES for row in rows), "the copies of both")
        _, stderr = process.communicate(timeout=harness.DEADLINE)
    finally:
        process.kill()  # which kills everything in the namespace
        process.communicate()
    assert process.returncode == 0, stderr
    report = harness.report_of(path)
    assert report["exactness"]["rung"] == "page-map" and report["target"]["pid"] < 100
    assert report["parent"]["copies"] <= STRAY
    assert len(report["workers"]) == 2
    for row in report["workers"]:
        assert row["pid"] < 100 and PAGES <= row["copies"] <= PAGES + STRAY


def workers_of(path):
    result = harness.run_cowprof("report", path, "--json")
    return json.loads(result.stdout)["workers"] if result.returncode == 0 else []


def test_a_user_pid_and_mount_namespace_work(nobodys_folder):
    record_inside(nobodys_folder, "exec", "--user", "--map-root-user", "--pid", "--mount-proc", **harness.AS_NOBODY)


def test_hidepid_hides_nothing_that_is_needed(nobodys_folder):
    user = " ".join(harness.TO_NOBODY)
    record_inside(nobodys_folder, f"mount -t proc -o hidepid=2 proc /proc && {user}", "--mount", "--pid")


def test_another_users_process_is_refused_with_the_remedy(start_workload, nobodys_folder):
    process = start_workload("shared_pages")
    process.await_line("role", "ready")
    result = harness.run_cowprof("--attach", process.pid, "--output", nobodys_folder / "r.json", **harness.AS_NOBODY)
    assert result.returncode == 4
    assert re.search(rf"can't inspect process {process.pid}.*as the user", result.stderr)
    doctor = harness.run_cowprof("doctor", "--json", **harness.AS_NOBODY)
    assert doctor.returncode == 0 and json.loads(doctor.stdout)["rung"] == "page-map"


YAMA = Path("/proc/sys/kernel/yama/ptrace_scope")


def test_yama_is_named_when_it_forbids_reading_memory(record_as_nobody, start_workload):
    """Copies are still counted, because page maps need less; the recording and doctor give the remedy for the rest."""
    needs("Yama", YAMA.exists(), f"no {YAMA}")
    before = YAMA.read_text()
    YAMA.write_text("1")
    try:
        work = Pages(start_workload, "copies")
        recording = record_as_nobody(work.pid)
        pids = work.fork()
        work.act()
        await_sweep(recording, pids)
        recording.interrupt()
        doctor = harness.run_cowprof("doctor", "--json", work.pid, **harness.AS_NOBODY)
    finally:
        YAMA.write_text(before)
    for said in (json.loads(doctor.stdout)["note"], str(recording.timeline()["records"])):
        assert "kernel.yama.ptrace_scope is 1" in said and "cowprof -- COMMAND" in said
    assert recording.report()["exactness"]["copies"] == "page-map"
