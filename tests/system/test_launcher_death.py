"""A launcher that dies first: it is named first, with its cause, and the ranks that its end took along are not blamed."""
import contextlib
import json
import os
import signal

import pytest

import harness
from conftest import needs
from memory_groups import MB, MemoryGroup, memory_root

LAUNCHER = [harness.PYTHON, harness.REPOSITORY / "tests" / "system" / "workloads" / "dying_launcher.py"]


def fleet_of(*paths):
    done = harness.run_cowprof("report", *paths, "--json")
    assert done.returncode == 0, done.stderr
    fleet = json.loads(done.stdout)
    harness.validate(fleet, "fleet.schema.json")
    return fleet


def record_death(kind, kill, folder, apart=False, **options):
    """(pids of the launcher and of each rank and its worker, recordings: the launcher's and, if `apart`, one of each rank)"""
    job = harness.Process([*LAUNCHER, kind], **options)
    recordings, pids = [], []
    try:
        pids = job.await_line("event", "ready")["pids"]
        for name, pid in {"launcher": pids[0], **({"a": pids[1], "b": pids[3]} if apart else {})}.items():
            recordings.append(harness.attach(pid, folder / f"{name}.json", "--quiet", "--interval", "100ms"))
        for recording in recordings:
            recording.await_sample()
        kill(job)
        for recording in recordings:
            recording.wait()
    finally:
        for recording in recordings:
            recording.stop()
        for pid in pids[1:]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        job.stop()
    return pids, [recording.path for recording in recordings]


def check(pids, paths, cause, together):
    """`together`: the pids that ended with the launcher."""
    launcher = paths[0]
    report = harness.report_of(launcher)
    assert f"launcher {pids[0]}" in report["headline"]["sentence"].split(":")[0], report["headline"]
    for row in report["ranks"]:
        assert [death["process"] for death in row["launcher_deaths"]] == [f"launcher ({pids[0]})"]
        assert cause in row["launcher_deaths"][0]["text"]
        assert all(death["with_launcher"] for death in row["deaths"]), row["deaths"]
    for fleet in fleet_of(launcher, launcher), fleet_of(*paths, launcher):
        first, *others = fleet["deaths"]
        assert first["launcher"] and first["process"] == f"launcher ({pids[0]})" and cause in first["text"], first
        assert fleet["sentence"].startswith(f"The launcher ({pids[0]}) was the first to end badly"), fleet["sentence"]
        assert {int(death["process"].split("(")[1].rstrip(")")) for death in others} == set(together), others
        assert all(death["with_launcher"] and "together with its launcher" in death["text"] for death in others)
    text = harness.run_cowprof("report", launcher).stdout
    assert text.count("launcher died") == 2, text


def test_ranks_that_die_with_their_launcher(tmp_path):
    pids, paths = record_death("bound", lambda job: os.kill(job.pid, signal.SIGKILL), tmp_path, apart=True)
    check(pids, paths, f"killed by SIGKILL from python3 (pid {os.getpid()})", [pids[1], pids[3]])


def test_a_process_group_that_is_killed(tmp_path):
    pids, paths = record_death("free", lambda job: os.killpg(job.pid, signal.SIGKILL), tmp_path, apart=True)
    check(pids, paths, "killed by SIGKILL from ", pids[1:])


def test_a_launcher_that_dies_alone(tmp_path):
    pids, paths = record_death("free", lambda job: os.kill(job.pid, signal.SIGKILL), tmp_path)
    check(pids, paths, "killed by SIGKILL from ", [])


def test_a_launcher_that_is_killed_in_its_cgroup(tmp_path):
    needs("memory-cgroup", memory_root() is not None, "no memory cgroup that can be divided")
    with MemoryGroup(limit_bytes=150 * MB) as group:
        pids, paths = record_death("bound", lambda job: job.go(), tmp_path, preexec_fn=group.join)
    assert harness.report_of(paths[0])["headline"]["diagnosis"] == "oom-cgroup"
    check(pids, paths, "the OOM killer, limit of cgroup", [pids[1], pids[3]])


@pytest.mark.parametrize("first", ["rank", "worker"])
def test_a_rank_that_dies_before_its_launcher_stays_first(first, tmp_path):
    def kill(job):
        victim = job.lines[0]["pids"][3 if first == "rank" else 4]
        os.kill(victim, signal.SIGKILL)
        seen = harness.end_of(tmp_path / "launcher.json")
        harness.wait_until(lambda: harness.end_of(tmp_path / "launcher.json") > seen + 0.3, "samples")
        os.kill(job.pid, signal.SIGKILL)
    pids, paths = record_death("free", kill, tmp_path)
    deaths = fleet_of(paths[0], paths[0])["deaths"]
    assert f"({pids[3 if first == 'rank' else 4]})" in deaths[0]["process"] and not deaths[0]["with_launcher"], deaths
    assert [death["launcher"] for death in deaths].index(True) > 0
