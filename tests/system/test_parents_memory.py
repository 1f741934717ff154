"""The private memory of a parent follows what its children copy: at every tick within 3 % of smaps_rollup, which only the test reads.

Where the parent rests, 1 MiB more is allowed: what was copied before the last look at its page map (one page in 400 at most) and
pages of files. Where its children copy meanwhile, what they copied between the tick and the test's own look is allowed as well.
"""
import bisect
import json
import time

import pytest

import harness
import truth

MIB = 1 << 20
SLACK = 1 * MIB
WORKLOAD = harness.REPOSITORY / "tests" / "system" / "workloads" / "shared_by_children.py"


class Family:
    def __init__(self, megabytes, order):
        self.process = harness.Process([harness.PYTHON, WORKLOAD, megabytes, order])
        self.process.await_line("event", "ready")
        self.steps = 0

    def step(self, words):
        """Tells the parent to do something; returns the pids of its children."""
        self.process.popen.stdin.write(f"{words}\n")
        self.process.popen.stdin.flush()
        said = self.process.await_line("number", self.steps)
        self.steps += 1
        return said["pids"]


@pytest.fixture
def family():
    started = []

    def start(*arguments):
        started.append(Family(*arguments))
        return started[-1]

    yield start
    for one in started:
        one.process.stop()


def private_said(path, pid):
    """What a replay of the recording, as far as it goes, says now."""
    result = harness.run_cowprof("report", path, "--json")
    assert result.returncode == 0, result.stderr
    return harness.row_of(json.loads(result.stdout), pid)["private_bytes"]


def said_at_ticks(path, pid):
    """(begin, end, private bytes) that replays of the recording up to each sample say, as of a CLOCK_BOOTTIME between the two: a sample
    begins with the counters, and ends with the last look at a page map."""
    document = json.loads(path.read_text())
    target, records = document["header"]["target"], document["records"]
    start, end = target["start_ns"] / 1e9 + target["age_seconds"], document["header"]["columns"]["sweeps"].index("end")
    part = path.with_suffix(".part")
    for number, record in enumerate(records, 1):
        if record["type"] == "sample":
            part.write_text(json.dumps({**document, "records": records[:number]}))
            last = max([record["t"], *(sweep[end] for sweep in record.get("sweeps", ()))])
            yield start + record["t"], start + last, private_said(part, pid)


def rest(recording, ticks=2):
    """Waits for whole ticks."""
    seen = len(harness.records_of(recording.path))
    samples = lambda: sum(one["type"] == "sample" for one in harness.records_of(recording.path)[seen:])  # noqa: E731
    harness.wait_until(lambda: samples() > ticks, "samples", pause=0.02)


STEPS = ["fork 3", "copy 0.1", "copy 0.2", "own 0.1", "copy 0.3", "grow 8", "end", "copy 0.2", "fork 1", "copy 0.1", "end", "end",
         "end"]


@pytest.mark.parametrize("order", ["same", "random"])
def test_it_is_right_after_each_step(family, order, tmp_path):
    one = family(64, order)
    recording = harness.attach(one.process.pid, tmp_path / "run.json", "--interval=200ms")
    try:
        recording.await_sample()
        rest(recording)
        wrong = []
        for words in STEPS:
            one.step(words)
            rest(recording)
            said, true = private_said(recording.path, one.process.pid), truth.private_bytes(one.process.pid)
            if abs(said - true) > 0.03 * true + SLACK:
                wrong.append(f"after {words!r}: {said / MIB:.1f} MiB said, {true / MIB:.1f} MiB are true")
        assert not wrong, "\n".join(wrong)
        recording.interrupt()
        assert abs(harness.row_of(recording.report(), one.process.pid)["private_bytes"] - true) <= 0.03 * true + SLACK
    finally:
        recording.stop()


def test_it_is_right_at_each_tick(family, tmp_path):
    """The children copy an eighth of the parent's memory a second, the page at one child a little before it is at the other."""
    one = family(96, "same")
    recording = harness.attach(one.process.pid, tmp_path / "run.json", "--interval=500ms")
    try:
        recording.await_sample()
        one.step("fork 2")
        one.step("pace 0.125")
        looks = []  # (time, private)
        began = time.clock_gettime(time.CLOCK_BOOTTIME)
        while time.clock_gettime(time.CLOCK_BOOTTIME) < began + 9:
            looks.append((time.clock_gettime(time.CLOCK_BOOTTIME), truth.private_bytes(one.process.pid)))
            time.sleep(0.02)
        recording.interrupt()
        recording.report()
    finally:
        recording.stop()
    wrong = []
    for begin, end, said in said_at_ticks(recording.path, one.process.pid):
        first, last = bisect.bisect(looks, (begin, 0)) - 1, bisect.bisect(looks, (end, 0)) + 1
        if first < 0 or last >= len(looks):
            continue
        low, high = looks[first][1], looks[last][1]
        if not 0.97 * low - SLACK <= said <= 1.03 * high + SLACK:
            wrong.append(f"at {begin:.1f} s: {said / MIB:.1f} MiB said, {low / MIB:.1f} to {high / MIB:.1f} MiB are true")
    assert not wrong, "\n".join(wrong)
