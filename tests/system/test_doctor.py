"""`cowprof doctor`: which rung is usable, why the others are not, and the remedy for each, as text and as JSON."""
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
