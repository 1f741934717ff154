"""Refusals for rights print a line that can be typed: the tests type it, with a sudo that already is root."""
import os
import re
import shutil
import subprocess

import pytest

import harness
from test_bad_input import UNPRIVILEGED, assert_refused

ODD = "odd 'label' $(touch witness)"


@pytest.fixture
def folder(open_folder):
    """A folder that everybody can write, with a cowprof and a sudo on its PATH."""
    open_folder.chmod(0o777)
    shutil.copy(harness.COWPROF, open_folder / "cowprof")
    (open_folder / "sudo").write_text('#!/bin/sh\nexec "$@"\n')
    (open_folder / "sudo").chmod(0o755)
    return open_folder


@pytest.fixture
def target(start_workload):
    process = start_workload("fork_copies", "--pages=10", "--wait")
    process.await_line("role", "ready")
    return process


def run(words, folder, prefix=()):
    return subprocess.run([*prefix, *map(str, words)], capture_output=True, text=True, cwd=folder, timeout=harness.DEADLINE,
                          stdin=subprocess.DEVNULL, check=False, env={"PATH": f"{folder}:/usr/bin:/bin:/usr/sbin:/sbin"})


def line_to_type(text):
    """From "sudo" to the end of the line, or to what it says in brackets."""
    return re.search(r"run: (sudo .*?)( \(more ways.*)?$", text, re.MULTILINE).group(1)


@pytest.mark.parametrize("tool", ["cowprof", "./cowprof"])
def test_what_it_says_to_type_works(tool, folder, target):
    words = [tool, "--attach", target.pid, "--output", "a b.json", "--label", f"note={ODD}", "--duration", "300ms", "--quiet"]
    refused = run(words, folder, UNPRIVILEGED)
    assert_refused(refused, {4}, "CAP_SYS_PTRACE", "as the user of that process")
    line = line_to_type(refused.stderr)
    assert line.startswith(f"sudo $(command -v cowprof) --attach {target.pid} " if tool == "cowprof" else "sudo ./cowprof --attach ")
    typed = run(["sh", "-c", line], folder)
    assert typed.returncode == 0, typed.stderr
    assert harness.load_json(folder / "a b.json")["header"]["identity"]["labels"] == {"note": ODD}
    assert not (folder / "witness").exists()


@pytest.mark.parametrize("command", ["hang", "pickle", "doctor", "shm"])
def test_every_command_that_looks_at_a_process(command, folder, target):
    refused = run(["cowprof", command, target.pid, "--json"], folder, UNPRIVILEGED)
    assert_refused(refused, {4})
    assert line_to_type(refused.stderr) == f"sudo $(command -v cowprof) {command} {target.pid} --json"


def test_a_program_that_cowprof_would_start(folder):
    refused = run(["cowprof", "--without", "page-map", "-q", "--", "touch", "a witness"], folder, UNPRIVILEGED)
    assert_refused(refused, {5}, "CAP_BPF, CAP_PERFMON missing")
    assert not (folder / "a witness").exists()
    line = re.search(r"sudo env .*? -q -- touch 'a witness'", refused.stderr).group(0)
    assert line == "sudo env \"PATH=$PATH\" $(command -v cowprof) --without page-map -q -- touch 'a witness'"
    assert run(["sh", "-c", line], folder).returncode == 0 and (folder / "a witness").exists()


def test_doctor_gives_the_line_and_the_capabilities_of_the_file(folder):
    said = run(["cowprof", "doctor"], folder, UNPRIVILEGED).stdout
    assert line_to_type(said) == "sudo $(command -v cowprof) doctor"
    grant = re.search(r"or:  sudo (setcap (\S+) (\S+))$", said, re.MULTILINE)
    assert grant.group(3) == str(folder / "cowprof")
    done = subprocess.run(grant.group(1).split(), capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"file capabilities: {done.stderr}")
    after = run(["cowprof", "doctor"], folder, harness.TO_NOBODY)
    assert after.returncode == 0 and "btf-tracepoints     usable" in after.stdout


def test_a_recording_does_not_keep_the_command_line(folder):
    """What it says to type has the arguments, which may be secret; the recording of the lesser rung has not."""
    done = run(["cowprof", "--output", "r.json", "--quiet", "--on-alert", "sh -c token=5ecr3t", "--", "true"], folder, UNPRIVILEGED)
    assert done.returncode == 0, done.stderr
    assert "CAP_BPF" in (folder / "r.json").read_text() and "5ecr3t" not in (folder / "r.json").read_text()


def test_a_user_namespace(folder, target):
    inside = [*harness.TO_NOBODY, "unshare", "--user", "--map-root-user"]
    refused = run(["cowprof", "--without", "page-map", "-q", "--", "true"], folder, inside)
    assert_refused(refused, {5}, "user namespace of its own", "on the host", "sudo $(command -v cowprof) --attach PID")
    assert "cap-add" not in refused.stderr


# A root file system without the files of engines, except $2, in namespaces of its own.
CONTAINER = """
set -e
folder=$1 mark=$2; shift 2
mount -t tmpfs tmpfs "$folder/up"
mkdir "$folder/up/upper" "$folder/up/work" "$folder/up/root"
mount -t overlay -o "lowerdir=/,upperdir=$folder/up/upper,workdir=$folder/up/work" overlay "$folder/up/root"
cd "$folder/up/root"
rm -f .dockerenv run/.containerenv
[ "$mark" = none ] || touch ".$mark"
mkdir -p tmp/tool
mount --bind "$folder" tmp/tool
mount -t proc proc proc
mount --rbind /sys sys
exec chroot . setpriv --bounding-set=-bpf,-perfmon,-sys_admin "$@"
"""
ENGINES = {"none": ["docker run --cap-add BPF --cap-add PERFMON ...", "podman run --cap-add BPF,PERFMON --security-opt seccomp=unconfined ...",
                    "securityContext: {capabilities: {add: [BPF, PERFMON]}}"],
           "/.dockerenv": ["docker run --cap-add BPF --cap-add PERFMON ..."],
           "/run/.containerenv": ["podman run --cap-add BPF,PERFMON --security-opt seccomp=unconfined ..."]}


@pytest.mark.parametrize("namespace", [["--pid", "--fork"], ["--uts"]], ids=["pids", "host's pids"])
@pytest.mark.parametrize("mark,lines", ENGINES.items())
def test_the_line_of_the_engine(mark, lines, namespace, folder):
    (folder / "up").mkdir()
    inside = ["unshare", "--mount", "--propagation", "private", *namespace, "sh", "-c", CONTAINER, "sh", folder, mark]
    refused = run(["/tmp/tool/cowprof", "--without", "page-map", "-q", "--", "true"], folder, [*map(str, inside)])
    if refused.stderr.startswith("mount:"):
        pytest.skip(f"overlay: {refused.stderr.strip()}")
    assert_refused(refused, {5}, "CAP_BPF, CAP_PERFMON missing", *lines)
    assert sum(engine in refused.stderr for engine in ("docker", "podman", "securityContext")) == len(lines)


def test_an_engines_file_alone_does_not_make_a_container(folder, target):
    """A virtual machine may be made from an image of one."""
    refused = run(["cowprof", "hang", target.pid], folder, UNPRIVILEGED)
    assert "--cap-add" not in refused.stderr


def test_hidepid(folder, target):
    enter = ["unshare", "--mount", "--propagation", "private", "sh", "-c",
             'mount -t proc -o hidepid=2 proc /proc && exec "$@"', "sh", *UNPRIVILEGED]
    refused = run(["cowprof", "hang", target.pid], folder, enter)
    assert_refused(refused, {4}, "hidepid")
    assert line_to_type(refused.stderr) == f"sudo $(command -v cowprof) hang {target.pid}"
    assert os.path.exists(f"/proc/{target.pid}")
