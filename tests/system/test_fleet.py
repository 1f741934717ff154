"""Several recordings of one job in one report: who died first and of what, a row for each rank, and what does not fit together."""
import base64
import datetime
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import harness
import test_launchers
from conftest import needs
from memory_groups import MB, MemoryGroup, memory_root

WORKLOADS = harness.REPOSITORY / "tests" / "system" / "workloads"
ITEMS = 120_000
LIMIT = 24 * MB  # of what the two workers of the fatal rank copy, which is about 70


def fleet_of(*paths, status=0):
    result = harness.run_cowprof("report", *paths, "--json", seconds=60 * harness.PATIENCE)
    assert result.returncode == status, result.stderr
    fleet = json.loads(result.stdout)
    harness.validate(fleet, "fleet.schema.json")
    return fleet


def page_of(*arguments, status=0):
    """What view says on stderr, and the data of the page that it makes."""
    result = harness.run_cowprof("view", *arguments, seconds=60 * harness.PATIENCE)
    assert result.returncode == status, result.stderr
    page = Path(result.stdout.strip())
    data = re.findall(r'cowprof-data"?[^>]*>([^<]*)</script>', page.read_text())[-1]
    page.unlink()
    return result.stderr, [json.loads(gzip.decompress(base64.b64decode(line)).split(b"\n", 1)[0]) for line in data.split()]


def record_job(launcher, folder, group, inside=None):
    """Starts a launcher of two ranks; records it, and each rank apart. Returns the three recordings. `inside`: its root's folder."""
    job = harness.Process([*launcher, inside or folder, "1", str(ITEMS)], stderr=subprocess.DEVNULL,
                          env={**os.environ, "GROUP": str(group.folder)})
    seen = Path(f"/proc/{job.pid}/root{inside}") if inside else folder
    recordings, pids = [], [job.pid]
    try:
        for rank in (0, 1):
            path = seen / f"rank-{rank}"
            harness.wait_until(path.exists, f"rank {rank}", 90 * harness.PATIENCE, 0.05)
            pids.append(int(path.read_text()))
        for name, pid in zip(("launcher", "a", "b"), pids):
            recordings.append(harness.attach(pid, folder / f"{name}.json", "--quiet", "--interval", "100ms"))
        for recording in recordings:
            recording.await_sample()
        (seen / "go").touch()
        job.popen.wait(120 * harness.PATIENCE)
        for recording in recordings:
            recording.wait(30 * harness.PATIENCE)
    finally:
        for recording in recordings:
            recording.stop()
        job.stop()
    return [folder / f"{name}.json" for name in ("launcher", "a", "b")]


def check_job(paths):
    launcher, *ranks = paths
    apart, together = fleet_of(*ranks), fleet_of(launcher.parent)["rows"]
    of_launcher = fleet_of(launcher, launcher)
    first = apart["first_death"]
    victim = apart["rows"][1]
    assert [row["rank"] for row in apart["rows"]] == [0, 1]
    assert first["row"] == 1 and "worker" in first["process"] and "OOM killer" in first["text"], first
    assert not apart["rows"][0]["deaths"] or apart["rows"][0]["deaths"][0]["wall"] > first["wall"]
    assert victim["headline"]["diagnosis"] == "oom-cgroup", victim["headline"]
    assert "rank 1" in apart["sentence"].split(":")[0] and "OOM killer" in apart["sentence"]
    # One recording of the launcher says the same of each rank.
    assert [row["rank"] for row in of_launcher["rows"]] == [0, 0, 1, 1]
    assert [row["repeated"] for row in of_launcher["rows"]] == [False, True, False, True]
    assert of_launcher["rows"][of_launcher["first_death"]["row"]]["rank"] == 1
    for rank in (0, 1):
        one, other = apart["rows"][rank], of_launcher["rows"][2 * rank]
        assert one["pid"] == other["pid"] and one["workers_at_once"] == other["workers_at_once"] == 2
        assert one["headline"]["diagnosis"] == other["headline"]["diagnosis"]
        # Two recorders see what a killed worker had copied at moments that differ.
        tolerance = 0.02 if rank == 0 else 0.2
        assert abs(one["copied_bytes"] - other["copied_bytes"]) <= tolerance * one["copied_bytes"], (one, other)
    assert len(together) == 4
    # The report of the launcher alone has the same rows.
    alone = json.loads(harness.run_cowprof("report", launcher, "--json").stdout)
    assert [row["rank"] for row in alone["ranks"]] == [0, 1]
    assert alone["ranks"][0]["copied_bytes"] == of_launcher["rows"][0]["copied_bytes"]
    [page] = page_of(launcher)[1]
    assert page["report"]["ranks"] == alone["ranks"], "the page of the launcher has them, too"
    text = harness.run_cowprof("report", *ranks).stdout
    assert text.startswith("In rank 1, worker "), text
    assert "rank 0" in text and "oom-cgroup" in text


@pytest.fixture
def group():
    needs("memory-cgroup", memory_root() is not None, "no memory cgroup that can be divided")
    with MemoryGroup(limit_bytes=LIMIT) as made:
        yield made


def test_the_rank_that_was_killed_first_is_named(group, tmp_path):
    """Two ranks with the environment that torchrun gives them."""
    check_job(record_job([harness.PYTHON, WORKLOADS / "verdict_launcher.py", "2", WORKLOADS / "fleet_rank.py"], tmp_path, group))


@pytest.mark.slow
def test_torchrun_of_two_ranks(chroot_of, group, tmp_path):
    """torch 2.14's own launcher."""
    command = chroot_of("sid").python("workloads/torchrun.py", "--nproc-per-node=2", "--rdzv-id=job-9", "--master-addr=127.0.0.1",
                         f"--master-port={test_launchers.free_ports(1)[0]}", "/mnt/workloads/fleet_rank.py")
    check_job(record_job(command, tmp_path, group, "/tmp"))


@pytest.fixture(scope="module")
def healthy(tmp_path_factory):
    """A recording of a program that copies, with an identity that tests change."""
    path = tmp_path_factory.mktemp("fleet") / "one.json"
    code = "import os, time\nrows = [str(i) for i in range(40000)]\nfor _ in range(2):\n  if os.fork() == 0:\n    sum(map(len, rows)); time.sleep(.3); os._exit(0)\nos.wait(); os.wait()"
    result = harness.run_cowprof("--quiet", "--interval", "100ms", "--output", path, "--", sys.executable, "-c", code)
    assert result.returncode == 0, result.stderr
    return path


def changed(path, folder, name, rank, hours=0, host=None):
    """A copy of a recording, as of another rank and host, by a clock that differs."""
    document = json.loads(path.read_text())
    identity = document["header"]["identity"]
    identity["rank"], identity["job_id"] = rank, "job-1"
    identity["source"] = "torch"
    next(record for record in document["records"] if record.get("index") == 0 and "pid" in record)["pid"] += rank
    if host:
        identity["host"], identity["boot_id"] = host, f"boot of {host}"
    started = datetime.datetime.fromisoformat(document["header"]["started"][:26] + "+00:00")
    document["header"]["started"] = (started + datetime.timedelta(hours=hours)).isoformat()
    copy = folder / name
    copy.write_text(json.dumps(document))
    return copy


def test_clocks_that_differ_are_said(healthy, tmp_path):
    other_host = fleet_of(changed(healthy, tmp_path, "a.json", 0), changed(healthy, tmp_path, "b.json", 1, hours=1, host="node-b"))
    assert any("the clocks differ, or these did not run together" in note for note in other_host["notes"]), other_host["notes"]
    same_host = fleet_of(changed(healthy, tmp_path, "a.json", 0), changed(healthy, tmp_path, "c.json", 1, hours=1))
    assert any("was moved by" in note for note in same_host["notes"]), same_host["notes"]
    as_one = fleet_of(changed(healthy, tmp_path, "a.json", 0), changed(healthy, tmp_path, "d.json", 1, host="node-b"))
    assert not as_one["notes"], as_one["notes"]


def test_a_rank_that_is_recorded_twice_counts_once(healthy, tmp_path):
    one = changed(healthy, tmp_path, "a.json", 0)
    fleet = fleet_of(one, shutil.copy(one, tmp_path / "b.json"))
    assert [row["repeated"] for row in fleet["rows"]] == [False, True]
    assert fleet["sums"]["copied_bytes"] == fleet["rows"][0]["copied_bytes"]
    assert any("sums count the first" in note for note in fleet["notes"])


def test_ranks_without_a_recording_are_named(healthy, tmp_path):
    fleet = fleet_of(*(changed(healthy, tmp_path, f"{rank}.json", rank) for rank in (0, 2, 5)))
    assert "No recording of ranks 1, 3, 4." in fleet["notes"]
    assert fleet["common"], fleet


def test_who_is_unlike_the_rest_is_named(healthy, tmp_path):
    paths = [changed(healthy, tmp_path, f"{rank}.json", rank) for rank in range(4)]
    document = json.loads(paths[2].read_text())
    for record in document["records"]:
        for row in record.get("processes", []):
            names = document["header"].get("columns", {}).get("processes")
            assert names, "the rows have columns"
            row[names.index("copies")] = (row[names.index("copies")] or 0) * 30
    paths[2].write_text(json.dumps(document))
    fleet = fleet_of(*paths)
    assert any(line.startswith("rank 2: ") and "times the median" in line for line in fleet["unlike"]), fleet["unlike"]
    assert not any(line.startswith("rank 0") for line in fleet["unlike"])


def test_files_that_are_no_recordings(healthy, tmp_path):
    good = changed(healthy, tmp_path, "good.json", 0)
    (tmp_path / "package.json").write_text('{"name": "x"}')
    result = harness.run_cowprof("report", tmp_path)
    assert result.returncode == 0 and "1 file of the folder was left out: not a recording." in result.stdout
    result = harness.run_cowprof("report", good, tmp_path / "package.json")
    assert result.returncode == 2 and "package.json" in result.stderr and "rank 0" in result.stdout
    (tmp_path / "empty").mkdir()
    result = harness.run_cowprof("report", tmp_path / "empty")
    assert result.returncode == 2 and "no recording in" in result.stderr


@pytest.mark.parametrize("spoilt, why", [
    (lambda whole: whole + whole, "more follows after its end"), (lambda whole: whole[:3000], "truncated in its first line")])
def test_a_recording_of_a_folder_that_is_not_whole_is_named(healthy, tmp_path, spoilt, why):
    good = changed(healthy, tmp_path, "good.json", 0)
    (tmp_path / "spoilt.json").write_bytes(spoilt(healthy.read_bytes() if "more" in why else good.read_bytes()))
    result = harness.run_cowprof("report", tmp_path)
    assert result.returncode == 2 and "spoilt.json" in result.stderr and why in result.stderr and "rank 0" in result.stdout
    assert "Left out: " in result.stdout and "not a recording" not in result.stdout


def test_recordings_of_a_folder_that_can_not_be_read_are_named(healthy, tmp_path, nobodys_folder):
    changed(healthy, tmp_path, "good.json", 0)
    (tmp_path / "newer.json").write_text('{"schema":"cowprof.timeline/9","header":{},"records":[\n]}\n')
    (tmp_path / "gone.json").symlink_to("nowhere")
    for command in (("report",), ("view", "-o", tmp_path / "page.html")):
        result = harness.run_cowprof(*command, tmp_path)
        assert result.returncode == 2 and result.stdout, result.stderr
        [line] = result.stderr.splitlines()
        assert "cowprof.timeline/9" in line and "gone.json: No such file" in line
    closed = nobodys_folder / "closed"
    closed.mkdir(mode=0)
    result = harness.run_cowprof("report", closed, **harness.AS_NOBODY)
    assert (result.returncode, result.stderr) == (2, f"cowprof: read the folder {closed}: Permission denied\n")


def test_reading_several_at_a_time_changes_nothing(healthy, tmp_path):
    """With the threads that this host allows, on one CPU, and where no thread can be had: its stack is larger than what may be mapped."""
    for rank in range(9):
        changed(healthy, tmp_path, f"{rank}.json", rank)
    (tmp_path / "5a.json").write_text("{}")
    texts = []
    for limits in ([], ["taskset", "--cpu-list", str(min(os.sched_getaffinity(0)))], ["prlimit", f"--stack={2 << 30}", f"--as={1 << 30}"]):
        result = subprocess.run([*limits, harness.COWPROF, "report", tmp_path, "--json"], capture_output=True, text=True, check=True)
        texts.append(result.stdout)
    assert [row["rank"] for row in json.loads(texts[0])["rows"]] == list(range(9))
    assert len(set(texts)) == 1


def rows_in(page):
    """The ranks of a fleet page; None: it is the page of recordings."""
    [first, *others] = page
    if first["schema"] != "cowprof.fleet-page/1":
        return None
    assert not others and len(first["curves"]) == len(first["fleet"]["rows"])
    return [row["rank"] for row in first["fleet"]["rows"]]


def test_two_recordings_are_a_job_or_two_runs(healthy, tmp_path):
    """Which of both is said, with the other way; --as has the last word."""
    one = changed(healthy, tmp_path, "a.json", 0)
    later = changed(healthy, tmp_path, "later.json", 1, hours=1, host="node-b")
    for other, job in ((changed(healthy, tmp_path, "b.json", 1), True), (changed(healthy, tmp_path, "c.json", 1, host="node-b"), True),
                       (changed(healthy, tmp_path, "again.json", 0, host="node-b"), False), (later, False), (healthy, False)):
        said, page = page_of(one, other)
        assert (rows_in(page) == [0, 1]) == job, other
        assert said.count("\n") == 1 and ("--as compare" if job else "--as job") in said, said
    assert page_of(one, tmp_path / "b.json", "--as", "compare")[0] == ""
    assert len(page_of(one, tmp_path / "b.json", "--as", "compare")[1]) == 2
    said, page = page_of(one, later, "--as", "job")
    assert (said, rows_in(page)) == ("", [0, 1])
    assert any("the clocks differ" in note for note in page[0]["fleet"]["notes"])


def test_a_page_of_many(healthy, tmp_path):
    job = tmp_path / "my job"
    job.mkdir()
    paths = [changed(healthy, job, f"{rank}.json", rank) for rank in range(3)]
    (job / "package.json").write_text("{}")
    result = harness.run_cowprof("view", job)
    assert result.stdout.strip() == f"{job}.html"
    assert harness.run_cowprof("view", *paths).stdout.strip() == str(job / "0-and-2-more.html")
    said, page = page_of(job)
    assert (said, rows_in(page)) == ("", [0, 1, 2])
    report = fleet_of(job)
    assert page[0]["fleet"] == report
    assert any("1 file of the folder was left out: not a recording." in note for note in report["notes"])
    said, page = page_of(*paths, job / "package.json", status=2)
    assert "package.json" in said and rows_in(page) == [0, 1, 2]
    assert any(note.startswith("Left out: ") and "package.json" in note for note in page[0]["fleet"]["notes"])
    assert harness.run_cowprof("view", job, paths[0], "--as", "compare").returncode == 2
