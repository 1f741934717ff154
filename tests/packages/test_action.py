"""Runs the steps of action.yml as GitHub's runner does: inputs in place, each step a bash script, with the wheel that was made here."""
import os
import re
import subprocess

import pytest
import yaml

import harness
import places
from conftest import nobodys_folder, open_folder  # noqa: F401  pylint: disable=unused-import
from test_packages import dist, only  # noqa: F401  pylint: disable=unused-import

ACTION = yaml.safe_load((harness.REPOSITORY / "action.yml").read_text())


def test_every_input_is_used_and_every_used_one_is_declared():
    used = set(re.findall(r"\$\{\{ inputs\.(\w+) \}\}", str(ACTION["runs"])))
    assert used == set(ACTION["inputs"])
    assert all("description" in one and ("required" in one or "default" in one) for one in ACTION["inputs"].values())


def run(step, inputs, folder, **variables):
    """A step with its inputs, as the runner starts it."""
    assert step["shell"] == "bash"
    values = {name: re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda found: inputs[found[1]], value) for name, value in step.get("env", {}).items()}
    environment = {**os.environ, "RUNNER_TEMP": str(folder), "GITHUB_STEP_SUMMARY": str(folder / "summary.md"), **values, **variables}
    return subprocess.run(["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]], cwd=folder, env=environment,
                          capture_output=True, text=True, check=False)


# With an environment of its own. The runner has written its files itself.
SUDO = """#!/bin/sh
chown {user} "$RUNNER_TEMP/cowprof-environment"
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root USER=root SUDO_UID={user} SUDO_GID={user} SUDO_USER=nobody "$@"
"""


def test_the_command_of_an_ordinary_runner_has_its_user_and_environment(nobodys_folder):
    """The runner's user is nobody, by an `id` that says so."""
    programs = {"id": f"#!/bin/sh\necho {harness.NOBODY}\n", "sudo": SUDO.format(user=harness.NOBODY), "of-the-runner": "#!/bin/sh\nexec /usr/bin/id -u\n"}
    tools, cowprof = nobodys_folder / "tools", nobodys_folder / "cowprof" / "bin" / "cowprof"
    tools.mkdir()
    for name, text in programs.items():
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    cowprof.parent.mkdir(parents=True)
    cowprof.symlink_to(harness.COWPROF)
    (record,) = [step for step in ACTION["runs"]["steps"] if step["name"] == "Record"]
    inputs = {"command": 'of-the-runner >said; a_function >>said; printf "%s\n" "$LD_LIBRARY_PATH" "$PYTHONPATH" "$USER" "$WORDS" >>said', "recording": "run.json"}
    variables = {"LD_LIBRARY_PATH": str(tools), "PYTHONPATH": "src", "USER": "runner", "WORDS": "it's $HOME\n`of` two lines", "BASH_FUNC_a_function%%": "() { echo called; }"}
    done = run(record, inputs, nobodys_folder, PATH=f"{tools}:{os.environ['PATH']}", **variables)
    assert done.returncode == 0, done.stderr
    assert (nobodys_folder / "said").read_text() == "\n".join([str(harness.NOBODY), "called", str(tools), *list(variables.values())[1:4], ""])
    assert not (nobodys_folder / "cowprof-environment").exists()
    assert (nobodys_folder / "run.json").stat().st_uid == harness.NOBODY
    failing = run(record, {"command": "false | cat\necho done >done", "recording": "run.json"}, nobodys_folder, PATH=f"{tools}:{os.environ['PATH']}")
    assert failing.returncode == 1 and not (nobodys_folder / "done").exists(), failing
    checked = harness.run_cowprof("check", nobodys_folder / "run.json", "--no-diagnosis=oom-cgroup")
    assert checked.returncode == 2 and "a process did not end well" in checked.stdout, checked


@pytest.mark.parametrize("bounds, status, said", [
    pytest.param("--max-copied 1MiB", 3, "::error::cowprof: --max-copied 1MiB: copied is ", marks=pytest.mark.slow),
    pytest.param("--max-copied 1GiB", 0, "::notice::cowprof: Within the bound.", marks=pytest.mark.slow),
    ("--max-private 1GiB\n--max-copied 1MiB\n", 3, "::error::cowprof: --max-copied 1MiB: copied is ")])
def test_the_steps_record_and_check(dist, tmp_path, bounds, status, said):  # noqa: F811
    inputs = {name: one.get("default", "") for name, one in ACTION["inputs"].items()}
    inputs.update(command=f"python3 {places.WORKLOAD}", wheel=str(only(dist, "*.whl")), bounds=bounds, junit="junit.xml")
    for step in ACTION["runs"]["steps"]:
        done = run(step, inputs, tmp_path)
        if step is not ACTION["runs"]["steps"][-1]:
            assert done.returncode == 0, done.stderr
    assert done.returncode == status, done.stderr
    assert said in done.stdout
    assert (tmp_path / "summary.md").read_text().startswith("<!-- cowprof check -->")
    assert (tmp_path / "junit.xml").read_text().startswith("<?xml")
