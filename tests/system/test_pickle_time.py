"""What `cowprof pickle` says of time and memory against really pickling, and whose interpreter it runs to measure."""
import os
import shutil
import subprocess

import pytest

import harness
from test_pickle import SIZES, TARGETS, document_of, target  # noqa: F401


@pytest.mark.parametrize("size", [*SIZES, "shuffled"])
def test_time_and_memory_are_those_of_really_pickling(target, size):
    """In CPU time, the fastest of three attempts of each, since the machine is busy."""
    process = target(f"bytes-{size}", "timed")
    truth = process.await_line("event", "ready")
    spawn = document_of(process.pid, "--object", "__main__.data")["what_if"][2]
    assert spawn["method"] == "spawn" and spawn["works"] is True
    for key in "pickle_seconds", "unpickle_seconds":
        said = spawn[f"{key}_each"]
        assert said["low"] <= max(truth[key]) and min(truth[key]) <= said["high"], (key, said, truth)
    held = spawn["held_bytes_each"]
    assert held["low"] <= truth["held_bytes"] <= held["high"], (held, truth)


def test_fork_costs_what_the_process_holds(target):
    document = document_of(target("big").pid, "--object", "__main__.data", "--no-time")
    fork, forkserver, spawn = document["what_if"]
    assert [fork["method"], forkserver["method"], spawn["method"]] == ["fork", "forkserver", "spawn"]
    assert (fork["works"], fork["bytes_each"]["high"]) == (True, 0)
    assert fork["held_bytes_each"]["high"] == document["fork_ceiling_bytes"] > 100 << 20
    assert spawn["pickle_seconds_each"] is None and document["why_no_time"] == "--no-time"


def test_an_interpreter_that_others_could_write_is_not_run(tmp_path):
    """Not even where its process runs as root."""
    python = tmp_path / "python3"
    shutil.copy(os.path.realpath(harness.PYTHON), python)
    python.chmod(0o777)
    process = harness.Process([python, "-S", "-c", "data = [1]\nprint('{\"event\": \"ready\"}', flush=True)\ninput()"],
                              env={**os.environ, "PYTHONHOME": "/usr"})
    try:
        process.await_line("event", "ready")
        document = document_of(process.pid, "--object", "__main__.data")
        assert "others can write" in document["why_no_time"]
        assert document["what_if"][2]["pickle_seconds_each"] is None
    finally:
        process.stop()


def test_the_interpreter_runs_as_the_user_of_the_process():
    process = harness.Process(["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", os.path.realpath(harness.PYTHON),
                               TARGETS, "bytes-numbers"])
    try:
        process.await_line("event", "ready")
        document = document_of(process.pid, "--object", "__main__.data")
        assert document["why_no_time"] is None and document["what_if"][1]["pickle_seconds_each"]["best"] > 0
    finally:
        process.stop()


@pytest.fixture
def start():
    """start(command): awaits that it is ready; returns the document on its data. Stops it at the end of the test."""
    started = []

    def begin(*command):
        started.append(harness.Process([*command, TARGETS, "bytes-numbers", "rows=1000"]))
        started[-1].await_line("event", "ready")
        return document_of(started[-1].pid, "--object", "__main__.data")
    yield begin
    for process in started:
        process.stop()


def test_the_interpreter_behind_a_venv_is_run_and_no_copy_in_one(start, tmp_path):
    """A venv's python is a link to an interpreter that can be checked, or a copy of it, beside a library that others may change."""
    for kind in "symlinks", "copies":
        subprocess.run([harness.PYTHON, "-m", "venv", "--without-pip", f"--{kind}", tmp_path / kind], check=True)
    assert start(tmp_path / "symlinks" / "bin" / "python")["why_no_time"] is None
    document = start(tmp_path / "copies" / "bin" / "python")
    assert "is that of a venv" in document["why_no_time"]
    assert document["what_if"][2]["pickle_seconds_each"] is None
    assert document["what_if"][2]["bytes_each"]["best"] > 0


def test_the_interpreter_of_another_mount_namespace_is_not_run(start):
    document = start("unshare", "--mount", harness.PYTHON)
    assert "sees other files than cowprof" in document["why_no_time"]
    assert document["what_if"][2]["pickle_seconds_each"] is None
