"""`cowprof doctor`: which rung is usable, why the others are not, and the remedy for each, as text and as JSON."""
import os
import signal
import subprocess
from pathlib import Path

import pytest

import harness
import truth


def doctor(*arguments):
    document, status = harness.doctor(*arguments)
    assert status == 0
    assert document["schema"] == "cowprof.doctor/1"
    return document


def usable_rung(document):
    return next(rung for rung in document["rungs"] if rung["usable"])


def test_the_best_usable_rung_is_chosen_and_unusable_ones_say_why():
    document = doctor()
    rungs = document["rungs"]
    assert len(rungs) >= 2
    assert document["rung"] == usable_rung(document)["rung"]
    for rung in rungs:
        if not rung["usable"]:
            assert rung["reason"] and rung["remedy"], rung


def test_the_recording_uses_the_rung_that_doctor_promises(start_workload, start_recording):
    chosen = doctor()["rung"]
    target = start_workload("fork_copies", "--pages=10", "--wait")
    recording = start_recording(target.pid)
    recording.await_sample()
    recording.interrupt()
    assert recording.report()["exactness"]["rung"] == chosen


def test_a_rung_can_be_disabled(start_workload, start_recording):
    """--without disables a rung: cowprof uses another, or says so in one line with exit status 5."""
    chosen = doctor()["rung"]
    target = start_workload("fork_copies", "--pages=10", "--wait")
    recording = start_recording(target.pid, "--quiet", "--without", chosen, "--duration", "300ms")
    status = recording.wait()
    assert status in (0, 5), recording.stderr
    if status == 5:
        assert len(recording.stderr.splitlines()) == 1
    else:
        assert recording.report()["exactness"]["rung"] != chosen


def test_doctor_of_a_process_lists_its_limits(start_workload):
    target = start_workload("fork_copies", "--pages=10", "--wait")
    target.await_line("role", "ready")
    kinds = {limit["kind"] for limit in doctor(target.pid)["limits"]}
    assert {"shm", "host", "fds"} <= kinds


def test_text_lists_the_same_rungs():
    result = harness.run_cowprof("doctor")
    assert (result.returncode, result.stderr) == (0, "")
    for rung in doctor()["rungs"]:
        assert rung["rung"] in result.stdout


def test_doctor_leaves_nothing_behind():
    before = truth.living_kernel_objects()
    doctor()
    harness.wait_until(lambda: not truth.living_kernel_objects() - before, "programs, maps and links to be freed", 5, 0.05)


def holds_probes(pid):
    links = []
    for link in (Path("/proc") / str(pid) / "fd").iterdir():
        try:
            links.append(os.readlink(link))
        except FileNotFoundError:
            pass
    return any("bpf" in link for link in links)


@pytest.mark.parametrize("reaped", [True, False], ids=["gone", "zombie"])
def test_a_process_that_ends_meanwhile_gets_no_verdict(reaped):
    """A job script would take "at most 0 B each ... safe" for a yes."""
    target = subprocess.Popen(["sleep", "600"])
    looking = subprocess.Popen([harness.COWPROF, "doctor", str(target.pid), "--workers", "8"], text=True, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
    try:
        harness.wait_until(lambda: holds_probes(looking.pid), "doctor to load its probes", 30, 0.002)
        looking.send_signal(signal.SIGSTOP)
        target.kill()
        if reaped:
            target.wait()
        else:
            os.waitid(os.P_PID, target.pid, os.WEXITED | os.WNOWAIT)
        looking.send_signal(signal.SIGCONT)
        stdout, stderr = looking.communicate(timeout=harness.DEADLINE)
    finally:
        looking.kill()
        looking.wait()
        target.kill()
        target.wait()
    assert (looking.returncode, stdout) == (4, ""), (stdout, stderr)
    assert stderr == f"cowprof: process {target.pid} ended while it was looked at\n"
