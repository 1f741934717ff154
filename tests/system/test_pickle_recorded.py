"""What a recording says by itself of start methods: the program that dies because its data set can't be pickled, near misses,
the main module that starts processes as it is imported, and what spawn would send where fork is used."""
import json
import pickle
import re
import subprocess

import pytest

import chroots
import harness
import planted
from conftest import needs

WORKLOADS = harness.REPOSITORY / "tests" / "system" / "workloads"
PYTHONS = {name: path for name, path in planted.interpreters().items() if name not in ("3.6", "3.7") and path}
ROWS = 60000  # a program of this size takes long enough to end
READ = 200000  # what reading so many copies is above noise, and what unpickling them takes
ATTEMPTS = 5  # between the traceback and the end there are some milliseconds: docs/start-methods.md
FAILURES = {"lock": ("dataset.tracker.lock", "_thread.RLock"), "keys": ("dataset.catalogue.class_names", "dict_keys"),
            "vocab": ("dataset.vocab.stoi.default_factory", "function")}


def command_in(suite, *words):
    if suite in PYTHONS:
        return [PYTHONS[suite], WORKLOADS / "pickle_death.py", *words]
    if suite == "system":
        return [harness.PYTHON, WORKLOADS / "pickle_death.py", *words]
    chroot, why = chroots.chroot(suite)
    if not chroot:
        pytest.skip(f"Debian {suite}: {why}")
    return chroot.python("workloads/pickle_death.py", *words)


def recorded(folder, suite, *words):
    """The report on a recording of the program, what it wrote to stderr, and its status."""
    file = folder / "recording.json"
    done = harness.run_cowprof("--output", file, "--", *command_in(suite, *words), seconds=120 * harness.PATIENCE)
    report = harness.report_of(file)
    harness.validate(report, "report.schema.json")
    harness.validate(json.loads(file.read_text()), "timeline.schema.json")
    return report, done.stderr, done.returncode


def check_death(folder, suite, how, error, method, path=None):
    path, type_name = (path or FAILURES[error][0]), FAILURES[error][1]
    for attempt in range(ATTEMPTS):
        report, stderr, status = recorded(folder, suite, how, error, method, ROWS)
        assert status == 1 and "pickle" in stderr
        first = report["diagnoses"][0] if report["diagnoses"] else {"id": None, "summary": ""}
        if first["id"] == "pickle-failure" and path in first["summary"]:
            break
    assert first["id"] == "pickle-failure", report["diagnoses"]
    assert f"{path} is a {type_name}." in first["summary"]
    assert report["headline"]["diagnosis"] == "pickle-failure"
    assert f"{path} is a {type_name}." in stderr  # what the recorder itself says at its end
    assert first["pids"] == [report["target"]["pid"]]
    assert len(first["advice"]) >= 1 and "python -i" not in first["advice"][0]


@pytest.mark.parametrize("version", PYTHONS)
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
@pytest.mark.parametrize("error", FAILURES)
def test_death_of_an_object_that_can_not_be_pickled(tmp_path, version, method, error):
    check_death(tmp_path, version, "process", error, method)


@pytest.mark.parametrize("error", FAILURES)
def test_death_where_forkserver_is_the_default(tmp_path, error):
    check_death(tmp_path, "sid", "process", error, "forkserver")


@pytest.mark.parametrize("suite", ["system", *chroots.SUITES])
@pytest.mark.parametrize("error", FAILURES)
def test_death_of_a_data_loader(tmp_path, suite, error):
    check_death(tmp_path, suite, "loader", error, "spawn", path=f"loader.{FAILURES[error][0]}")


@pytest.mark.parametrize("error", FAILURES)
def test_of_two_data_loaders_the_one_that_failed_is_named(tmp_path, error):
    check_death(tmp_path, "system", "loaders", error, "spawn")


@pytest.mark.parametrize("suite", ["system", *chroots.SUITES])
@pytest.mark.parametrize("error", FAILURES)
def test_death_by_ddp(tmp_path, suite, error):
    check_death(tmp_path, suite, "ddp", error, "spawn")


def test_an_argument_for_a_pool_that_can_not_be_pickled_is_told_with_the_end(tmp_path):
    for attempt in range(ATTEMPTS):
        report, stderr, status = recorded(tmp_path, "system", "pool", "none", "spawn", ROWS)
        assert status == 1
        if "pickle" in report["headline"]["sentence"]:
            break
    assert "exit 1 (" in report["headline"]["sentence"] and "lambda" in report["headline"]["sentence"]
    assert "pickle-failure" not in [diagnosis["id"] for diagnosis in report["diagnoses"]]


@pytest.mark.parametrize("miss, status", [("catches", 0), ("catches-then-fails", 1), ("other", 1), ("helper", 1), ("fork", 0)])
def test_near_misses_are_no_pickle_failure(tmp_path, miss, status):
    report, stderr, code = recorded(tmp_path, "system", "process", "keys", miss, ROWS)
    assert code == status, stderr
    assert "pickle-failure" not in [diagnosis["id"] for diagnosis in report["diagnoses"]]
    assert '"start_failed"' not in (tmp_path / "recording.json").read_text()


def test_what_pickles_starts_and_is_no_failure(tmp_path):
    report, _, code = recorded(tmp_path, "system", "process", "none", "spawn", ROWS)
    assert code == 0
    assert "pickle-failure" not in [diagnosis["id"] for diagnosis in report["diagnoses"]]


@pytest.mark.parametrize("version", PYTHONS)
def test_a_main_module_without_a_guard_is_the_cause(tmp_path, version):
    for attempt in range(ATTEMPTS):
        file = tmp_path / "recording.json"
        done = harness.run_cowprof("--output", file, "--", PYTHONS[version], WORKLOADS / "unguarded_main.py",
                                   seconds=60 * harness.PATIENCE)
        assert done.returncode == 1 and "bootstrapping phase" in done.stderr
        report = harness.report_of(file)
        harness.validate(report, "report.schema.json")
        harness.validate(json.loads(file.read_text()), "timeline.schema.json")
        said = report["headline"]["sentence"]
        if "__name__" in said:
            break
    assert "1 of 1 worker ended badly: worker " in said and " exited unexpectedly with code 1 (it tried to start a process" in said
    assert 'What starts processes must stand under if __name__ == "__main__" in the main module.' in said


def length_of(rows):
    """Of the data set as a pickle."""
    return len(pickle.dumps([{"id": i, "caption": "caption number %d" % i} for i in range(rows)], 4))


def figure_in(sentence):
    """Bytes of "about 6.8 MiB"."""
    return float(re.search(r"about ([0-9.]+) MiB", sentence).group(1)) * 2**20


def start_methods_of(report):
    spawn, forkserver = report["start_methods"]
    assert (spawn["method"], forkserver["method"]) == ("spawn", "forkserver")
    return spawn


@pytest.mark.parametrize("error", FAILURES)
def test_a_forking_data_loader_is_judged_by_itself(tmp_path, error):
    report, stderr, code = recorded(tmp_path, "system", "loader", error, "fork", ROWS)
    assert code == 0
    said = start_methods_of(report)
    assert said["verdict"] == "will-fail"
    assert (said["failures"][0]["path"], said["failures"][0]["type"]) == (f"loader.{FAILURES[error][0]}", FAILURES[error][1])
    assert said["sentence"] in stderr and said["pid"] == report["target"]["pid"]


def test_a_forked_process_is_judged_by_what_it_was_sent(tmp_path):
    report, _, code = recorded(tmp_path, "system", "process", "none", "fork", ROWS)
    assert code == 0
    said = start_methods_of(report)
    assert said["verdict"] == "no-obstacle-found", said
    assert said["bytes_each"]["best"] == pytest.approx(length_of(ROWS), rel=0.05)


def test_a_launched_trainer_is_judged_by_what_its_worker_was_sent(tmp_path):
    report, _, code = recorded(tmp_path, "system", "launched", "none", "fork", 10)
    assert code == 0
    said = start_methods_of(report)
    assert said["pid"] in [worker["pid"] for worker in report["workers"]]  # the trainer is one: it shares the launcher's memory
    assert said["bytes_each"]["best"] == pytest.approx(length_of(READ), rel=0.05), said
    advice = [line for diagnosis in report["diagnoses"] for line in diagnosis["advice"] if line.startswith("Other start methods")]
    assert advice == [] or said["sentence"] in advice[0]


def test_what_was_pickled_to_workers_has_its_figure(tmp_path):
    report, _, code = recorded(tmp_path, "system", "ddp", "none", "spawn", READ)
    assert code == 0
    found = {diagnosis["id"]: diagnosis for diagnosis in report["diagnoses"]}["private-by-spawn"]
    said = figure_in(next(line for line in found["evidence"] if line.startswith("pickled, what each rank is sent takes about")))
    assert said == pytest.approx(length_of(READ), rel=0.05)
    assert said == pytest.approx(figure_in(next(line for line in found["advice"] if line.startswith("Send the ranks a path instead of about"))))


def test_the_advice_on_copies_says_what_spawn_would_send_and_where_it_fails(tmp_path):
    report, _, code = recorded(tmp_path, "system", "ddp", "vocab", "fork", READ)
    assert code == 0
    found = {diagnosis["id"]: diagnosis for diagnosis in report["diagnoses"]}["cow-refcount"]
    advice = next(line for line in found["advice"] if line.startswith("Other start methods share nothing"))
    assert start_methods_of(report)["sentence"] in advice
    path, type_name = FAILURES["vocab"]
    assert f"would fail at {path} ({type_name})" in advice
    assert figure_in(advice) == pytest.approx(length_of(READ), rel=0.05)


def test_without_start_methods_nothing_is_judged(tmp_path):
    file = tmp_path / "recording.json"
    done = harness.run_cowprof("--without", "start-methods", "--output", file, "--",
                               *command_in("system", "process", "keys", "fork", 100))
    assert done.returncode == 0
    assert harness.report_of(file)["start_methods"] == []


@pytest.mark.parametrize("version", ["3.6", "3.7"])
def test_a_python_whose_rules_are_not_known_is_said(tmp_path, version):
    python = planted.interpreters()[version]
    needs(f"Python {version}", python, "it is not installed")
    file = tmp_path / "recording.json"
    done = harness.run_cowprof("--output", file, "--", python, WORKLOADS / "pickle_death.py", "process", "keys", "spawn", 100)
    assert done.returncode == 1  # the program could not start its process
    report = harness.report_of(file)
    harness.validate(report, "report.schema.json")
    for row in report["start_methods"]:
        assert (row["verdict"], row["root"], row["bytes_each"], row["failures"]) == ("unknown", None, None, [])
        assert "from Python 3.8 on" in row["why_unknown"] and version in row["why_unknown"]
    assert [row["method"] for row in report["start_methods"]] == ["spawn", "forkserver"]


def test_doctor_has_a_line(tmp_path):
    process = harness.Process([harness.PYTHON, WORKLOADS / "pickle_targets.py", "process"])
    try:
        process.await_line("event", "ready")
        done = subprocess.run([harness.COWPROF, "doctor", str(process.pid)], capture_output=True, text=True,
                              timeout=harness.DEADLINE)
        assert "  start methods: spawn and forkserver would fail at holder.keys (dict_keys)" in done.stdout
    finally:
        process.stop()
