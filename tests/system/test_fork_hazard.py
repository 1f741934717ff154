"""`fork-hazard`: what a recording, and doctor before it, say of a parent's threads at a fork; and parents of which nothing is said."""
import json
from pathlib import Path

import pytest

import hang_table
import harness
from conftest import needs, version_or_skip


def command_of(kind, version="3.11"):
    if kind in ("native", "tbb"):
        return [harness.WORKLOADS / f"fork_hazard_{kind}"]
    return hang_table.python_command(version, "fork_hazard.py", kind)


def events_in(file):
    return [record for record in harness.records_of(file) if record.get("event") == "fork_hazard"]


class Forked:
    """A recording that was attached before the fork: its report, and what else a test asks for."""

    def __init__(self, folder, kind, doctor=False, version="3.11"):
        self.process = harness.Process(command_of(kind, version))
        try:
            self.tid = self.process.await_line("event", "ready")["tid"]
            self.pid = self.process.pid
            self.doctor = harness.doctor(self.pid)[0] if doctor else None
            self.doctor_text = harness.run_cowprof("doctor", self.pid).stdout if doctor else ""
            recording = harness.Recording(folder / "recording.json", ["--attach", self.pid, "--output", folder / "recording.json"])
            recording.await_sample()
            self.process.go()
            self.forked = self.process.await_line("event", "forked")
            self.child = self.forked["child"]
            harness.wait_until(lambda: any(record.get("pid") == self.child for record in harness.records_of(recording.path)),
                               "the child in the recording")
            recording.interrupt()
            self.events = events_in(recording.path)
            harness.validate(json.loads(recording.path.read_text()), "timeline.schema.json")
            self.report = harness.report_of(recording.path)
            harness.validate(self.report, "report.schema.json")
            self.text = harness.run_cowprof("report", recording.path).stdout
            self.words = " ".join(self.text.split())
        finally:
            self.process.stop()

    @property
    def diagnosis(self):
        return next((found for found in self.report["diagnoses"] if found["id"] == "fork-hazard"), None)

    @property
    def row(self):
        row, = self.report["fork_hazards"]
        return row

    def thread(self):
        return next(thread for thread in self.row["threads"] if thread["tid"] == self.tid)


@pytest.mark.parametrize("kind, lock", [("lock", "lock"), ("rlock", "rlock"), ("condition", "rlock")])
def test_a_lock_that_a_thread_holds(tmp_path, kind, lock):
    run = Forked(tmp_path, kind)
    held, = run.row["locks"]
    assert (held["kind"], held["tid"], held["where"]["function"].rpartition(".")[2]) == (lock, run.tid, "update_stats")
    assert run.thread()["name"] == "stats-thread" and run.thread()["stack"][0]["function"].endswith("forever")
    assert "held by its thread stats-thread (fork_hazard.py:" in run.diagnosis["summary"]
    assert "os.register_at_fork" in " ".join(run.diagnosis["advice"])
    # What is healthy stays healthy: it is one line, behind what the run itself was.
    assert [found["id"] for found in run.report["diagnoses"]] == ["fork-hazard"]
    assert run.report["headline"]["diagnosis"] == "fork-hazard" and run.text.startswith("Nothing to do:")
    assert run.text.count("fork-hazard:") == 1 and not run.report["alerts"]


@pytest.mark.parametrize("kind, lock", [("lock", "lock"), ("rlock", "rlock"), ("condition", "rlock"), ("imports", "import-lock"),
                                        ("acquired", None), ("waits", None), ("notified", None), ("own", None)])
@pytest.mark.parametrize("version", ["3.8", "3.9", "3.10", "3.12", "3.13", "trixie", "3.14"])
def test_every_version(tmp_path, version, kind, lock):
    run = Forked(tmp_path, kind, version=version_or_skip(version))
    assert [(held["kind"], held["tid"]) for held in run.row["locks"]] == ([(lock, run.tid)] if lock else [])


def test_an_import_that_goes_on(tmp_path):
    run = Forked(tmp_path, "imports")
    assert [(lock["kind"], lock["module"], lock["tid"]) for lock in run.row["locks"]] == [("import-lock", "slowmod", run.tid)]
    assert "an import of slowmod in progress in its thread lazy-importer" in run.diagnosis["summary"]


@pytest.mark.parametrize("kind", ["acquired", "waits", "notified", "given_back", "own"])
def test_a_thread_that_holds_no_lock_that_can_be_seen(tmp_path, kind):
    run = Forked(tmp_path, kind)
    assert run.row["locks"] == []
    assert "1 other Python thread: " in run.diagnosis["summary"] and run.diagnosis["confidence"] < 0.5


@pytest.mark.parametrize("kind", ["native", "torch_team"])
def test_a_team_of_openmp(tmp_path, kind):
    run = Forked(tmp_path, kind, doctor=kind == "native")
    assert "openmp" in run.row["pools"]
    assert "an OpenMP team of" in run.diagnosis["summary"] and "libgomp" in run.diagnosis["summary"]
    advice = " ".join(run.diagnosis["advice"])
    assert ("torch.set_num_threads(1)" in advice) == (kind == "torch_team")
    assert run.report["headline"]["diagnosis"] == "fork-hazard" and run.report["headline"]["sentence"].startswith("Nothing to do:")
    if kind == "native":
        assert run.doctor["before_fork"]["pools"] == run.row["pools"] == ["openmp"]
        assert "      may hang: an OpenMP team of 3 threads" in run.doctor_text


def test_threads_of_tbb_are_named_as_a_pool(tmp_path):
    """A child that uses it goes on, so nothing is said to hang."""
    needs("package libtbb-dev", (harness.WORKLOADS / "fork_hazard_tbb").exists(), "the workload was not built")
    run = Forked(tmp_path, "tbb", doctor=True)
    assert run.forked["through"]
    assert run.row["pools"] == run.doctor["before_fork"]["pools"] == ["tbb"]
    assert run.diagnosis is None, run.diagnosis


def test_threads_of_opencv_are_named_as_a_pool(tmp_path):
    """Debian's OpenCV computes on TBB's threads; a child that uses it goes on."""
    needs("package python3-opencv", any(Path("/usr/lib/python3/dist-packages").glob("cv2*")), "not installed")
    run = Forked(tmp_path, "opencv")
    assert run.process.await_line("event", "computed")["through"]
    assert run.row["pools"] == ["tbb"]
    assert run.diagnosis is None, run.diagnosis


@pytest.mark.parametrize("kind", ["none", "feeder", "execs", "loader"])
def test_nothing_is_said(tmp_path, kind):
    run = Forked(tmp_path, kind, doctor=kind in ("none", "feeder"))
    assert run.diagnosis is None, run.diagnosis
    assert "fork-hazard" not in run.text
    if kind == "none":
        assert run.events == [] and run.report["fork_hazards"] == []
        assert "  a fork now: there is no other thread" in run.doctor_text
    if kind == "feeder":
        assert [thread["name"] for thread in run.row["threads"]] == ["QueueFeederThread"]
        assert "multiprocessing or torch started it" in run.doctor_text and "may hang" not in run.doctor_text
    if kind == "loader":
        assert "openmp" in run.row["pools"]


def test_the_look_is_dated_by_its_fork(tmp_path):
    """Of the attach and of the fork, whose child is named; the recorder is woken for it."""
    run = Forked(tmp_path, "lock", doctor=True)
    at_attach, at_fork = run.events if len(run.events) == 2 else (run.events[0], None)
    assert "child" not in at_attach and at_attach["python_read"]
    # Nothing has changed since the attach: no second record.
    assert at_fork is None or at_fork["child"] == 1
    assert "Python thread stats-thread" in run.doctor_text and "a threading.Lock held by" in run.doctor_text


def test_a_program_that_cowprof_starts(tmp_path):
    file = tmp_path / "recording.json"
    with open(tmp_path / "in", "w+") as lines:
        lines.write("\n\n")
        lines.seek(0)
        process = harness.subprocess.run([harness.COWPROF, "--output", file, "--", *command_of("lock")], stdin=lines,
                                         capture_output=True, text=True, timeout=harness.DEADLINE)
    assert process.returncode == 0, process.stderr
    report = harness.report_of(file)
    looks = events_in(file)
    # The parent ends a moment after the fork: only then there may be no look.
    if looks:
        assert looks[0]["child"] > 0 and looks[0]["delay"] > 0
        assert report["fork_hazards"][0]["forked_at"] is not None
