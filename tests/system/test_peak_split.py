"""What the private memory of the workers was at its peak: parts that a workload plants, each within 3 % and a slack for what two
interpreters copy and allocate for themselves, and for what they gave back meanwhile, such as a pickle once it is read."""
import pytest

import harness
import truth
from verdict_run import WORKLOADS

MIB = 1 << 20
WORKERS, EACH = 2, 48  # MiB
OF_PYTHON = 3 * MIB  # copied and allocated by each worker for itself
PLANTED = {  # MiB of each worker
    "copied": {"copied": EACH}, "new": {"new": EACH}, "both": {"copied": EACH, "new": EACH}, "before_attach": {"before_attach": EACH},
    "pickled": {"pickled": EACH}, "shared": {}}


@pytest.mark.parametrize("kind", PLANTED)
def test_the_peak_has_the_parts_that_were_planted(kind, tmp_path):
    process = harness.Process([harness.PYTHON, WORKLOADS / "peak_parts.py", kind, EACH])
    recording = None
    try:
        process.await_line("event", "ready")
        recording = harness.attach(process.pid, tmp_path / "run.json", "--interval=200ms")
        recording.await_sample()
        process.go()
        process.await_line("event", "placed")
        after = harness.end_of(recording.path) + 1
        harness.wait_until(lambda: harness.end_of(recording.path) > after, "samples at rest", pause=0.05)
        workers = truth.children(process.pid)
        # The kernel calls shared memory private that only one process has touched.
        private = sum(truth.private_bytes(pid) - truth.shmem_bytes(pid) for pid in workers)
        passing = sum(map(truth.passing_bytes, workers)) if kind == "pickled" else 0
        of_parent = truth.anonymous_bytes(process.pid)
        recording.interrupt()
        report = recording.report()
    finally:
        if recording:
            recording.stop()
        process.stop()
    assert len(workers) == WORKERS
    assert harness.row_of(report, process.pid)["private_bytes"] <= of_parent + OF_PYTHON
    peak = report["peak"]
    assert sum(peak["split"].values()) == peak["bytes"]
    assert -0.03 * private - MIB <= peak["bytes"] - private <= 0.03 * private + MIB + passing, (peak, private, passing)
    for part, found in peak["split"].items():
        planted = WORKERS * PLANTED[kind].get(part, 0) * MIB
        assert -0.03 * planted <= found - planted <= 0.03 * planted + WORKERS * OF_PYTHON + passing, (part, found / MIB, planted / MIB, peak)


@pytest.mark.parametrize("when, leaks", [("unpickled", False), ("imported", False), ("kept", True)])
def test_what_a_worker_loads_for_long_is_not_called_a_leak(when, leaks, tmp_path):
    path = tmp_path / "run.json"
    done = harness.run_cowprof("--output", path, "--interval=200ms", "--", harness.PYTHON, WORKLOADS / "slow_start.py", when)
    assert done.returncode == 0, done.stderr
    found = [one["id"] for one in harness.report_of(path)["diagnoses"]]
    assert ("new-memory-growth" in found) == leaks, found
    assert ("private-by-spawn" in found) == (when == "unpickled"), found
