"""Very many processes: a thousand forks a second, 512 workers at once, one pid for a thousand of them, exits during a read, chains of
exec. No process is lost or mistaken for another, and cowprof stays small.
"""
import json
import shutil
import signal
import subprocess
import time

import pytest

import harness
import truth
import usage
from harness import rows_of

RATE = 1000  # forks a second; a million an hour would be 278
MOST_TICK = 16 * usage.MIB  # extra memory that the exits of one tick may take
OWN_COPIES = 40  # stack and libc pages of a short-lived child


def listed(report):
    """Number of processes besides the target: those with a row and those only in the sum."""
    return len(report["workers"]) + (report["unlisted"]["processes"] if report["unlisted"] else 0)


def copies_of(report):
    rows = sum(row["copies"] for row in report["workers"])
    return rows + (report["unlisted"]["copies"] if report["unlisted"] else 0)


def watch_storm(recording, storm):
    """cowprof's resident bytes over time while the storm lasts, and its share of a core."""
    resident, meter = [], usage.Meter(recording.pid)
    while not any(line.get("role") == "storm" for line in storm.lines):
        resident.append(usage.resident_bytes(recording.pid))
        share = meter.share()
        time.sleep(0.25)
    return resident, share


@pytest.mark.parametrize("seconds", [3, pytest.param(60, marks=pytest.mark.slow), pytest.param(300, marks=pytest.mark.slow)])
def test_a_thousand_forks_a_second(seconds, start_workload, start_recording, figure):
    storm = start_workload("many_forks", f"--forks={seconds * RATE}", f"--rate={RATE}", "--wait", "--linger")
    storm.await_line("role", "ready")
    recording = start_recording(storm.pid, "--quiet")
    recording.await_sample()
    storm.go()
    resident, share = watch_storm(recording, storm)
    (told,) = [line for line in storm.finish() if line.get("role") == "storm"]
    assert recording.wait(30 * usage.crowding()) == 0, recording.stderr
    document, report = recording.timeline(), recording.report(seconds=30 * usage.crowding())
    ends = sum(record.get("event") == "exit" for record in document["records"])
    assert told["forks"] == told["ended"] == listed(report) == ends - 1
    assert 2 * told["forks"] <= copies_of(report) <= (2 + OWN_COPIES) * told["forks"]
    assert not recording.stderr
    half = len(resident) // 2
    won = max(resident[half:]) - max(resident[:half])
    figure("fork rate", f"{told['forks']} forks at {told['forks'] / told['seconds']:.0f} a second",
           f"0 of {told['forks']} forks and ends lost; {100 * share:.1f} % of a core; resident at most "
           f"{max(resident) / usage.MIB:.0f} MiB, second half of the storm {won / usage.MIB:+.1f} MiB over the first; "
           f"{recording.path.stat().st_size / told['forks']:.0f} bytes of file a process")
    assert max(resident) < resident[0] + 2 * MOST_TICK
    assert won < MOST_TICK


@pytest.mark.parametrize("forks", [1000, pytest.param(30000, marks=pytest.mark.slow)])
def test_children_that_exec_leave_nothing_behind(forks, start_workload, start_recording, figure):
    storm = start_workload("many_forks", f"--forks={forks}", "--rate=300", "--exec", "--wait", "--linger")
    storm.await_line("role", "ready")
    recording = start_recording(storm.pid)
    recording.await_sample()
    storm.go()
    resident, share = watch_storm(recording, storm)
    (told,) = [line for line in storm.finish() if line.get("role") == "storm"]
    assert recording.wait() == 0, recording.stderr
    assert listed(recording.report()) == told["forks"]
    half = len(resident) // 2
    won = max(resident[half:]) - max(resident[:half])
    figure("fork rate", f"{told['forks']} forks that exec", f"all recorded; {100 * share:.1f} % of a core; resident at most "
           f"{max(resident) / usage.MIB:.0f} MiB, second half of the storm {won / usage.MIB:+.1f} MiB over the first")
    assert won < MOST_TICK


def attach_to_crowd(workers, start_workload, start_recording):
    """Returns the crowd, a recording that has its first sample, and the seconds until then."""
    crowd = start_workload("worker_crowd", f"--workers={workers}")
    crowd.await_line("role", "ready", seconds=60)
    began = time.monotonic()
    recording = start_recording(crowd.pid, "--interval", "500ms")
    recording.await_sample()
    return crowd, recording, time.monotonic() - began


@pytest.mark.parametrize("workers", [64, 256, 512])
def test_many_workers_at_once(workers, start_workload, start_recording, figure):
    crowd, recording, attach_seconds = attach_to_crowd(workers, start_workload, start_recording)
    crowd.go()
    planted = crowd.await_line("role", "copied", seconds=60)["planted_copies"]
    seen = harness.end_of(recording.path)
    harness.wait_until(lambda: harness.end_of(recording.path) > seen + 1, "two more samples", pause=0.1)
    resident, maps = usage.resident_bytes(recording.pid), usage.map_bytes(recording.pid)
    began = time.monotonic()
    recording.send(signal.SIGINT)
    assert recording.wait() == 0, recording.stderr
    detach_seconds = time.monotonic() - began
    report = recording.report()
    assert len(report["workers"]) == workers
    for row in report["workers"]:
        assert planted - 8 <= row["copies"] <= planted + OWN_COPIES, row["pid"]  # the kernel batches up to 7 per living thread
    figure("many workers", f"{workers} workers at once",
           f"first sample after {attach_seconds:.2f} s, detached in {detach_seconds:.2f} s; {workers} of {workers} counts right; "
           f"resident {resident / usage.MIB:.0f} MiB, BPF maps {maps / usage.MIB:.0f} MiB")
    assert attach_seconds < 5 * usage.crowding() and detach_seconds < 2 * usage.crowding()
    crowd.finish()


@pytest.mark.parametrize("reuses", [1000])
def test_one_pid_for_a_thousand_processes(reuses, start_workload, start_recording, figure):
    """Each has its own copies and exit code, and no row has another's. The probes filter by the low bits of pids: the parent, which has
    the same low bits, is still counted when all others are gone, and faults of unrelated processes are rejected there."""
    workload = start_workload("pid_reuse", f"--reuses={reuses}", "--touches=20000", "--wait", "--linger")
    workload.await_line("role", "ready")
    recording = start_recording(workload.pid, "--interval", "20ms")
    recording.await_sample()
    workload.go()
    reused = workload.await_line("role", "reused", seconds=60)["reuses"]
    alone = [int(slot == workload.pid % 4096) for slot in range(4096)]
    harness.wait_until(lambda: truth.probe_variables(recording.pid)["followed"] == alone, "the parent to be alone", pause=0.1)
    lines = workload.finish()
    assert workload.popen.returncode == 0
    assert recording.wait() == 0, recording.stderr
    report = recording.report()
    assert 20_000 <= report["parent"]["zero_fills"] < 20_000 + 100
    children = [line for line in lines if line.get("role") == "child"]
    rows = sorted(report["workers"], key=lambda row: row["started_at"])
    assert reused >= reuses and len(rows) == len(children)
    wrong = [row for row, child in zip(rows, children)
             if (row["pid"], row["exit"]["code"]) != (child["pid"], child["exit_code"])
             or not child["planted_copies"] <= row["copies"] <= child["planted_copies"] + OWN_COPIES]
    figure("reused pids", f"{reused} forced reuses of a pid", f"{len(wrong)} of {len(rows)} misattributed")
    assert not wrong, wrong[:3]


def test_a_pid_namespace_with_a_hundred_pids(start_recording, figure):
    """cowprof runs outside; inside, pids wrap around every hundred forks."""
    script = 'echo 400 > /proc/sys/kernel/pid_max && exec "$@"'
    command = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child", "sh", "-c", script, "sh",
               harness.WORKLOADS / "many_forks", "--forks=2000", "--rate=500", "--wait", "--linger"]
    outside = harness.Process(command)
    try:
        outside.await_line("role", "ready")
        recording = start_recording(outside.pid)
        recording.await_sample()
        outside.go()
        outside.await_line("role", "storm", seconds=60)
        outside.finish()
        assert recording.wait() == 0, recording.stderr
    finally:
        outside.stop()
    report = recording.report()
    assert listed(report) == 2000 + 1  # the first is unshare's child
    figure("reused pids", "2000 forks in a pid namespace with pid_max 400", f"{listed(report) - 1} of 2000 recorded")


@pytest.mark.parametrize("forks", [10_000])
def test_short_lived_children_during_reads(forks, start_workload, start_recording, figure):
    """Every kind of read, as often as possible, of processes that exit within a millisecond."""
    storm = start_workload("many_forks", f"--forks={forks}", "--rate=1500", "--pages=8", "--wait", "--linger")
    storm.await_line("role", "ready")
    recording = start_recording(storm.pid, "--quiet", "--interval", "20ms", "--verify")
    recording.await_sample()
    storm.go()
    storm.await_line("role", "storm", seconds=120)
    storm.finish()
    assert recording.wait(60 * usage.crowding()) == 0, recording.stderr
    # A loaded machine may keep cowprof from running for a second. Then names are lost, and counted, but never a process.
    report = recording.report(healthy=False, seconds=30 * usage.crowding())
    assert recording.stderr == "" and listed(report) == forks
    assert report["losses"]["unreadable"] == report["losses"]["processes_dropped"] == 0
    assert report["totals"]["copies"] >= 8 * forks
    figure("short lives", f"{forks} short-lived children during reads", "0 crashes, 0 lines of error, 0 reads lost")


PYTHON_STORM = """
import os, sys
data = [str(i) for i in range(50_000)]
print('{"role": "ready"}', flush=True)
sys.stdin.readline()
for i in range(int(sys.argv[1])):
    pid = os.fork()
    if not pid:
        for one in data[:: 50 + i % 50]:
            one
        os._exit(0)
    os.waitpid(pid, 0)
"""


def test_short_lived_python_children_during_reads(start_recording, figure):
    """Their copies have names, which are read from memory that vanishes meanwhile."""
    storm = harness.Process([harness.PYTHON, "-c", PYTHON_STORM, "300"])
    try:
        storm.await_line("role", "ready")
        recording = start_recording(storm.pid, "--quiet", "--interval", "20ms")
        recording.await_sample()
        storm.go()
        storm.finish(60 * usage.crowding())
        assert recording.wait(60 * usage.crowding()) == 0, recording.stderr
    finally:
        storm.stop()
    report = recording.report()
    assert recording.stderr == "" and listed(report) == 300
    causes = report["totals"]["by_cause"]
    assert sum(causes.values()) == report["totals"]["copies"] and causes["refcount"] > 0.5 * report["totals"]["copies"]
    figure("short lives", "300 short-lived children of Python during reads", "0 crashes, 0 lines of error, causes sum to copies")


def test_a_setuid_program_is_followed(open_folder, start_recording, figure):
    """A target run by nobody execs a setuid program: another user, not dumpable, another image."""
    shutil.copy(harness.WORKLOADS / "fork_copies", open_folder / "privileged")
    (open_folder / "privileged").chmod(0o4755)
    script = f'echo "{{\\"role\\":\\"ready\\"}}"; read line; {open_folder}/privileged --pages=5000; exit 0'
    target = harness.Process([*harness.TO_NOBODY, "sh", "-c", script])
    try:
        target.await_line("role", "ready")
        recording = start_recording(target.pid)
        recording.await_sample()
        target.go()
        lines = target.finish()
        assert recording.wait() == 0, recording.stderr
    finally:
        target.stop()
    (child,) = [line for line in lines if line["role"] == "child"]
    (row,) = rows_of(recording.report(), child["pid"])
    assert child["planted_copies"] <= row["copies"] <= child["planted_copies"] + OWN_COPIES
    figure("exec", "a target that runs a setuid program", f"{row['copies']} copies counted, {child['planted_copies']} planted")


def test_a_target_that_execs_again_and_again(start_recording, figure):
    script = 'i=$1; [ "$i" -le 0 ] && exit 7; exec "$0" -c "$2" "$0" $((i - 1)) "$2"'
    target = subprocess.Popen(["sh", "-c", 'read line; exec sh -c "$0" sh 400 "$0"', script], stdin=subprocess.PIPE)
    try:
        recording = start_recording(target.pid, "--interval", "50ms")
        recording.await_sample()
        target.stdin.write(b"\n")
        target.stdin.close()
        assert target.wait(60) == 7
        assert recording.wait() == 0, recording.stderr
    finally:
        target.kill()
    report = recording.report()
    assert report["parent"]["exit"]["code"] == 7 and report["workers"] == []
    execs = sum(record.get("event") == "exec" for record in recording.timeline()["records"])
    assert execs == 401
    figure("exec", "a target that execs 401 times", f"{execs} recorded, one row")


@pytest.mark.slow
def test_private_memory_where_the_table_of_regions_is_full(tmp_path):
    """A region that found no room is not swept alone: such workers are swept in full, or a quarter of their memory would be known."""
    path = tmp_path / "r.json"
    command = [harness.PYTHON, harness.REPOSITORY / "tests" / "system" / "workloads" / "scattered_copies.py", 24]
    done = harness.run_cowprof("--quiet", "--output", path, "--", *command, seconds=120)
    assert done.returncode == 0, done.stderr
    report = harness.report_of(path)
    assert report["losses"]["regions_dropped"] > 0
    truths = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(truths) == 24
    for line in truths:
        assert harness.row_of(report, line["pid"])["private_bytes"] == pytest.approx(line["private_bytes"], rel=0.03), line
