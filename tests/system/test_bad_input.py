"""Everything a user can get wrong: the documented exit status, and one line on stderr that says what, why and what to do."""
import json
import os
import shutil
import subprocess

import pytest

import harness
import truth

UNPRIVILEGED = [*harness.TO_NOBODY, "--inh-caps=-all", "--bounding-set=-all"]
TRACES = ("terminate called", "Aborted", "Segmentation fault", "AddressSanitizer", ".cc:", "what():")


def assert_refused(result, statuses, *words):
    """Wants one of the exit statuses, and a single line that contains each of the words."""
    assert result.returncode in statuses, (result.returncode, result.stderr)
    assert result.stdout == ""
    lines = result.stderr.splitlines()
    assert len(lines) == 1, f"expected one line, got {result.stderr!r}"
    assert len(lines[0]) > 30, f"too short to say what, why and what to do: {lines[0]!r}"
    for word in words:
        assert word.lower() in lines[0].lower(), f"{word!r} is not in {lines[0]!r}"
    assert not any(trace in result.stderr for trace in TRACES), result.stderr


def ended_pid():
    """The pid of a process that has just exited."""
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def attach_to(pid, folder, *options):
    return harness.run_cowprof("--attach", pid, "--output", folder / "out.json", *options)


def test_a_process_that_is_gone(tmp_path):
    pid = ended_pid()
    assert_refused(attach_to(pid, tmp_path), {4}, str(pid))
    assert not (tmp_path / "out.json").exists(), "an empty file was left behind"


def test_a_pid_beyond_every_pid(tmp_path):
    assert_refused(attach_to(2**22 + 5, tmp_path), {4}, str(2**22 + 5))


def test_a_kernel_thread(tmp_path):
    assert_refused(attach_to(2, tmp_path), {4}, "2", "kernel")


THREADED = "import sys, threading; threading.Thread(target=sys.stdin.readline).start(); print('{\"role\": \"ready\"}', flush=True)"


PAGE_MAP = [f"--without={rung}" for rung in ("btf-tracepoints", "fentry", "perf-event")]


@pytest.mark.parametrize("command", [["--attach"], [*PAGE_MAP, "--attach"], ["doctor"], ["hang"], ["shm"]],
                         ids=["probes", "page map", "doctor", "hang", "shm"])
def test_a_thread(command, tmp_path):
    """htop shows the numbers of threads: what it copied or forked would be missed."""
    process = harness.Process([harness.PYTHON, "-c", THREADED])
    try:
        process.await_line("role", "ready")
        thread = max(int(name) for name in os.listdir(f"/proc/{process.pid}/task") if int(name) != process.pid)
        refused = harness.run_cowprof(*command, thread, cwd=tmp_path)
        assert_refused(refused, {4}, f"{thread} is a thread of process {process.pid}: give {process.pid} instead")
    finally:
        process.stop()


def test_a_zombie(tmp_path):
    process = subprocess.Popen(["true"], stdout=subprocess.DEVNULL)
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    try:
        assert_refused(attach_to(process.pid, tmp_path), {4}, str(process.pid))
    finally:
        process.wait()


@pytest.mark.parametrize("pid", ["0", "-1", "abc", "", "12x", "1.5", "99999999999999999999"])
def test_an_invalid_pid(pid, tmp_path):
    result = harness.run_cowprof(f"--attach={pid}", "--output", tmp_path / "out.json")
    assert_refused(result, {2, 4} if pid.startswith("9999") else {2})


OWN_PID = str(os.getpid())
USAGE = {
    "no arguments": [],
    "unknown flag": ["--no-such-flag", "--attach", OWN_PID],
    "unknown subcommand": ["frobnicate"],
    "attach without a pid": ["--attach"],
    "attach and a command": ["--attach", OWN_PID, "--", "true"],
    "no command after --": ["--"],
    "report without a file": ["report"],
    "view without a file": ["view"],
    "unknown flag of report": ["report", "--no-such-flag", "x.json"],
    "invalid duration": ["--duration", "soon", "--attach", OWN_PID],
    "negative duration": ["--duration=-3s", "--attach", OWN_PID],
    "interval of zero": ["--interval", "0s", "--attach", OWN_PID],
    "invalid interval": ["--interval", "often", "--attach", OWN_PID],
    "unknown capability": ["--without", "no-such-capability", "--attach", OWN_PID, "--duration", "300ms"],
}


@pytest.mark.parametrize("arguments", USAGE.values(), ids=USAGE.keys())
def test_usage(arguments, tmp_path):
    assert_refused(harness.run_cowprof(*arguments, cwd=tmp_path), {2})
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_flag_is_named(tmp_path):
    assert_refused(harness.run_cowprof("--no-such-flag", cwd=tmp_path), {2}, "--no-such-flag")


@pytest.mark.parametrize("flag", ["--help", "-h", "--version"])
def test_help_succeeds(flag):
    result = harness.run_cowprof(flag)
    assert (result.returncode, result.stderr) == (0, "")
    assert "cowprof" in result.stdout


@pytest.fixture
def public_cowprof(open_folder):
    """A cowprof that every user can run."""
    return shutil.copy(harness.COWPROF, open_folder / "cowprof")


def run_unprivileged(tool, folder, *arguments):
    return subprocess.run([*UNPRIVILEGED, str(tool), *map(str, arguments)], capture_output=True, text=True, cwd=folder,
                          timeout=harness.DEADLINE, stdin=subprocess.DEVNULL)


def test_another_users_process(public_cowprof, open_folder, start_workload):
    target = start_workload("fork_copies", "--pages=10", "--wait")
    target.await_line("role", "ready")
    open_folder.chmod(0o777)
    result = run_unprivileged(public_cowprof, open_folder, "--attach", target.pid, "--output", "out.json")
    assert_refused(result, {4, 5})
    assert target.popen.poll() is None


def test_own_process_without_privileges(public_cowprof, open_folder):
    """Without the privileges for probes, cowprof either says so in one line or falls back to a lesser rung."""
    open_folder.chmod(0o777)
    with subprocess.Popen([*UNPRIVILEGED, "sleep", "60"]) as target:
        try:
            harness.wait_until(lambda: truth.real_uid(target.pid) == harness.NOBODY, "setpriv to change the user")
            result = run_unprivileged(public_cowprof, open_folder, "--attach", target.pid, "--output", "out.json", "--quiet",
                                      "--duration", "300ms")
        finally:
            target.kill()
    if result.returncode:
        assert_refused(result, {5})
        assert list(open_folder.iterdir()) == [open_folder / "cowprof"], "a file was left behind"


def test_report_needs_no_privilege(public_cowprof, open_folder, start_workload, start_recording):
    target = start_workload("fork_copies", "--pages=10", "--wait")
    recording = start_recording(target.pid)
    recording.await_sample()
    recording.interrupt()
    shutil.copy(recording.path, open_folder / "recording.json")
    (open_folder / "recording.json").chmod(0o644)
    result = run_unprivileged(public_cowprof, open_folder, "report", "recording.json", "--json")
    assert (result.returncode, result.stderr) == (0, "")


# ---- The output file ----

def output_cases(folder):
    (folder / "folder").mkdir()
    return {"a folder": folder / "folder", "no such folder": folder / "none" / "out.json", "procfs": "/proc/out.json",
            "below a file": "/etc/passwd/out.json", "a device": "/dev/full"}


@pytest.mark.parametrize("case", ["a folder", "no such folder", "procfs", "below a file", "a device"])
def test_an_output_path_that_cannot_be_written(case, tmp_path, start_workload):
    target = start_workload("fork_copies", "--pages=10", "--wait")
    target.await_line("role", "ready")
    path = output_cases(tmp_path)[case]
    result = harness.run_cowprof("--attach", target.pid, "--output", path, "--duration", "300ms")
    assert_refused(result, {6}, str(path))
    assert target.popen.poll() is None


def test_an_output_path_that_cannot_be_written_keeps_the_command_from_starting(tmp_path):
    witness = tmp_path / "witness"
    result = harness.run_cowprof("--output", tmp_path / "none" / "out.json", "--", "touch", witness)
    assert_refused(result, {6}, "none")
    assert not witness.exists()


# ---- Files that are not recordings ----

NOT_RECORDINGS = {
    "empty": b"",
    "text": b"hello, world\n",
    "binary": bytes(range(256)) * 20,
    "other JSON": b'{"traceEvents": []}',
    "JSON array": b"[1, 2, 3]",
    "no records": b'{"schema": "cowprof.timeline/1"}',
    "deep": b"[" * 100_000,
    "schema of another type": b'{"schema": 1, "records": []}',
}


@pytest.mark.parametrize("command", ["report", "view"])
@pytest.mark.parametrize("content", NOT_RECORDINGS.values(), ids=NOT_RECORDINGS.keys())
def test_a_file_that_is_not_a_recording(command, content, tmp_path):
    path = tmp_path / "input.json"
    path.write_bytes(content)
    assert_refused(harness.run_cowprof(command, path, cwd=tmp_path), {2}, "input.json")


@pytest.mark.parametrize("command", ["report", "view"])
def test_a_file_without_an_end(command, tmp_path):
    assert_refused(harness.run_cowprof(command, "/dev/zero", cwd=tmp_path), {2}, "/dev/zero", "not a cowprof recording")


NEWER = {"schema": "cowprof.timeline/2", "header": {}, "records": [{"t": 0, "type": "sample"}]}
LAYOUTS = {"one line": {}, "indented": {"indent": 2}, "compact": {"separators": (",", ":")}}


@pytest.mark.parametrize("command", ["report", "view"])
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS.keys())
def test_a_newer_schema_names_both_numbers(command, layout, tmp_path):
    path = tmp_path / "newer.json"
    path.write_text(json.dumps(NEWER, **layout))
    assert_refused(harness.run_cowprof(command, path, cwd=tmp_path), {2}, "cowprof.timeline/2", "cowprof.timeline/1")


@pytest.mark.parametrize("command", ["report", "view"])
def test_a_missing_recording(command, tmp_path):
    result = harness.run_cowprof(command, tmp_path / "missing.json", cwd=tmp_path)
    assert_refused(result, {2, 4}, "missing.json")
