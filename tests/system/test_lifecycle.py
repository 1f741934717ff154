"""How a recording ends: with the target, by a signal, after --duration, or by kill -9 at any moment. The file is complete JSON, the
target is untouched, and nothing stays behind in the kernel.
"""
import json
import random
import re
import signal
import statistics
import threading
import time
from pathlib import Path

import pytest

import harness
import truth
from counting import assert_counts

SIGNALS = [signal.SIGINT, signal.SIGTERM]


class Watch:
    """Polls the state of a process, to show that it was never stopped or traced."""

    def __init__(self, pid):
        self.pid = pid
        self.states = set()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def _look(self):
        while not self._over.wait(0.0005):
            self.states.add(truth.state(self.pid))

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self._thread.join()


def assert_nothing_left(objects):
    harness.wait_until(lambda: not objects & truth.living_kernel_objects(), "programs, maps and links to be freed", 5, 0.05)


@pytest.fixture
def tree(start_workload):
    """A process tree that forks and copies until told to stop, and whose processes all end as planted."""
    process = start_workload("attach_tree", "--branches=1")
    process.await_line("role", "leaf")
    yield process
    lines = process.finish()
    assert process.popen.returncode == 0
    assert lines[-1]["role"] == "tree" and lines[-1]["bad_endings"] == 0


@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_a_signal_finishes_the_file(number, tree, start_recording):
    recording = start_recording(tree.pid)
    recording.await_sample()
    objects = truth.kernel_objects(recording.pid)
    assert {kind for kind, _ in objects} >= {"prog", "map"}
    sent = time.monotonic()
    recording.send(number)
    assert recording.wait() == 0, recording.stderr
    assert time.monotonic() - sent <= 2.0
    assert recording.timeline()["records"][-1]["type"] == "end"
    assert recording.report()["samples"] >= 1
    assert_nothing_left(objects)


def test_a_second_sigint_ends_at_once(tree, start_recording):
    recording = start_recording(tree.pid)
    recording.await_sample()
    recording.send(signal.SIGINT)
    sent = time.monotonic()
    recording.send(signal.SIGINT)
    recording.wait()
    assert time.monotonic() - sent <= 1.0
    recording.report(healthy=False)


def test_a_running_recording_can_be_reported(tree, start_recording):
    recording = start_recording(tree.pid, "--interval", "50ms")
    recording.await_sample()
    first = recording.report()
    harness.wait_until(lambda: recording.report()["samples"] > first["samples"] + 3, "more samples")
    recording.interrupt()


def test_duration(tree, start_recording):
    recording = start_recording(tree.pid, "--duration", "1500ms", "--interval", "250ms")
    assert recording.wait() == 0, recording.stderr
    report = recording.report()
    assert 1.4 <= report["duration_seconds"] <= 2.2
    assert report["samples"] >= 5
    assert report["parent"]["exit"] is None, "the target ended"


def test_the_end_of_the_target_ends_the_recording(start_workload, start_recording):
    workload = start_workload("fork_copies", "--pages=100", "--wait")
    workload.await_line("role", "ready")
    recording = start_recording(workload.pid)
    recording.await_sample()
    workload.go()
    workload.finish()
    ended = time.monotonic()
    assert recording.wait() == 0, recording.stderr
    assert time.monotonic() - ended <= 2.0
    assert recording.report()["parent"]["exit"]["code"] == 0


def test_a_recording_that_nohup_started_outlives_the_logout(tree, start_recording):
    recording = start_recording(tree.pid, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
    recording.await_sample()
    recording.send(signal.SIGHUP)
    samples = len(recording.timeline()["records"])
    harness.wait_until(lambda: len(recording.timeline()["records"]) > samples + 3, "the recording to continue")
    recording.interrupt()


@pytest.mark.parametrize("reaped", [False, True], ids=["zombie", "reaped"])
def test_a_target_that_ends_during_the_attach(reaped, start_workload, start_recording):
    """Whenever the target exits during the attach, cowprof ends with a recording or with "no such process"."""
    for delay_ms in range(0, 100, 5):
        workload = start_workload("fork_copies", "--pages=10", "--wait")
        workload.await_line("role", "ready")
        recording = start_recording(workload.pid, "--quiet")
        time.sleep(delay_ms / 1000)  # the attach signals no event to wait for
        workload.go()
        if reaped:
            workload.finish()
        status = recording.wait(5)
        assert status in (0, 4) and len(recording.stderr.splitlines()) == (status == 4), recording.stderr


def test_records_are_in_time_order(tree, start_recording):
    recording = start_recording(tree.pid, "--interval=20ms", "--duration=1s")
    assert recording.wait() == 0, recording.stderr
    times = [record["t"] for record in recording.timeline()["records"]]
    assert [(earlier, later) for earlier, later in zip(times, times[1:]) if earlier > later] == []


def test_samples_are_an_interval_apart(tree, start_recording):
    recording = start_recording(tree.pid, "--interval=100ms", "--duration=2s")
    assert recording.wait() == 0, recording.stderr
    samples = [record["t"] for record in recording.timeline()["records"] if record["type"] == "sample"]
    # To attach may take half of the time. A process that is new, and the end, have samples between.
    gaps = [later - earlier for earlier, later in zip(samples, samples[1:])]
    assert len(gaps) >= 8 and 0.09 <= statistics.median(gaps) <= 0.125, gaps
    assert min(gaps) > 0, "time must increase"


def kill_at_random(recording, rng):
    """Kills cowprof at a random moment after it created its file. Returns its age then and the kernel objects that it held."""
    harness.wait_until(recording.path.exists, "the file", pause=0.001)
    born = time.monotonic()
    time.sleep(rng.uniform(0.0, 0.5))  # at a random moment
    objects = truth.kernel_objects(recording.pid)
    recording.popen.kill()
    age = time.monotonic() - born
    recording.popen.communicate()
    return age, objects


@pytest.mark.parametrize("times", [6, pytest.param(100, marks=pytest.mark.slow)])
def test_killed_at_any_moment_leaves_a_valid_file(times, tree, start_recording, figure):
    """After kill -9 the file is valid JSON, report opens it, the target runs on, and the kernel holds nothing of cowprof."""
    rng = random.Random(2)
    opened, objects = 0, set()
    with Watch(tree.pid) as watch:
        for _ in range(times):
            recording = start_recording(tree.pid, "--interval", "50ms")
            age, held = kill_at_random(recording, rng)
            objects |= held
            records = json.loads(recording.path.read_text())["records"]
            assert not records or records[-1]["t"] >= age - 1.0, "more than a second was lost"
            recording.report(healthy=False)
            opened += 1
    assert objects
    assert not watch.states & {"T", "t", "Z", None}, watch.states
    forks = len(tree.lines)
    harness.wait_until(lambda: len(tree.lines) > forks + 5, "the target to continue")
    assert_nothing_left(objects)
    figure("kill -9", f"kill -9 of cowprof at {times} random moments",
           f"{opened} of {times} files open, ≤ 1 s lost, target in states {'/'.join(sorted(watch.states))}, "
           f"0 of {len(objects)} programs, maps and links left")


def test_two_recordings_of_one_target_agree(start_workload, start_recording):
    workload = start_workload("fork_copies", "--wait")
    workload.await_line("role", "ready")
    recordings = [start_recording(workload.pid), start_recording(workload.pid)]
    for recording in recordings:
        recording.await_sample()
    workload.go()
    lines = workload.finish()
    for recording in recordings:
        assert recording.wait() == 0, recording.stderr
        assert_counts(recording.report(), lines)


def voluntary_switches(pid):
    return sum(int(re.search(r"\nvoluntary_ctxt_switches:\s+(\d+)", (task / "status").read_text())[1])
               for one in truth.tree(pid) for task in Path(f"/proc/{one}/task").iterdir())


def test_it_hardly_wakes_beside_workers_that_were_forked_before(start_recording):
    """Each wake displaces a thread of the training. Its child that judges start methods once woke 244 times a second here."""
    target = harness.Process([harness.PYTHON, harness.REPOSITORY / "tests" / "system" / "workloads" / "steady_readers.py", "4"])
    try:
        target.await_line("event", "ready")
        recording = start_recording(target.pid)
        time.sleep(3)  # the start: first looks at everything
        before = voluntary_switches(recording.popen.pid)
        time.sleep(5)
        wakes = (voluntary_switches(recording.popen.pid) - before) / 5
    finally:
        target.stop()
    assert 1 <= wakes < 60, wakes
