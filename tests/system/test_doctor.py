"""`cowprof doctor`: which rung is usable here, why the others are not, and the remedy for each; as text and as JSON."""
import json
import subprocess

import harness
import truth


def doctor(*arguments):
    result = harness.run_cowprof("doctor", "--json", *arguments)
    assert (result.returncode, result.stderr) == (0, "")
    document = json.loads(result.stdout)
    assert document["schema"] == "cowprof.doctor/1"
    return document


def usable_rung(document):
    return next(rung for rung in document["rungs"] if rung["usable"])


def test_the_best_usable_rung_is_in_use_and_every_other_one_has_its_reason():
    document = doctor()
    rungs = document["rungs"]
    assert len(rungs) >= 2
    assert document["rung"] == usable_rung(document)["rung"]
    for rung in rungs:
        if not rung["usable"]:
            assert rung["reason"] and rung["remedy"], rung


def test_in_a_pid_namespace_no_probe_is_used_that_would_watch_somebody_else(tmp_path):
    """Inside, pids are other numbers than the probes see: pid 5 there is not pid 5 here. The page map is the namespace's own."""
    inside = ["unshare", "--pid", "--fork", "--mount-proc", harness.COWPROF]
    result = subprocess.run([*inside, "doctor"], capture_output=True, text=True, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "--pid=host" in result.stdout
    result = subprocess.run([*inside, "--", "true"], capture_output=True, text=True, cwd=tmp_path)
    assert result.returncode == 0 and "(page-map)" in result.stderr, result.stderr
    result = subprocess.run([*inside, "--without=page-map", "--", "true"], capture_output=True, text=True, cwd=tmp_path)
    assert result.returncode == 5 and "--pid=host" in result.stderr, result.stderr


def test_the_recording_uses_the_rung_that_doctor_promises(start_workload, start_recording):
    chosen = doctor()["rung"]
    target = start_workload("fork_copies", "--pages=10", "--wait")
    recording = start_recording(target.pid)
    recording.await_sample()
    recording.interrupt()
    assert recording.report()["exactness"]["rung"] == chosen


def test_a_rung_can_be_refused(start_workload, start_recording):
    """--without takes a capability away: another rung, or one clear line and exit status 5."""
    chosen = doctor()["rung"]
    target = start_workload("fork_copies", "--pages=10", "--wait")
    recording = start_recording(target.pid, "--without", chosen, "--duration", "300ms")
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


def test_text_says_the_same():
    result = harness.run_cowprof("doctor")
    assert (result.returncode, result.stderr) == (0, "")
    for rung in doctor()["rungs"]:
        assert rung["rung"] in result.stdout


def test_doctor_leaves_nothing_behind():
    before = truth.living_kernel_objects()
    doctor()
    harness.wait_until(lambda: not truth.living_kernel_objects() - before, "programs, maps and links to go", 5, 0.05)
