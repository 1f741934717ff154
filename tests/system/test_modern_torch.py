"""DataLoaders of the torch and the Python that Debian's newer suites have, each in a chroot: against planted truth.

The distribution's own are tested by test_dataloader.py. Python 3.14 starts workers by a forkserver unless told otherwise.
"""
import collections

import pytest

import chroots
import harness
import planted
import truth
from conftest import needs

LOADING = 120 * harness.PATIENCE  # seconds; torch is imported from a cold disk
PYTHON = {"trixie": "3.13", "sid": planted.VERSIONS[-1]}
TORCH = (2, 6)  # trixie's; sid's is newer
Run = collections.namedtuple("Run", "ready said private frames report timeline")


def record(chroot, folder, *arguments):
    """Records the workload in a chroot, from before its workers start until they have ended."""
    process = harness.Process(chroot.python("workloads/modern_dataloader.py", *arguments))
    try:
        ready = process.await_line("event", "ready", LOADING)
        minor = ready["python"].rpartition(".")[0]
        needs(f"Debian {chroot.suite}", minor == PYTHON[chroot.suite], f"its Python is {minor} by now")
        recording = harness.attach(process.pid, folder / "run.json", "--interval", "200ms")
        try:
            recording.await_sample()
            process.go()
            said = process.await_line("event", "read", LOADING)
            # Names are read while the workers live.
            read_at = harness.end_of(recording.path)
            harness.wait_until(lambda: harness.end_of(recording.path) > read_at + 0.5, "samples of idle workers")
            pids = truth.tree(process.pid)
            private = {pid: truth.private_bytes(pid) for pid in pids}
            frames = {pid: truth.anonymous_frames(pid) for pid in pids}
            process.finish(LOADING)
            assert process.popen.returncode == 0
            assert recording.wait() == 0, recording.stderr
        finally:
            recording.stop()
    finally:
        process.stop()
    return Run(ready, said, private, frames, recording.report(), recording.timeline())


@pytest.fixture(scope="module", params=chroots.SUITES)
def forked(request, chroot_of, tmp_path_factory):
    """Workers that fork has made, and that read dicts."""
    return record(chroot_of(request.param), tmp_path_factory.mktemp(request.param), "records", "--start=fork")


@pytest.fixture(scope="module", params=[False, True], ids=["no collector", "collector"])
def served(request, chroot_of, tmp_path_factory):
    """The same program with sid's default start method. With the collector, each worker copies what the forkserver imported."""
    arguments = ["records", "--start=default", *["--collect"][: request.param]]
    return record(chroot_of("sid"), tmp_path_factory.mktemp("served"), *arguments)


def workers_of(run):
    """(what the workload says of a worker, the report's row) for both."""
    return [(worker, harness.row_of(run.report, worker["pid"])) for worker in run.said["workers"]]


def planted_sums(run, field):
    return sum((collections.Counter(worker[field]) for worker in run.said["workers"]), collections.Counter())


def test_the_recording_names_the_python(forked):
    assert forked.report["target"]["python"] == forked.ready["python"]
    assert [record["python"] for record in forked.timeline["records"] if record.get("event") == "python"] == [forked.ready["python"]]
    assert tuple(map(int, forked.ready["torch"].split(".")[:2])) >= TORCH


def test_forked_workers_are_recognised(forked):
    assert forked.report["target"]["start_method"] == "fork"
    assert [(row["role"], row["persistent_worker"]) for _, row in workers_of(forked)] == [("worker", True)] * 2
    assert len(forked.report["workers"]) == 2


def test_copies_are_those_of_the_page_frames(forked):
    for worker, row in workers_of(forked):
        assert worker["missed"] <= 0.005 * worker["planted_copies"]
        assert not list(planted.check_count(worker, row))


def test_the_cause_is_reading(forked):
    for worker, row in workers_of(forked):
        assert worker["by_cause"]["refcount"] > 0.8 * worker["pagemap_copies"], "the workers' own copies are too many to tell"
        assert row["by_cause"]["refcount"] >= 0.9 * row["copies"], row["by_cause"]
        assert row["by_cause"]["unknown"] <= planted.UNKNOWN * row["copies"]
    assert forked.report["diagnoses"][0]["id"] == "cow-refcount"


def test_types_and_lines_are_those_planted(forked):
    report, total = forked.report, forked.report["totals"]["copies"]
    worker = {"scenario": "mixture"}
    found = planted.types_of(report)
    for name, copies in planted_sums(forked, "by_type").items():
        tolerance = planted.tolerance_of(copies / total, worker, report["by_type"])
        assert abs(found[name] - copies) <= tolerance * total, f"{name}: {found[name]} of {copies} planted"
    places = [place for worker in forked.said["workers"] for place in worker["by_line"]]
    for line, text in {place["line"]: place for place in places}.items():
        copies = sum(place["copies"] for place in places if place["line"] == line)
        tolerance = planted.tolerance_of(copies / total, worker, report["by_line"])
        seen = planted.copies_on(report, text)
        assert abs(seen - copies) <= tolerance * total, f"line {line}: {seen} of {copies} planted"
    assert planted.bare(report["by_type"][0]["type"]) == "str"
    assert planted.is_place(report["by_line"][0], places[0])


def forkserver_of(run):
    (server,) = (row for row in run.report["workers"] if row["role"] == "forkserver")
    return server


def test_a_forkserver_and_its_workers_are_told_apart(served):
    assert served.ready["method"] == served.report["target"]["start_method"] == "forkserver"
    assert [(row["role"], row["persistent_worker"]) for _, row in workers_of(served)] == [("worker", True)] * 2
    assert sorted(row["role"] for row in served.report["workers"]) == ["forkserver", "helper", "worker", "worker"]
    assert forkserver_of(served)["pid"] in served.private


def test_a_pickled_dataset_is_private_and_not_copied(served):
    """What was pickled is new memory of a worker; what it copied is the forkserver's."""
    server = forkserver_of(served)
    for worker, row in workers_of(served):
        pid = worker["pid"]
        moved = truth.diverged(served.frames[server["pid"]], served.frames[pid])
        assert abs(row["copies"] - moved) <= 0.02 * moved + server["copies"], f"{row['copies']} copies, {moved} frames"
        # The heads of the objects are on the planned pages of the trainer, and on as many of its own in each worker.
        pickled = served.ready["planned"] * harness.PAGE
        assert served.private[pid] - row["copied_bytes"] >= pickled
        # Not closer: on a busy machine the first sweep of a worker can miss memory that it got meanwhile.
        assert pickled <= row["peak_private_bytes"] <= 1.1 * served.private[pid]


def test_only_the_collector_copies_much(served):
    """Its headers are of what the forkserver imported: torch. What was pickled to the workers is more, and comes first."""
    collects = "--collect" in served.report["target"]["command"]
    for _, row in workers_of(served):
        assert row["by_cause"]["gc_header"] > 0.8 * row["copies"] if collects else row["copied_bytes"] < 0.25 * row["peak_private_bytes"]
    found = [diagnosis["id"] for diagnosis in served.report["diagnoses"]]
    assert found[0] == "private-by-spawn" and ("cow-gc-header" in found) == collects, found


@pytest.mark.parametrize("suite", chroots.SUITES)
def test_copies_of_small_tensors_are_counted(suite, chroot_of, tmp_path):
    """A worker stacks tensors of eight bytes: it writes the reference counts of their Python objects, and those of torch."""
    run = record(chroot_of(suite), tmp_path, "tensors", "--start=fork")
    for worker, row in workers_of(run):
        assert not list(planted.check_count(worker, row))
        assert row["copies"] > 10_000 and row["by_cause"]["unknown"] <= planted.UNKNOWN * row["copies"]
        assert row["by_cause"]["native_refcount"] >= 0.6 * row["copies"], row["by_cause"]
    first = run.report["diagnoses"][0]
    assert run.report["headline"] == {"diagnosis": "torch-refcount", "sentence": first["summary"]}
    assert first["summary"].startswith("Reading many small torch tensors duplicated "), first["summary"]
    assert "in torch's collate_tensor_fn (" in first["summary"] and "(c10::" in first["summary"]
    assert first["culprit"] is None and "torch.stack" in first["sketch"] + " ".join(first["advice"])
