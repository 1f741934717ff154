"""How a recording ends: by the target, a signal, the clock, or kill -9 at any moment. The file is whole, the target untouched,
and nothing stays behind in the kernel.
"""
import json
import random
import signal
import threading
import time

import pytest

import harness
import truth
from counting import assert_counts

SIGNALS = [signal.SIGINT, signal.SIGTERM]


class Watch:
    """Looks at a process all the time: was it ever stopped or traced?"""

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
    harness.wait_until(lambda: not objects & truth.living_kernel_objects(), "programs, maps and links to go", 5, 0.05)


@pytest.fixture
def tree(start_workload):
    """A tree that forks and copies until it is told to stop."""
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
    assert time.monotonic() - sent <= 2.0
    recording.report(healthy=False)


def test_duration(tree, start_recording):
    recording = start_recording(tree.pid, "--duration", "1500ms", "--interval", "250ms")
    assert recording.wait() == 0, recording.stderr
    report = recording.report()
    assert 1.4 <= report["duration_seconds"] <= 2.2
    assert report["samples"] >= 5
    assert report["parent"]["exit"] is None, "the target still runs"


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


def test_time_and_interval(tree, start_recording):
    """Records are in the order of time, and samples about as far apart as was asked for."""
    recording = start_recording(tree.pid, "--interval=100ms", "--duration=1s")
    assert recording.wait() == 0, recording.stderr
    times = [record["t"] for record in recording.timeline()["records"]]
    assert times == sorted(times)
    samples = [record["t"] for record in recording.timeline()["records"] if record["type"] == "sample"]
    assert len(samples) >= 8
    assert all(later > earlier for earlier, later in zip(samples, samples[1:]))


def kill_at_random(recording, rng):
    """Kills cowprof somewhere in its life. Returns how old it got, and the kernel objects it held just before."""
    born = time.monotonic()
    time.sleep(rng.uniform(0.0, 0.5))  # the random moment: there is no event to wait for
    objects = truth.kernel_objects(recording.pid)
    recording.popen.kill()
    age = time.monotonic() - born
    recording.popen.communicate()
    return age, objects


def test_killed_at_any_moment_leaves_a_valid_file(tree, start_recording):
    """100 times kill -9: the file is whole JSON, the report opens it, the target runs on, the kernel is clean."""
    rng = random.Random(2)
    opened, objects = 0, set()
    with Watch(tree.pid) as watch:
        for _ in range(100):
            recording = start_recording(tree.pid, "--interval", "50ms")
            age, held = kill_at_random(recording, rng)
            objects |= held
            if recording.path.exists():
                records = json.loads(recording.path.read_text())["records"]
                assert not records or records[-1]["t"] >= age - 1.0, "more than a second was lost"
                opened += 1
                if opened % 10 == 1:
                    recording.report(healthy=False)
    assert opened >= 50, "the kills came too early to prove anything"
    assert objects
    assert not watch.states & {"T", "t", "Z", None}, watch.states
    forks = len(tree.lines)
    harness.wait_until(lambda: len(tree.lines) > forks + 5, "the target to go on")
    assert_nothing_left(objects)


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
