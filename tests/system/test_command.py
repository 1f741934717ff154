"""`cowprof -- CMD` is transparent: streams, signals and exit status are the command's own."""
import os
import pty
import signal
import subprocess

import pytest

import harness
import truth

STATUSES = {"exit 0": 0, "exit 7": 7, "kill -KILL $$": 137, "kill -TERM $$": 143, "kill -SEGV $$": 139}


def run_command(folder, *command, **options):
    path = folder / "command.json"
    arguments = [str(harness.COWPROF), "--output", str(path), "--quiet", "--", *map(str, command)]
    options = {"capture_output": True, "text": True, "timeout": harness.DEADLINE, **options}
    return subprocess.run(arguments, **options), path


@pytest.mark.parametrize("script,status", STATUSES.items())
def test_exit_status_of_the_command_passes_through(script, status, tmp_path):
    result, path = run_command(tmp_path, "sh", "-c", script)
    assert (result.returncode, result.stdout, result.stderr) == (status, "", "")
    assert harness.load_json(path)["records"][-1]["type"] == "end"


def test_streams_pass_through(tmp_path):
    script = "cat; echo to-stderr >&2; printf 'no newline'"
    result, _ = run_command(tmp_path, "sh", "-c", script, input="line one\nline two\n")
    assert result.stdout == "line one\nline two\nno newline"
    assert result.stderr == "to-stderr\n"


def test_arguments_environment_and_folder_pass_through(tmp_path):
    script = 'printf "%s|" "$@"; printf %s "$COWPROF_TEST_VALUE|"; pwd'
    result, _ = run_command(tmp_path, "sh", "-c", script, "sh", "a b", "", "--quiet", "--", "é", cwd=tmp_path,
                            env={"PATH": "/usr/bin:/bin", "COWPROF_TEST_VALUE": "kept"})
    assert result.stdout == f"a b||--quiet|--|é|kept|{tmp_path}\n"


@pytest.mark.parametrize("name", ["TERM", "INT", "HUP"])
def test_signals_pass_through(name, tmp_path):
    path = tmp_path / "signal.json"
    script = f"trap 'echo got {name}; exit 42' {name}; echo ready; while :; do sleep 0.02; done"
    command = [str(harness.COWPROF), "--output", str(path), "--quiet", "--", "sh", "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            process.send_signal(getattr(signal, f"SIG{name}"))
            stdout, stderr = process.communicate(timeout=harness.DEADLINE)
        finally:
            process.kill()
    assert (process.returncode, stdout, stderr) == (42, f"got {name}\n", "")
    assert harness.load_json(path)["records"][-1]["type"] == "end"


def test_stdout_belongs_to_the_command_even_without_quiet(tmp_path):
    result = harness.run_cowprof("--output", tmp_path / "loud.json", "--", "echo", "only this")
    assert (result.returncode, result.stdout) == (0, "only this\n")


def read_terminal(terminal, until):
    """Output of a terminal, up to `until` or its end."""
    text = ""
    while until not in text:
        try:
            chunk = os.read(terminal, 4096).decode()
        except OSError:  # the last process closed it
            break
        if not chunk:
            break
        text += chunk
    return text


def test_ctrl_c_at_a_terminal_reaches_the_command_once(tmp_path):
    path = tmp_path / "terminal.json"
    script = "trap 'n=$((n+1))' INT; echo ready; while [ -z \"$n\" ]; do sleep 0.02; done; sleep 0.3; echo got $n; exit 42"
    pid, terminal = pty.fork()
    if not pid:
        os.execv(harness.COWPROF, ["cowprof", "--output", str(path), "--quiet", "--", "sh", "-c", script])
    try:
        assert "ready" in read_terminal(terminal, "ready")
        os.write(terminal, b"\x03")
        assert "got 1" in read_terminal(terminal, "got 1")
        _, status = os.waitpid(pid, 0)
        assert os.waitstatus_to_exitcode(status) == 42
    finally:
        os.close(terminal)
    assert harness.load_json(path)["records"][-1]["type"] == "end"


def one_line(text):
    lines = text.splitlines()
    assert len(lines) == 1, f"expected one line, got {text!r}"
    return lines[0]


def test_a_missing_command(tmp_path):
    result, _ = run_command(tmp_path, "no-such-command-here")
    assert result.returncode == 127
    assert "no-such-command-here" in one_line(result.stderr)


def test_a_command_that_cannot_be_executed(tmp_path):
    plain = tmp_path / "plain.txt"
    plain.write_text("not a program\n")
    plain.chmod(0o644)
    result, _ = run_command(tmp_path, plain)
    assert result.returncode == 126
    assert str(plain) in one_line(result.stderr)


def test_the_command_is_profiled_from_its_first_instruction(tmp_path):
    """The command's very first child is in the report with all its copies."""
    result, path = run_command(tmp_path, harness.WORKLOADS / "fork_copies", "--pages=5000")
    assert result.returncode == 0
    (child,) = harness.report_of(path)["workers"]
    assert abs(child["copies"] - 5000) <= 25 + 20


def test_descriptors_do_not_leak_into_the_command(tmp_path):
    """The command has exactly the descriptors with which cowprof was started."""
    bare = subprocess.run(["sh", "-c", "ls /proc/self/fd"], capture_output=True, text=True, check=True).stdout
    result, _ = run_command(tmp_path, "sh", "-c", "ls /proc/self/fd")
    assert result.stdout.split() == bare.split()


def test_the_command_keeps_its_signal_dispositions_and_mask(tmp_path):
    script = "grep -E '^Sig(Blk|Ign|Cgt)' /proc/self/status"
    bare = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout
    result, _ = run_command(tmp_path, "sh", "-c", script)
    assert result.stdout == bare


def test_signals_still_reach_a_command_that_outlives_its_recording(tmp_path):
    path = tmp_path / "command.json"
    script = "trap 'kill $!; exit 7' TERM; sleep 60 & wait"
    with subprocess.Popen([harness.COWPROF, "--output", path, "--quiet", "--duration", "300ms", "--", "sh", "-c", script]) as cowprof:
        harness.wait_until(lambda: any(record["type"] == "end" for record in harness.records_of(path)), "the end of the recording")
        assert cowprof.poll() is None
        cowprof.terminate()
        assert cowprof.wait(harness.DEADLINE) == 7


def test_a_command_that_outlives_a_recording_that_was_lost_is_awaited(tmp_path):
    path = tmp_path / "command.json"
    script = "trap 'kill $!; echo terminated; exit 7' TERM; sleep 60 & wait"
    command = [harness.COWPROF, "--output", path, "--quiet", "--duration", "2s", "--", "sh", "-c", script]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as cowprof:
        harness.wait_until(lambda: harness.has_sample(path), "a sample")
        path.unlink()
        assert any("the recording is lost" in line for line in cowprof.stderr)
        cowprof.terminate()
        assert cowprof.stdout.readline() == "terminated\n"
        assert cowprof.wait(harness.DEADLINE) == 6


def test_the_probes_end_with_the_recording_and_not_with_the_command(tmp_path):
    path = tmp_path / "command.json"
    with subprocess.Popen([harness.COWPROF, "--output", path, "--quiet", "--duration", "2s", "--", "sleep", "60"]) as cowprof:
        harness.wait_until(lambda: harness.has_sample(path), "a sample")
        assert truth.kernel_objects(cowprof.pid)
        harness.wait_until(lambda: not truth.kernel_objects(cowprof.pid), "the probes to be detached")
        assert harness.last_record(path)["type"] == "end"
        cowprof.terminate()
        assert cowprof.wait(harness.DEADLINE) == 128 + signal.SIGTERM
