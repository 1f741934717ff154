"""Targets that do not run or are enormous: stopped, frozen, in uninterruptible sleep, with 100,000 mappings or 200 GB of reserved
addresses. cowprof records them, ends when told to, and leaves them exactly as it found them.
"""
import contextlib
import os
import signal
import time
from pathlib import Path

import pytest

import harness
import truth
import usage
from conftest import needs

FREEZER = Path("/sys/fs/cgroup/freezer")
MAPPINGS = Path("/proc/sys/vm/max_map_count")
ROOM = 262144
OWN_COPIES = 60


def record_unmoved(pid, state, start_recording):
    """Records a target that can't run until SIGINT. Returns the seconds to the first sample and from SIGINT to the end."""
    assert truth.state(pid) == state
    began = time.monotonic()
    recording = start_recording(pid, "--interval", "100ms")
    recording.await_sample()
    attached = time.monotonic() - began
    harness.wait_until(lambda: harness.end_of(recording.path) > 0.8, "samples", pause=0.05)
    assert truth.state(pid) == state
    began = time.monotonic()
    recording.send(signal.SIGINT)
    assert recording.wait() == 0, recording.stderr
    ended = time.monotonic() - began
    assert truth.state(pid) == state, "the target was left in another state"
    assert recording.report()["samples"] >= 2
    return attached, ended


def note(figure, hazard, attached, ended):
    figure("immobile target", hazard, f"first sample after {attached:.2f} s, report {ended:.2f} s after SIGINT, state unchanged")
    assert ended <= 2.0 * usage.crowding()


def stop_tree(pid, stopped):
    """Stops parents before their children, so that nothing is reaped meanwhile. Appends the pids to `stopped`."""
    os.kill(pid, signal.SIGSTOP)
    stopped.append(pid)
    harness.wait_until(lambda: truth.state(pid) in "TZ", "it to stop")
    for child in truth.children(pid):
        stop_tree(child, stopped)


def test_a_stopped_target(start_workload, start_recording, figure):
    tree = start_workload("attach_tree", "--branches=1")
    tree.await_line("role", "leaf")
    pids = []
    try:
        stop_tree(tree.pid, pids)
        note(figure, "a target stopped by SIGSTOP", *record_unmoved(tree.pid, "T", start_recording))
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
    assert tree.finish()[-1]["bad_endings"] == 0


def test_a_target_in_uninterruptible_sleep(start_workload, start_recording, figure):
    workload = start_workload("waiting_vfork")
    harness.wait_until(lambda: truth.state(workload.pid) == "D", "it to fall asleep")
    note(figure, "a target in uninterruptible sleep (state D)", *record_unmoved(workload.pid, "D", start_recording))
    assert workload.finish()[-1]["role"] == "woke"


@pytest.fixture
def freezer():
    """freeze(pid) freezes a process with the v1 freezer cgroup; everything is thawed at the end."""
    folder = FREEZER / f"cowprof-test-{os.getpid()}"
    needs("freezer", os.access(FREEZER, os.W_OK), "there is no v1 freezer cgroup")
    folder.mkdir()

    def freeze(pid):
        (folder / "cgroup.procs").write_text(str(pid))
        (folder / "freezer.state").write_text("FROZEN")
        harness.wait_until(lambda: (folder / "freezer.state").read_text().strip() == "FROZEN", "the cgroup to be frozen")

    yield freeze
    (folder / "freezer.state").write_text("THAWED")  # before the workload is awaited, because a frozen one can't end
    for pid in (folder / "cgroup.procs").read_text().split():
        (FREEZER / "cgroup.procs").write_text(pid)
    harness.wait_until(lambda: not (folder / "cgroup.procs").read_text(), "the cgroup to be empty")
    folder.rmdir()


def test_a_frozen_target(start_workload, freezer, start_recording, figure):
    workload = start_workload("fork_copies", "--pages=10", "--wait")
    workload.await_line("role", "ready")
    freezer(workload.pid)
    note(figure, "a target in a frozen cgroup", *record_unmoved(workload.pid, "D", start_recording))


# ---- Enormous targets ----

def next_round(worker):
    seen = len(worker.lines)
    worker.go()
    harness.wait_until(lambda: len(worker.lines) > seen, "a round to end", seconds=60)
    return worker.lines[-1]


def latencies(worker, pid, start_recording, rounds=2):
    """Alternates rounds of mmap+munmap without and with cowprof. Returns both lists and cowprof's largest share of a core."""
    bare, watched, shares = [], [], []
    next_round(worker)  # warms up
    for _ in range(rounds):
        bare.append(next_round(worker))
        recording = start_recording(pid)
        recording.await_sample(30 * usage.crowding())
        meter = usage.Meter(recording.pid)
        watched.append(next_round(worker))
        shares.append(meter.share())
        recording.interrupt()
    return bare, watched, max(shares)


def quantiles(rounds):
    return ", ".join(f"{name.replace('_', '.')} {min(one[name] for one in rounds):.1f}" for name in ("p50", "p99", "p99_9", "worst"))


CROWDS = {"100,000 mappings, in parent and worker": ["--mappings=100000"],
          "200 GB reserved twice, without and with rights": ["--mappings=10", "--gib=200"]}


@pytest.fixture
def room_for_mappings():
    """Raises the limit on mappings per process (65,530 by default), and restores it after the workload has ended."""
    before = MAPPINGS.read_text()
    with contextlib.ExitStack() as cleanup:
        if int(before) < ROOM:
            needs("mappings", os.access(MAPPINGS, os.W_OK), f"{MAPPINGS} can't be raised")
            MAPPINGS.write_text(str(ROOM))
            cleanup.callback(MAPPINGS.write_text, before)
        yield


@pytest.mark.usefixtures("room_for_mappings")
@pytest.mark.parametrize("hazard", CROWDS)
def test_an_enormous_address_space(hazard, start_workload, start_recording, figure):
    worker = start_workload("mapping_crowd", "--seconds=3", *CROWDS[hazard])
    told = worker.await_line("role", "ready", seconds=60)
    bare, watched, share = latencies(worker, told["parent"], start_recording)
    figure("mmap latency", hazard, f"mmap+munmap in µs, bare: {quantiles(bare)}; recorded: {quantiles(watched)}; "
                                 f"cowprof took {100 * share:.0f} % of a core")
    assert min(one["p50"] for one in watched) < 2 * min(one["p50"] for one in bare)
    assert min(one["p99"] for one in watched) < min(one["p99"] for one in bare) + 300 * usage.crowding()


@pytest.mark.usefixtures("room_for_mappings")
@pytest.mark.parametrize("hazard", CROWDS)
def test_an_enormous_address_space_is_counted(hazard, start_workload, start_recording, figure):
    worker = start_workload("mapping_crowd", "--seconds=1", "--pages=3000", *CROWDS[hazard])
    told = worker.await_line("role", "ready", seconds=60)
    began = time.monotonic()
    recording = start_recording(told["parent"])
    recording.await_sample(30 * usage.crowding())
    attached = time.monotonic() - began
    next_round(worker)
    began = time.monotonic()
    recording.interrupt()
    ended = time.monotonic() - began
    row = harness.row_of(recording.report(), told["pid"])
    figure("large target", hazard, f"{row['copies']} copies counted, 3000 planted; first sample after {attached:.2f} s, "
                             f"report {ended:.2f} s after SIGINT")
    assert 3000 - 8 <= row["copies"] <= 3000 + OWN_COPIES
    assert ended <= 2.0 * usage.crowding()
