"""No message echoes the content of a file that cowprof is told to read by mistake (S6 in THREATS.md)."""
import json
import subprocess

import pytest

import harness

SECRET = "hunter2-hunter2"
CONTENTS = {
    "a private key": f"-----BEGIN OPENSSH PRIVATE KEY-----\n{SECRET}\n-----END OPENSSH PRIVATE KEY-----\n",
    "one line": SECRET,
    "environment": f"TOKEN={SECRET}\nOTHER={SECRET}\n",
    "a string": json.dumps(SECRET),
    "another JSON": json.dumps({"password": SECRET, SECRET: [SECRET]}),
    "JSON that is cut off": json.dumps({"password": SECRET})[:-2],
    "JSON with a mistake": f'{{"password": "{SECRET}" "x"}}',
    "a schema": json.dumps({"schema": SECRET, "header": {}, "records": []}),
    "a schema like ours": json.dumps({"schema": f"cowprof.timeline/{SECRET}", "header": {}, "records": []}),
    "a newer schema": json.dumps({"schema": "cowprof.timeline/99", "header": {SECRET: SECRET}, "records": [SECRET]}),
    "a header of another type": json.dumps({"schema": "cowprof.timeline/1", "header": SECRET, "records": []}),
    "records of another type": json.dumps({"schema": "cowprof.timeline/1", "header": {}, "records": SECRET}),
    "bytes": "\x00\x01" + SECRET + "\x1b[31m",
}
COMMANDS = {"report": ["report"], "report --json": ["report", "--json"], "view": ["view", "-o", "out.html"]}


@pytest.mark.parametrize("content", CONTENTS.values(), ids=CONTENTS.keys())
def test_content_is_never_echoed(content, tmp_path):
    path = tmp_path / "input"
    for text in content, content.replace("\n", "") + "\n" + content:
        path.write_text(text)
        for words in COMMANDS.values():
            result = harness.run_cowprof(*words, path, cwd=tmp_path)
            assert SECRET not in result.stderr and len(result.stderr.splitlines()) <= 1, (words, result.stderr)
            if result.returncode:
                assert SECRET not in result.stdout and "input" in result.stderr, (words, result)


def test_the_content_of_a_hook_that_is_not_a_program_is_never_echoed(open_folder):
    """If a file is named as the hook by mistake, no message shows its content and no shell runs any of it."""
    hook = open_folder / "hook"
    hook.write_text(f"{SECRET}\n")
    for mode in 0o644, 0o755:
        hook.chmod(mode)
        result = harness.run_cowprof("--quiet", "--on-alert", hook, "--output", open_folder / "out.json", "--alert-at", "fds=1%:100ms",
                                     "--", harness.PYTHON, "-c",
                                     "f = [open('/dev/null') for i in range(300)]; import time; time.sleep(2)",
                                     preexec_fn=limit_descriptors)
        status, says = (2, "chmod +x") if mode == 0o644 else (0, "could not be run")  # refused at the start, or fails to run
        assert result.returncode == status and result.stderr.count("--on-alert") == 1 and says in result.stderr, result
        assert SECRET not in result.stdout + result.stderr


def limit_descriptors():
    import resource
    resource.setrlimit(resource.RLIMIT_NOFILE, (400, 400))


def test_environment_of_the_target_is_not_recorded(tmp_path):
    """cowprof reads it to learn the program's allocator, and keeps nothing of it."""
    path = tmp_path / "out.json"
    result = subprocess.run([harness.COWPROF, "--quiet", "--output", path, "--", harness.PYTHON, "-c", "import time; time.sleep(0.5)"],
                            env={"PATH": "/usr/bin", "PYTHONMALLOC": "malloc", "TOKEN": SECRET}, capture_output=True, text=True, check=True)
    assert SECRET not in path.read_text() + result.stdout + result.stderr
