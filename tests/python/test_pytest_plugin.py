"""The pytest plugin, by the JUnit XML of a real pytest that runs samples.py: with root and without, alone and with -n 2."""
import importlib.util
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

import cowprof
import harness
import planted
from conftest import needs, nobodys_folder, open_folder  # pylint: disable=unused-import
from cowprof import _program
from test_output_file import SUDO

SAMPLES = Path(__file__).with_name("samples.py")
BYTES = 7 << 20  # that reading all of samples.STRINGS copies, at most 1 MiB more
NOT_EXACT = ("kept", "broken", "no_worker", "late", "worker_that_failed", "no_unit", "failure_of_its_own", "closest")


class Outcome:
    def __init__(self, case):
        self.kind = next((child.tag for child in case if child.tag in ("failure", "error", "skipped")), "passed")
        self.message = "".join(child.get("message", "") for child in case if child.tag == self.kind)
        self.properties = {row.get("name"): row.get("value") for row in case.iter("property")}

    def __repr__(self):
        return f"{self.kind}: {self.message} {self.properties}"


@pytest.fixture
def run(tmp_path):
    def start(*options, folder=tmp_path, environment=None, python=harness.PYTHON, **popen):
        needs("package python3-lxml", importlib.util.find_spec("lxml"), "lxml is not installed")
        from lxml import etree
        shutil.copy(SAMPLES, folder / "test_samples.py")
        (folder / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\n")
        path = {"COWPROF": str(harness.COWPROF), "PYTHONPATH": str(harness.REPOSITORY / "python"), "HOME": str(folder)}
        done = subprocess.run([python, "-m", "pytest", "-p", "no:cacheprovider", "-p", "cowprof.pytest_plugin", f"--junit-xml={folder}/junit.xml", *options],
                              cwd=folder, env={**os.environ, **path, **(environment or {})}, capture_output=True, text=True, check=False,
                              stdin=subprocess.DEVNULL, timeout=harness.DEADLINE * 2, **popen)
        assert done.returncode in (0, 1), done.stdout + done.stderr
        cases = etree.parse(str(folder / "junit.xml")).getroot().iter("testcase")
        return {case.get("name").replace("test_", "", 1): Outcome(case) for case in cases}

    return start


def lose(path, what):
    """Rewrites a recording as if it had lost events."""
    document = harness.load_json(path)
    samples = [record for record in document["records"] if record["type"] == "sample"]
    samples[-1]["losses"] = {what: 5}
    path.write_text(json.dumps(document))


def kinds(outcomes):
    return {name: outcome.kind for name, outcome in outcomes.items()}


def check_all(outcomes, **others):
    assert kinds(outcomes) == {"kept": "passed", "broken": "failure", "private": "passed", "unnamed": "failure", "no_worker": "failure", "before_late": "passed", "late": "failure",
                               "worker_that_failed": "failure", "no_unit": "failure", "no_size": "error", "failure_of_its_own": "failure", "closest": "passed",
                               "skipif": "skipped", "rounds": "passed", "without_anything": "passed", **others}, list(outcomes.items())
    assert BYTES <= int(outcomes["kept"].properties["cowprof_copied_bytes"]) <= BYTES + (1 << 20)
    assert BYTES <= int(outcomes["kept"].properties["cowprof_peak_private_bytes"]) <= BYTES + (2 << 20)
    assert outcomes["kept"].properties["cowprof_exactness"] == "exact" and outcomes["kept"].properties["cowprof_verdict"]
    said = outcomes["broken"].message
    assert "more than the 2.0 MiB allowed" in said and "more than the 3.0 MiB allowed" in said
    assert "No worker was started" in outcomes["no_worker"].message
    assert "began when workers had memory of their own" in outcomes["late"].message
    assert "a process did not end well: " in outcomes["worker_that_failed"].message
    assert "has no unit" in outcomes["no_unit"].message and "takes one size with its unit" in outcomes["no_size"].message
    assert "its own" in outcomes["failure_of_its_own"].message and "cowprof" not in outcomes["failure_of_its_own"].message
    assert "name cowprof_report among the test's arguments" in outcomes["unnamed"].message
    assert not outcomes["without_anything"].properties


def test_bounds_hold_or_are_broken_or_undecided(run):
    check_all(run("-k", "not report and not recorded"))


@pytest.mark.slow
@pytest.mark.parametrize("version", ["3.8", "3.11", "3.13"])
def test_other_pythons(version, run, tmp_path):
    """With Debian's pytest, which has no part that was compiled."""
    python = planted.interpreters()[version]
    needs(f"Python {version}", python, "neither pyenv nor COWPROF_PYTHONS has it")
    needs("package python3-exceptiongroup", importlib.util.find_spec("exceptiongroup") and importlib.util.find_spec("tomli"), "Python 3.8 needs it and python3-tomli")
    site = tmp_path / "site"
    site.mkdir()
    for name in ("pytest", "_pytest", "pluggy", "py", "iniconfig", "attr", "attrs", "packaging", "exceptiongroup", "tomli"):
        if importlib.util.find_spec(name):
            (site / name).symlink_to(Path(importlib.util.find_spec(name).origin).parent)
    path = f"{harness.REPOSITORY / 'python'}:{site}"
    check_all(run("-k", "not report and not recorded", "-W", "ignore", python=python, environment={"PYTHONPATH": path}))


@pytest.mark.slow
def test_with_two_processes(run):
    needs("package python3-pytest-xdist", importlib.util.find_spec("xdist"), "pytest-xdist is not installed")
    check_all(run("-n", "2", "--dist", "loadfile"), report="passed", recorded="passed")


def test_without_root_all_is_skipped_but_what_needs_no_exact_count(run, nobodys_folder):
    needs("package python3-pytest-xdist", importlib.util.find_spec("xdist"), "pytest-xdist is not installed")
    outcomes = run("-n", "2", folder=nobodys_folder, **harness.AS_NOBODY)
    for name in NOT_EXACT:
        assert outcomes[name].kind == "skipped" and "page-map" in outcomes[name].message and "CAP_BPF" in outcomes[name].message, (name, outcomes[name])
    assert outcomes["no_size"].kind == "error" and outcomes["private"].kind == "passed", outcomes
    assert outcomes["report"].kind == outcomes["recorded"].kind == "passed", outcomes
    assert outcomes["recorded"].properties["cowprof_exactness"] == "page-map"
    required = run("-k", "kept or recorded", "--cowprof-require", folder=nobodys_folder, **harness.AS_NOBODY)
    assert kinds(required) == {"kept": "error", "recorded": "passed"} and "page-map" in required["kept"].message, required


def test_under_sudo_recordings_are_those_of_the_user_who_called_it(run, open_folder):
    kept = ("-k", "kept")
    assert kinds(run(*kept, folder=open_folder, environment=SUDO)) == {"kept": "passed"}
    saved = open_folder / "saved"
    assert kinds(run(*kept, "--cowprof-save=saved", folder=open_folder, environment=SUDO)) == {"kept": "passed"}
    assert [path.stat().st_uid for path in (saved, *saved.iterdir())] == [harness.NOBODY] * 2


def test_a_recorder_that_does_not_start_is_no_reason_to_skip_what_was_to_be_judged_or_saved(run, tmp_path):
    missing = {"COWPROF": str(tmp_path / "missing")}
    outcomes = run("-k", "kept or report or skipif", environment=missing)
    assert kinds(outcomes) == {"kept": "error", "report": "skipped", "skipif": "skipped"} and outcomes["skipif"].message == "no GPU", outcomes
    assert "is not a program" in outcomes["kept"].message, outcomes
    assert kinds(run("-k", "recorded", f"--cowprof-save={tmp_path}/saved", environment=missing)) == {"recorded": "error"}


def test_recordings_are_not_saved_over_the_baseline(tmp_path):
    (tmp_path / "test_it.py").write_text("def test_it():\n    pass\n")
    (tmp_path / "link").symlink_to("baseline")
    done = subprocess.run([harness.PYTHON, "-m", "pytest", "-p", "no:cacheprovider", "-p", "cowprof.pytest_plugin", "--cowprof-save=baseline", "--cowprof-baseline=link"],
                          cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(harness.REPOSITORY / "python")}, capture_output=True, text=True, check=False, timeout=harness.DEADLINE)
    assert done.returncode == pytest.ExitCode.USAGE_ERROR and "are the same folder" in done.stderr, done


@pytest.mark.slow
def test_a_baseline(run, tmp_path):
    baseline = tmp_path / "baseline"
    options = ("-k", "kept or recorded or report")
    passed = {"kept": "passed", "report": "passed", "recorded": "passed"}
    # Relative paths, which are those of the folder that pytest was started in.
    relative = {"COWPROF": os.path.relpath(harness.COWPROF, tmp_path)}
    assert kinds(run(*options, "--cowprof-save=baseline", environment=relative)) == passed
    assert len(list(baseline.glob("test_samples.py_test_*.json"))) == 3
    same = run(*options, "--cowprof-baseline=baseline", environment=relative)
    assert kinds(same) == passed, list(same.values())
    grown = run(*options, f"--cowprof-baseline={baseline}", environment={"SAMPLES_GROW": "1"})
    assert kinds(grown) == {**passed, "recorded": "failure"}, list(grown.values())
    assert "has 1 worker" in grown["recorded"].message or "Worse:" in grown["recorded"].message, grown
    # One that lost events, one that was cut off, and none.
    for file in list(baseline.iterdir()):
        if "kept" in file.name:
            lose(file, "events_dropped")
        elif "report" in file.name:
            file.write_bytes(file.read_bytes()[:-100])
        else:
            file.unlink()
    damaged = run(*options, f"--cowprof-baseline={baseline}")
    assert set(kinds(damaged).values()) == {"failure"}, list(damaged.values())
    assert "lost events" in damaged["kept"].message and "has no end" in damaged["report"].message
    assert "no baseline of this test" in damaged["recorded"].message


@pytest.mark.slow
def test_more_copies_than_the_baseline_fail_a_test_whose_peak_fell(run):
    assert kinds(run("-k", "rounds", "--cowprof-save=baseline")) == {"rounds": "passed"}
    rounds = run("-k", "rounds", "--cowprof-baseline=baseline", environment={"SAMPLES_ROUNDS": "1"})["rounds"]
    assert rounds.kind == "failure" and "the workers copied" in rounds.message and "MiB in A" in rounds.message, rounds


@pytest.mark.parametrize("lost", ["events_dropped", pytest.param("probes_skipped", marks=pytest.mark.slow)])
def test_a_recording_that_lost_events_keeps_no_bound(tmp_path, monkeypatch, lost):
    monkeypatch.setenv("COWPROF", str(harness.COWPROF))
    with cowprof.record(tmp_path / "run.json") as recording:
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
    bound = ("check", recording.path, "--json", "--max-copied=1GiB")
    assert _program.run_json(*bound, statuses=(0, 2, 3))["outcome"] == "kept"
    lose(Path(recording.path), lost)
    check = _program.run_json(*bound, statuses=(0, 2, 3))
    assert check["outcome"] != "kept" and "lost events" in check["bounds"][0]["sentence"], check
