"""Runs a planted workload under cowprof, attached or started by it, and compares every planted figure with the report."""
import json
import subprocess

import harness

PLANTED = ("copies", "reuses", "zero_fills")
TOLERANCE = 0.005
OWN_PAGES = 60  # what a process copies or fills on its own: stack, libc, exit; allowed only where nothing was planted


def run_attached(command, folder, *options, **of_process):
    """Starts the workload, attaches, releases it. Returns the report and the workload's lines."""
    workload = harness.Process([harness.WORKLOADS / command[0], *command[1:], "--wait"], **of_process)
    try:
        workload.await_line("role", "ready")
        recording = harness.attach(workload.pid, folder / "attached.json", *options)
        try:
            recording.await_sample()
            workload.go()
            assert recording.wait() == 0, recording.stderr
        finally:
            recording.stop()
        lines = workload.finish()
        assert workload.popen.returncode == 0
    finally:
        workload.stop()
    recording.timeline()
    return recording.report(), lines


def run_started(command, folder, *options):
    """Lets cowprof start the workload. Returns the report and the workload's lines."""
    path = folder / "started.json"
    with open(folder / "stdout", "w+", encoding="utf-8") as stdout:
        recording = harness.Recording(path, ["--output", path, "--quiet", *options, "--", harness.WORKLOADS / command[0],
                                             *command[1:]], stdout=stdout, stdin=subprocess.DEVNULL)
        try:
            assert recording.wait() == 0, recording.stderr
        finally:
            recording.stop()
        stdout.seek(0)
        lines = [json.loads(line) for line in stdout]
    recording.timeline()
    return recording.report(), lines


def children_of(lines):
    root = lines[-1]["pid"]
    return sorted({line["pid"] for line in lines} - {root})


def planted(lines):
    """{pid: {figure: count}}. A process that printed twice, as after an exec, planted the sum."""
    sums = {}
    for line in lines:
        figures = sums.setdefault(line["pid"], dict.fromkeys((*PLANTED, "file_copies", "shm_pages", "swap_ins", "moved"), 0))
        for name in figures:
            figures[name] += line.get(f"planted_{name}", 0)
        figures["moved"] += line.get("pagemap_copies", 0)
    return sums


def assert_near(counted, truth, what):
    if truth:
        assert abs(counted - truth) <= truth * TOLERANCE, f"{what}: counted {counted}, truth {truth}"
    else:
        assert counted <= OWN_PAGES, f"{what}: counted {counted}, nothing was planted"


def assert_counts(report, lines, figures=("copies",)):
    """Every process is listed once with what it planted, and pagemap confirms the planted copies."""
    sums = planted(lines)
    for pid, truth in sums.items():
        row = harness.row_of(report, pid)
        for name in figures:
            assert_near(row[name], truth[name], f"{name} of {pid}")
        assert truth["moved"] == truth["copies"] + truth["file_copies"], "the workload disagrees with pagemap"
    assert {row["pid"] for row in report["workers"]} | {report["parent"]["pid"]} == set(sums)
    return sums
