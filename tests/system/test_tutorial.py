"""docs/tutorial.md: its commands, typed in its order, end as it says."""
import re
import shutil
import subprocess

import pytest

import harness
from conftest import needs
from memory_groups import memory_root

FOLDER = harness.REPOSITORY / "docs" / "tutorial"
TEXT = (harness.REPOSITORY / "docs" / "tutorial.md").read_text()
COMMANDS = re.findall(r"^    ((?:sudo |cowprof |pgrep ).*)$", TEXT, re.MULTILINE)
SECONDS = 120 * harness.PATIENCE


@pytest.fixture
def shell(tmp_path):
    """Starts a command in a folder with the tutorial's files, with a sudo that already is root and the Python that has torch."""
    for path in FOLDER.iterdir():
        shutil.copy(path, tmp_path)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sudo").write_text('#!/bin/sh\nexec "$@"\n')
    (tmp_path / "bin" / "sudo").chmod(0o755)
    path = f"{tmp_path}/bin:{harness.BUILD}:/usr/bin:/bin:/usr/sbin:/sbin"
    return lambda line: subprocess.Popen(["sh", "-c", line], cwd=tmp_path, env={"PATH": path}, text=True, stdin=subprocess.DEVNULL,
                                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_each_step_ends_as_told(shell, tmp_path):
    needs("memory cgroup", memory_root(), "no group with a limit can be made here")
    dies, finds, attaches, views, lives, proves, checks = COMMANDS

    def run(line):
        process = shell(line)
        return *process.communicate(timeout=SECONDS), process.returncode

    training = shell(dies)
    pid = harness.wait_until(lambda: run(finds)[0].strip(), "the training")
    recording = shell(attaches.replace("PID", pid))
    assert training.communicate(timeout=SECONDS)[1] and training.returncode == 1
    assert recording.wait(SECONDS) == 0, recording.communicate()[1]
    report = harness.report_of(tmp_path / "killed.json")
    assert report["diagnoses"][0]["id"] == "oom-cgroup"
    killed = [row for row in report["workers"] if row["exit"] and row["exit"]["signal"] == "SIGKILL"]
    assert killed and killed[0]["exit"]["cause"] == "oom-cgroup"
    copies = next(one for one in report["diagnoses"] if one["id"] == "cow-refcount")
    line = (FOLDER / "train.py").read_text().splitlines()[copies["culprit"]["line"] - 1]
    assert line.strip() in TEXT, "the blamed line is the one that the tutorial shows"
    assert run(views)[2] == 0 and (tmp_path / "killed.html").exists()
    said, error, status = run(lives)
    assert status == 0 and "epoch 0" in said, error
    said, error, status = run(proves)
    assert status == 0, error
    assert re.search(r"^Better: .*\(-\d+ %\)", said, re.MULTILINE) and "Predicted (serialise)" in said
    assert run(checks)[2] == 0
    assert run(checks.replace("after", "before"))[2] == 3


def test_the_code_it_shows_is_that_of_the_files():
    code = (FOLDER / "packed.py").read_text()
    shown = re.search(r"^    class Packed:\n(?:    .*\n|\n)+?(?=\n    train)", TEXT, re.MULTILINE).group(0)
    for line in filter(None, (line[4:].rstrip() for line in shown.splitlines())):
        assert line in code, line
