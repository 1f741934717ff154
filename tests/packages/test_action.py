"""Runs the steps of action.yml as GitHub's runner does: inputs in place, each step a bash script, with the wheel that was made here."""
import os
import re
import subprocess

import pytest
import yaml

import harness
import places
from test_packages import dist, only  # noqa: F401  pylint: disable=unused-import

ACTION = yaml.safe_load((harness.REPOSITORY / "action.yml").read_text())


def test_every_input_is_used_and_every_used_one_is_declared():
    used = set(re.findall(r"\$\{\{ inputs\.(\w+) \}\}", str(ACTION["runs"])))
    assert used == set(ACTION["inputs"])
    assert all("description" in one and ("required" in one or "default" in one) for one in ACTION["inputs"].values())


@pytest.mark.parametrize("bounds, status, said", [
    ("--max-copied 1MiB", 3, "::error::cowprof: --max-copied 1MiB: copied is "), ("--max-copied 1GiB", 0, "::notice::cowprof: Kept: the bound.")])
def test_the_steps_record_and_check(dist, tmp_path, bounds, status, said):  # noqa: F811
    inputs = {name: one.get("default", "") for name, one in ACTION["inputs"].items()}
    inputs.update(command=f"python3 {places.WORKLOAD}", wheel=str(only(dist, "*.whl")), bounds=bounds, junit="junit.xml")
    environment = {**os.environ, "RUNNER_TEMP": str(tmp_path), "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md")}
    for step in ACTION["runs"]["steps"]:
        assert step["shell"] == "bash"
        values = {name: re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda found: inputs[found[1]], value)
                  for name, value in step.get("env", {}).items()}
        done = subprocess.run(["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]], cwd=tmp_path,
                              env={**environment, **values}, capture_output=True, text=True, check=False)
        if step is not ACTION["runs"]["steps"][-1]:
            assert done.returncode == 0, done.stderr
    assert done.returncode == status, done.stderr
    assert said in done.stdout
    assert (tmp_path / "summary.md").read_text().startswith("<!-- cowprof check -->")
    assert (tmp_path / "junit.xml").read_text().startswith("<?xml")
