"""What can happen to cowprof itself: a disk that fills up and is freed again, a removed file, a closed stdout, little memory, a wall
clock that jumps, and two seconds without running. The target never notices, and losses are counted.
"""
import fcntl
import os
import re
import resource
import signal
import subprocess
import time
from pathlib import Path

import pytest

import harness
import usage
from conftest import needs
from counting import assert_counts
from memory_groups import KIND, MemoryGroup, memory_root
from test_lifecycle import tree  # noqa: F401  (a fixture)
from test_output_file import fill, small_disk  # noqa: F401  (a fixture)
from test_survive_processes import OWN_COPIES, copies_of, listed


def await_time(recording, seconds):
    """Waits until the recording covers this many seconds more."""
    begun = harness.end_of(recording.path)
    harness.wait_until(lambda: harness.end_of(recording.path) >= begun + seconds, f"{seconds} s more of recording", pause=0.05)


# ---- The file ----

def test_a_disk_that_fills_up_and_is_freed_again(small_disk, start_workload, figure):  # noqa: F811
    """Processes that came and went meanwhile, and all copies, are recorded once there is room again."""
    storm = start_workload("many_forks", "--forks=60", "--rate=30", "--pages=50", "--wait", "--linger")
    storm.await_line("role", "ready")
    recording = harness.attach(storm.pid, small_disk / "out.json", "--quiet", "--interval", "50ms")
    try:
        recording.await_sample()
        fill(small_disk)
        storm.go()
        storm.await_line("role", "storm")
        before = recording.path.stat().st_size
        (small_disk / "filler").unlink()
        harness.wait_until(lambda: recording.path.stat().st_size > before, "the recording to continue")
        storm.finish()
        assert recording.wait() == 6
    finally:
        recording.stop()
    assert len(recording.stderr.splitlines()) == 1 and "space" in recording.stderr.lower(), recording.stderr
    report = recording.report(healthy=False)
    assert listed(report) == 60 and copies_of(report) >= 60 * 50
    dropped = report["losses"]["records_dropped"]
    assert dropped > 0 and all(row["exit"] for row in report["workers"])
    figure("output fails", "disk full for two seconds, then free again",
           f"one line; {dropped} ticks dropped and counted; 60 of 60 processes with all their copies recorded afterwards; exit status 6")


def test_a_file_of_limited_length(tree, start_recording, figure):
    """`ulimit -f`, which looks like a quota to the writer."""
    most = 40000  # about 20 ticks of this tree
    recording = start_recording(tree.pid, "--quiet", "--interval=50ms", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, most)))
    recording.await_sample()

    def stuck():
        size = recording.path.stat().st_size
        time.sleep(0.4)  # eight ticks
        return size > most / 2 and recording.path.stat().st_size == size

    harness.wait_until(stuck, "the recording to fill its room")
    recording.send(signal.SIGINT)
    assert recording.wait() == 6, recording.stderr
    assert len(recording.stderr.splitlines()) == 1 and "too large" in recording.stderr, recording.stderr
    report = recording.report(healthy=False)
    assert report["samples"] > 0 and recording.path.stat().st_size <= most
    figure("output fails", "a file that may not grow (ulimit -f, as a quota)", "one line, exit status 6, the file opens")


def test_a_read_only_file_system(small_disk, start_workload, figure):  # noqa: F811
    target = start_workload("fork_copies", "--pages=10", "--wait")
    target.await_line("role", "ready")
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    result = harness.run_cowprof("--attach", target.pid, "--output", small_disk / "out.json", "--duration", "300ms")
    assert result.returncode == 6 and len(result.stderr.splitlines()) == 1 and "read-only" in result.stderr.lower()
    figure("output fails", "a read-only file system", "one line, exit status 6, nothing started")


def test_a_file_that_is_moved_while_it_is_written(tree, start_recording, tmp_path, figure):
    recording = start_recording(tree.pid, "--quiet", "--interval", "50ms")
    recording.await_sample()
    moved = tmp_path / "elsewhere.json"
    recording.path.rename(moved)
    recording.path = moved
    await_time(recording, 0.5)
    recording.interrupt()
    assert recording.stderr == "" and recording.timeline()["records"][-1]["type"] == "end"
    figure("output file", "the output file is moved", "continues in it, complete at the end")


def test_a_file_that_is_removed_while_it_is_written(tree, start_recording, figure):
    recording = start_recording(tree.pid, "--quiet", "--interval", "50ms")
    recording.await_sample()
    recording.path.unlink()
    (held,) = [link for link in Path(f"/proc/{recording.pid}/fd").iterdir() if os.readlink(link) == f"{recording.path} (deleted)"]
    harness.wait_until(lambda: sum(record["type"] == "sample" for record in harness.records_of(held)) > 5, "samples in the removed file")
    saved = recording.path.with_name("saved.json")
    saved.write_bytes(held.read_bytes())
    recording.send(signal.SIGINT)
    assert recording.wait() == 6, recording.stderr
    assert f", as root: cp /proc/{recording.pid}/fd/{held.name}" in recording.stderr and "the recording is lost" in recording.stderr
    recording.path = saved
    assert recording.report()["samples"] > 5
    figure("output file", "the output file is removed", "one line that says how to save it while it runs; exit status 6")


# ---- The streams ----

def streams(case):
    if case == "closed":
        return {"stdout": None, "preexec_fn": lambda: os.close(1)}
    if case == "/dev/full":
        return {"stdout": open("/dev/full", "wb")}
    reader, writer = os.pipe()
    os.close(reader)
    return {"stdout": writer}


@pytest.mark.parametrize("case", ["closed", "a pipe without a reader", "/dev/full"])
def test_nobody_reads_stdout(case, tree, tmp_path, figure):
    path = tmp_path / "out.json"
    options = streams(case)
    recording = harness.Recording(path, ["--attach", tree.pid, "--output", path, "--interval", "50ms", "--duration", "700ms"],
                                  **options)
    if isinstance(options["stdout"], int):
        os.close(options["stdout"])
    try:
        status = recording.wait()
    finally:
        recording.stop()
    assert status == 0, recording.stderr
    assert len(recording.stderr.splitlines()) == 1, recording.stderr  # the line that says what is recorded
    assert recording.timeline()["records"][-1]["type"] == "end"
    assert recording.report()["samples"] >= 2
    figure("output fails", f"stdout is {case}", "exit status 0, the file is complete")


def samples_in(path):
    return sum(record["type"] == "sample" for record in harness.records_of(path))


def test_a_pager_that_shows_its_first_page(tree, tmp_path, figure):
    """Its reader goes on only when somebody presses a key, which may be never."""
    path = tmp_path / "out.json"
    reader, writer = os.pipe()
    fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
    recording = harness.Recording(path, ["--attach", tree.pid, "--output", path, "--interval", "20ms"], stdout=writer)
    os.close(writer)
    try:
        harness.wait_until(lambda: samples_in(path) > 80, "more samples than lines that the pipe takes")
        recording.send(signal.SIGTERM)
        harness.wait_until(lambda: harness.last_record(path).get("type") == "end", "the end of the recording")
        text = b"".join(iter(lambda: os.read(reader, 65536), b""))
        assert recording.wait() == 0, recording.stderr
    finally:
        os.close(reader)
        recording.stop()
    assert b"recorded in" in text
    figure("output fails", "stdout is a pager that shows its first page", "exit status 0, the file is complete")


# ---- Memory ----

@pytest.mark.parametrize("megabytes", [64])
def test_little_memory_for_cowprof(megabytes, start_workload, start_recording, figure):
    """A memory cgroup around cowprof alone, which is also charged for its BPF maps and the page cache of its file."""
    needs("memory cgroup", KIND == "cgroup-v1", "no memory cgroup of version 1, which has memory.max_usage_in_bytes")
    crowd = start_workload("worker_crowd", "--workers=64", "--pages=2000")
    crowd.await_line("role", "ready")
    with MemoryGroup(megabytes << 20) as group:
        recording = start_recording(crowd.pid, "--interval", "100ms", preexec_fn=group.join)
        recording.await_sample()
        crowd.go()
        planted = crowd.await_line("role", "copied", seconds=60)["planted_copies"]
        await_time(recording, 2)
        used = int((group.folder / "memory.max_usage_in_bytes").read_text())
        recording.interrupt()
        kills = (group.folder / "memory.oom_control").read_text()
    assert "oom_kill 0" in kills
    report = recording.report()
    assert all(planted - 8 <= row["copies"] <= planted + OWN_COPIES for row in report["workers"])
    figure("limits on cowprof", f"a memory limit of {megabytes} MB on cowprof, 64 workers", f"at most {used / usage.MIB:.0f} MiB charged, all counts right")


def test_no_memory_for_cowprof(tree, start_recording, figure):
    """With too little memory cowprof ends with one line or is OOM-killed; the target continues either way."""
    needs("memory cgroup", memory_root() is not None, "no memory cgroup that can be divided")
    with MemoryGroup(16 << 20) as group:
        recording = start_recording(tree.pid, "--quiet", "--duration", "1s", preexec_fn=group.join)
        status = recording.wait()
    assert status in (-signal.SIGKILL, 0, 1, 5), (status, recording.stderr)
    assert len(recording.stderr.splitlines()) <= 1, recording.stderr
    figure("limits on cowprof", "a memory limit of 16 MB on cowprof", f"ends with {status}; the target continues")


def test_few_descriptors_for_cowprof(tmp_path, figure):
    """cowprof raises its own soft limit to the hard one; a program that it starts keeps the original."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    code = "import os, resource, sys; print([os.getppid(), resource.getrlimit(resource.RLIMIT_NOFILE)[0]], flush=True); sys.stdin.read()"
    process = harness.Process([harness.COWPROF, "--quiet", "--output", tmp_path / "r.json", "--", harness.PYTHON, "-c", code],
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard)))
    try:
        harness.wait_until(lambda: process.lines, "the program to print its line")
        recorder, limit = process.lines[0]
        own = int(re.search(r"^Max open files +(\d+)", Path(f"/proc/{recorder}/limits").read_text(), re.M).group(1))
        process.finish()
        assert process.popen.returncode == 0
    finally:
        process.stop()
    assert limit == 256 and own == hard
    figure("limits on cowprof", "a soft limit of 256 descriptors", f"{own} for cowprof, 256 for the program that it started")


@pytest.mark.parametrize("megabytes", [512, 128, 64])
def test_little_address_space_for_cowprof(megabytes, tree, start_recording, figure):
    bound = megabytes << 20
    recording = start_recording(tree.pid, "--quiet", "--duration", "1s", "--interval", "100ms",
                                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (bound, bound)))
    status = recording.wait()
    figure("limits on cowprof", f"RLIMIT_AS of {megabytes} MB on cowprof", f"exit status {status}, {len(recording.stderr.splitlines())} lines")
    assert status in (0, 1, 5, 127, -signal.SIGABRT), recording.stderr
    if megabytes == 512:
        assert status == 0, recording.stderr


# ---- Time ----

CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
/* The wall clock of this process is ahead by the seconds in the file CLOCK_OFFSET; its other clocks are the host's. */
int clock_gettime(clockid_t clock, struct timespec *now)
{
	static int (*real)(clockid_t, struct timespec *);
	long ahead = 0;
	FILE *file;
	if (!real)
		real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
	if (real(clock, now))
		return -1;
	if (clock != CLOCK_REALTIME || !(file = fopen(getenv("CLOCK_OFFSET"), "r")))
		return 0;
	if (fscanf(file, "%ld", &ahead) == 1)
		now->tv_sec += ahead;
	fclose(file);
	return 0;
}
"""


def clock_notes(path):
    return [record["text"] for record in harness.records_of(path) if record.get("event") == "note" and "wall clock" in record["text"]]


def test_a_wall_clock_that_jumps(tree, start_recording, tmp_path, figure):
    """An hour forward, back, and back again: the recording's own time stays monotonic, and each jump is one note."""
    (tmp_path / "clock.c").write_text(CLOCK)
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", tmp_path / "clock.so", tmp_path / "clock.c", "-ldl"], check=True)
    ahead = tmp_path / "ahead"
    ahead.write_text("0")
    environment = {**os.environ, "LD_PRELOAD": str(tmp_path / "clock.so"), "CLOCK_OFFSET": str(ahead)}
    recording = start_recording(tree.pid, "--interval=50ms", env=environment)
    recording.await_sample()
    for jumps, seconds in enumerate((3600, 0, -3600), start=1):
        (tmp_path / "next").write_text(str(seconds))
        (tmp_path / "next").rename(ahead)
        harness.wait_until(lambda: len(clock_notes(recording.path)) >= jumps, "the note of a jump", pause=0.05)
        await_time(recording, 0.3)
    recording.interrupt()
    records = recording.timeline()["records"]
    times = [record["t"] for record in records if record["type"] == "sample"]
    assert all(later > earlier for earlier, later in zip(times, times[1:])) and times[-1] < 600
    notes = clock_notes(recording.path)
    assert [text.split(";")[0] for text in notes] == [f"the wall clock was set {way} by 1 h 00 min" for way in ("forward", "back", "back")]
    report = recording.report()
    assert all(row["started_at"] <= (row["ended_at"] or report["duration_seconds"]) for row in report["workers"])
    figure("wall clock", "three jumps of the wall clock by an hour", f"time strictly increasing, {len(notes)} notes, no negative rate")


def test_a_tick_that_takes_more_than_a_second(start_recording):
    """The target ends and its child lives on, for which the last tick waits for a second: nobody has set the clock."""
    process = harness.Process(["sh", "-c", "sleep 10 > /dev/null & echo '{\"role\": \"ready\"}'; read line"])
    try:
        process.await_line("role", "ready")
        recording = start_recording(process.pid)
        recording.await_sample()
        process.go()
        assert recording.wait() == 0, recording.stderr
    finally:
        process.stop()
    assert recording.timeline()["records"][-1]["reason"] == "target ended"
    assert clock_notes(recording.path) == []


# ---- A stall ----

@pytest.fixture
def stall():
    """stall(recording) stops cowprof with SIGSTOP, at most until the test ends."""
    stopped = []

    def stop(recording):
        recording.send(signal.SIGSTOP)
        stopped.append(recording)

    yield stop
    for recording in stopped:
        if recording.popen.poll() is None:
            recording.send(signal.SIGCONT)


def test_two_seconds_without_cowprof_under_a_flood_of_ends(stall, start_workload, start_recording, figure):
    """The rows list every process, whatever the ring buffer of events lost, and the losses are counted."""
    storm = start_workload("many_forks", "--forks=16000", "--rate=8000", "--kill", "--wait", "--linger")
    storm.await_line("role", "ready")
    recording = start_recording(storm.pid)
    recording.await_sample()
    stall(recording)
    storm.go()
    storm.await_line("role", "storm", seconds=60)
    recording.send(signal.SIGCONT)
    storm.finish()
    assert recording.wait(90 * usage.crowding()) == 0, recording.stderr
    report = recording.report(healthy=False)
    dropped = report["losses"]["events_dropped"]
    assert dropped > 0 and listed(report) == 16000
    assert report["losses"]["processes_dropped"] == 0
    figure("cowprof stalls", "cowprof stopped while 16000 processes are forked and killed",
           f"{dropped} events dropped and counted; 16000 of 16000 forks and ends have rows")


def pages_told(document):
    """Number of pages in the map of pages, whose last column alternates lengths of runs and gaps."""
    return sum(sum(row[3][::2]) for record in document["records"] for row in record.get("pages", []))


def test_two_seconds_without_cowprof_under_a_flood_of_copies(stall, start_workload, start_recording, figure):
    crowd = start_workload("worker_crowd", "--workers=6", "--pages=95000")
    crowd.await_line("role", "ready")
    recording = start_recording(crowd.pid)
    recording.await_sample()
    stall(recording)
    crowd.go()
    crowd.await_line("role", "copied", seconds=120)
    recording.send(signal.SIGCONT)
    crowd.finish()
    assert recording.wait(90 * usage.crowding()) == 0, recording.stderr
    report = recording.report(healthy=False)
    produced, dropped = report["totals"]["copies"], report["losses"]["pages_dropped"]
    delivered = pages_told(recording.timeline())
    figure("cowprof stalls", "cowprof stopped while 570,000 pages are copied",
           f"produced {produced} = delivered {delivered} + dropped {dropped}")
    assert dropped > 0 and produced == delivered + dropped


# ---- Two recorders, and the end ----

def test_two_recordings_of_one_crowd(start_workload, start_recording, figure):
    workload = start_workload("fork_copies", "--children=3", "--pages=3000", "--wait")
    workload.await_line("role", "ready")
    recordings = [start_recording(workload.pid) for _ in range(2)]
    for recording in recordings:
        recording.await_sample()
    workload.go()
    lines = workload.finish()
    for recording in recordings:
        assert recording.wait() == 0, recording.stderr
        assert_counts(recording.report(), lines)
    figure("two recorders", "two cowprofs on one target", "both exact")


def test_sigint_and_a_second_one(start_workload, start_recording, figure):
    crowd = start_workload("worker_crowd", "--workers=64", "--pages=500")
    crowd.await_line("role", "ready")
    ends, seconds = [], []
    for both in (False, True, True, True):
        recording = start_recording(crowd.pid, "--interval", "200ms")
        recording.await_sample()
        recording.send(signal.SIGINT)
        began = time.monotonic()
        if both:
            time.sleep(0.01)
            recording.send(signal.SIGINT)
            began = time.monotonic()
        recording.wait()
        (seconds if both else ends).append(time.monotonic() - began)
        recording.report(healthy=False)
    figure("SIGINT", "SIGINT with 64 workers", f"the report is on disk after {ends[0]:.2f} s; a second one ends it after {min(seconds):.2f} s")
    assert ends[0] <= 2.0 * usage.crowding() and min(seconds) <= 0.2 * usage.crowding()
