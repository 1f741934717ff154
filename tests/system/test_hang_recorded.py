"""What a recording says by itself of forked processes that hang: within 10 s, first, with an alert; and nothing of waits that are none.

Hangs and waits are those of hang_table.py; a watchdog in the workload decides which is which. Latencies are printed (pytest -s).
"""
import json

import pytest

import hang_table
import harness
from conftest import version_or_skip

NAMED_WITHIN = 10  # seconds, from the fork: these hang at once
WATCHED = 8  # seconds in which nothing must be said of waits


class Case:
    """A workload under a recording, with a hook that keeps what it is given."""

    def __init__(self, folder, command, start, options=()):
        self.file, self.heard = folder / "recording.json", folder / "alerts"
        hook = folder / "hook.sh"
        hook.write_text(f"#!/bin/sh\necho \"$COWPROF_ALERT_KIND $COWPROF_ALERT_RULE $COWPROF_WORKER_PID\" >> {folder}/variables\ncat >> {self.heard}\n")
        hook.chmod(0o755)
        options = ["--output", self.file, "--on-alert", hook, *options]
        if start:
            self.workload = harness.Process([harness.COWPROF, "--quiet", *options, "--", *command])
            self.recording = None
            self.recorder = self.workload.popen
        else:
            self.workload = harness.Process(command)
            self.workload.await_line("event", "forked")
            self.recording = harness.attach(self.workload.pid, *options[1:])
            self.recorder = self.recording.popen
        self.variables = folder / "variables"

    def events(self, kind):
        return [record for record in harness.records_of(self.file) if record["type"] == "event" and record["event"] == kind]

    def await_hangs(self, processes=1):
        def found():
            assert self.recorder.poll() is None, "cowprof ended"
            if not harness.has_sample(self.file):
                return []
            hung = {event["index"]: event for event in self.events("hangs") if event["hangs"]}
            return list(hung.values()) if len(hung) >= processes else []
        return harness.wait_until(found, "a hang in the recording", pause=0.1)

    def end(self):
        """Ends the workload; returns the report, the timeline, and what the hook was given."""
        self.workload.go()
        self.workload.popen.wait(harness.DEADLINE)
        if self.recording:
            assert self.recording.wait() == 0, self.recording.stderr
        document = harness.load_json(self.file)
        harness.validate(document, "timeline.schema.json")
        report = harness.report_of(self.file)
        harness.validate(report, "report.schema.json")
        heard = [json.loads(line) for line in self.heard.read_text().splitlines()] if self.heard.exists() else []
        return report, document["records"], heard

    def stop(self):
        self.workload.stop()
        if self.recording:
            self.recording.stop()


@pytest.fixture
def start_case(tmp_path):
    started = []

    def start(command, start=True, options=()):
        folder = tmp_path / str(len(started))
        folder.mkdir()
        started.append(Case(folder, command, start, options))
        return started[-1]

    yield start
    for case in started:
        case.stop()


def latencies(records, hangs, attached):
    """Seconds from the fork of each process that hangs, or from the attach, to the record that says so."""
    forked = {record["index"]: record["t"] for record in records if record.get("event") == "process"}
    return [event["t"] - (0 if attached else forked[event["index"]]) for event in hangs]


def check(case, kind, pids, attached=False, by_fork=True):
    """Checks every output of a recording with these hung processes; returns the report's hangs."""
    hangs = case.await_hangs(len(pids) or 1)
    report, records, heard = case.end()
    for seconds in latencies(records, hangs, attached):
        print(f"\n{kind}, {'attached' if attached else 'from the start'}: named {seconds:.1f} s after the {'attach' if attached else 'fork'}")
        assert seconds < NAMED_WITHIN
    first = report["diagnoses"][0]
    assert first["id"] == report["headline"]["diagnosis"] == "fork-hang"
    assert first["summary"].startswith("Worker ") and " never go on: " in first["summary"]
    assert any("why it is certain" in line for line in first["evidence"])
    named = {hang["pid"] for hang in report["hangs"]}
    assert named == set(first["pids"]) and (not pids or named == set(pids))
    assert {hang["kind"] for hang in report["hangs"]} == {kind} and all(hang["by_fork"] == by_fork for hang in report["hangs"])
    hung = [alert for alert in report["alerts"] if alert["kind"] == "hang" and not alert["over"]]
    assert sorted(alert["pid"] for alert in hung) == sorted(named)  # once for each
    assert sorted(alert["worker_pid"] for alert in heard if alert["kind"] == "hang") == sorted(named)
    for alert in hung:
        assert alert["rule"] == "hang" and alert["limit"] is None and alert["used"] is None and "can never go on" in alert["text"]
    assert f"hang hang {min(named)}" in case.variables.read_text().splitlines()
    return report["hangs"], first


@pytest.mark.parametrize("kind, attached", [("lock", False), ("rlock", True), ("rlock", False), ("import_lock", True), ("loop_result", False)])
def test_hang_is_named_by_itself(start_case, kind, attached):
    case = start_case(hang_table.command_of("3.11", kind), start=not attached)
    child = case.workload.await_line("event", "forked")["child"]
    (hang,), diagnosis = check(case, hang_table.HANGS[kind][0], [child], attached)
    text = "\n".join(diagnosis["evidence"])
    assert "its Python stack: " in text and "fork_hangs.py:" in text
    if kind == "loop_result":
        assert "a thread that sets such results, loop-thread, stayed in the parent" in diagnosis["summary"]
    elif kind != "import_lock":
        assert "in take" in diagnosis["summary"] and "that the parent's thread" in diagnosis["summary"]
        assert hang["holder"]["name"] == "stats-thread" and "update_stats" in text


@pytest.mark.parametrize("kind", ["lock", "rlock", "import_lock", "file_buffer"])
@pytest.mark.parametrize("version", ["3.8", "3.9", "3.10", "3.12", "3.13", "trixie", "3.14"])
def test_every_version(start_case, version, kind):
    case = start_case(hang_table.command_of(version_or_skip(version), kind))
    child = case.workload.await_line("event", "forked")["child"]
    (hang,), _ = check(case, hang_table.HANGS[kind][0], [child])
    assert hang["holder"]["name"] == {"import_lock": "lazy-importer", "file_buffer": "logger"}.get(kind, "stats-thread")


@pytest.mark.parametrize("kind", ["released_lock", "released_rlock", "passed_on_lock", "passed_on_rlock"])
def test_the_thread_that_has_released_it_since_is_named(start_case, kind):
    """By the look at the fork, with its stack; not a thread that has it by the time of the hang, even with the same ident."""
    case = start_case(hang_table.command_of("3.11", kind))
    child = case.workload.await_line("event", "forked")["child"]
    case.workload.await_line("event", "judged")
    (hang,), diagnosis = check(case, kind.rpartition("_")[2], [child])
    holder = hang["holder"]
    assert (holder["name"], holder["seen"]) == ("stats-thread", "at-fork"), holder
    assert -1 < holder["looked_after_seconds"] < 1
    assert any(frame["function"].endswith("update_stats") for frame in holder["stack"])
    assert "that the parent's thread stats-thread held " in diagnosis["summary"] and " ms after the fork" in diagnosis["summary"]
    assert "late-thread" not in json.dumps([hang, diagnosis])


def test_an_owner_that_has_ended_is_not_blamed_on_the_fork(start_case):
    case = start_case(hang_table.command_of("3.11", "ended_rlock"))
    child = case.workload.await_line("event", "forked")["child"]
    (hang,), diagnosis = check(case, "rlock", [child], by_fork=False)
    assert hang["proof"] == "owner-gone" and hang["holder"] is None
    assert "whose owner does not exist in this process: a thread that has ended, or one that stayed" in diagnosis["summary"]


def test_a_thread_that_took_it_after_the_look_is_not_named():
    """Nobody is seen to hold it at the fork: a lock at the same address in the parent does not say that it is by the fork."""
    row = hang_table.run("3.11", "unseen_lock")
    (hang,) = row.hangs
    assert row.hung and hang["kind"] == "lock" and hang["holder"] is None and not hang["by_fork"]
    assert "late-thread" not in json.dumps(hang) and "at the same address is locked in the parent, too" in hang["what"]


@pytest.mark.parametrize("kind", ["mutex", "openmp"])
def test_native_hang_is_named_by_itself(start_case, kind):
    case = start_case(hang_table.command_of("native", kind))
    child = case.workload.await_line("event", "forked")["child"]
    (hang,), _ = check(case, hang_table.NATIVE[kind][0], [child])
    assert kind != "mutex" or hang["holder"]["name"] == "cache-writer"


def test_pool_that_waits_for_hung_workers_is_their_victim(start_case):
    case = start_case(hang_table.command_of("torch-1.13", "pool"))
    parent = case.workload.await_line("event", "forked")["parent"]
    case.await_hangs(2)

    def joins():
        return all(any(victim["what"] == "Pool.join()" for hang in event["hangs"] for victim in hang["victims"])
                   for event in case.await_hangs(2))
    harness.wait_until(joins, "a victim", pause=0.2)
    hangs, diagnosis = check(case, "openmp", [])
    assert len(hangs) == 2 and "1 more process" in diagnosis["summary"]
    assert f"meanwhile process {parent} waits for Pool.join()" in "\n".join(diagnosis["evidence"])


@pytest.mark.parametrize("version", ["torch-trixie", "torch-sid"])
def test_operation_of_newer_torch(start_case, version):
    case = start_case(hang_table.command_of(version_or_skip(version), "process"))
    case.workload.await_line("event", "forked")
    (hang,), _ = check(case, "openmp", [])
    assert "at::" in hang["what"] and "torch.set_num_threads(1)" in hang["fix"]


@pytest.mark.parametrize("kind", ["loader_lock", "loader_rlock"])
@pytest.mark.parametrize("version", hang_table.TORCHES)
def test_loader_that_waits_for_hung_workers_is_their_victim(start_case, version, kind):
    """Its workers have threads of multiprocessing, one with the ident of the parent's thread, and catch SIGTERM."""
    case = start_case(hang_table.command_of(version_or_skip(version), kind))
    case.workload.await_line("event", "forked")
    case.await_hangs(2)
    hangs, diagnosis = check(case, kind.removeprefix("loader_"), [])
    assert {hang["proof"] for hang in hangs} == {"owner-gone"} and {hang["holder"]["name"] for hang in hangs} == {"stats-thread"}
    assert "waits for the next batch of a DataLoader" in "\n".join(diagnosis["evidence"])


def test_fail_on_alert(start_case):
    case = start_case(hang_table.command_of("3.11", "rlock"), options=["--fail-on-alert"])
    case.await_hangs()
    case.end()
    assert case.recorder.returncode == 3


def test_off_switches(start_case):
    """hang=off leaves the diagnosis and takes the alert; --without hangs looks at nothing."""
    quiet = start_case(hang_table.command_of("3.11", "rlock"), options=["--alert-at", "hang=off"])
    blind = start_case(hang_table.command_of("3.11", "rlock"), options=["--without", "hangs"])
    quiet.await_hangs()
    report, _, heard = quiet.end()
    assert report["diagnoses"][0]["id"] == "fork-hang" and not report["alerts"] and not heard
    report, _, heard = blind.end()
    assert not report["hangs"] and not report["alerts"] and not heard


def test_nothing_is_said_of_waits_that_are_none(start_case):
    command = [harness.PYTHON, harness.REPOSITORY / "tests/system/workloads/fork_waits.py", *hang_table.WAITS]
    case = start_case(command, options=["--duration", f"{WATCHED + 60}s"])
    children = case.workload.await_line("event", "judged")["children"]
    began = harness.end_of(case.file)
    harness.wait_until(lambda: harness.end_of(case.file) > began + WATCHED, f"{WATCHED} s of the recording", pause=0.5)
    report, records, heard = case.end()
    pids = {record["pid"] for record in records if record.get("event") == "process"}
    assert pids >= set(children.values())  # all of them were followed
    assert not report["hangs"], [(kind, pid) for kind, pid in children.items() if pid in {hang["pid"] for hang in report["hangs"]}]
    assert not [record for record in records if record.get("event") == "hangs"] and not heard


@pytest.mark.parametrize("kind", ["served", "shares", "loader", "cured", "own_deadlock", "twice", "unseen_lock", "notification"])
def test_nothing_is_said_of_other_waits(start_case, kind):
    """Deadlocks of living threads, and what may not be by the fork, are left to `cowprof hang`."""
    version = "native" if kind in ("served", "shares", "twice") else "torch-1.13" if kind in hang_table.TORCH_WAITS else "3.11"
    case = start_case(hang_table.command_of(version, kind))
    case.workload.await_line("event", "judged")
    began = harness.end_of(case.file)
    harness.wait_until(lambda: harness.end_of(case.file) > began + 5, "5 s of the recording", pause=0.5)
    report, records, heard = case.end()
    assert not report["hangs"] and not heard
    assert not [record for record in records if record.get("event") == "hangs"]
