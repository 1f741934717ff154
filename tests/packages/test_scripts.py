"""The scripts that a user runs with sudo, as sudo runs them: they work, and what they leave in a clone is the user's.

They run in a small clone whose installing, building and training are stand-ins; cowprof is real.
"""
import os
import shutil
import subprocess

import pytest

import harness
from test_output_file import SUDO

TRAINER = "import json, time\nprint(json.dumps({'event': 'ready'}), flush=True)\ntime.sleep(2)\n"
BUILD = f"#!/bin/sh\nmkdir -p build/chroots/sid && ln -sf {harness.COWPROF} build/cowprof && touch build/made build/chroots/sid/bash\n"


@pytest.fixture
def clone(nobodys_folder):
    """A clone of nobody's, with the scripts of this one."""
    files = {"scripts/install-deps.sh": "#!/bin/sh\n", "scripts/build.sh": BUILD, "tests/system/dataloader.py": TRAINER}
    for name, text in files.items():
        path = nobodys_folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    for name in ("demo.sh", "give-back.sh"):
        shutil.copy(harness.REPOSITORY / "scripts" / name, nobodys_folder / "scripts")
    subprocess.run(["chown", "-R", f"{harness.NOBODY}:{harness.NOBODY}", nobodys_folder], check=True)
    return nobodys_folder


def run(script, clone, **variables):
    environment = {"PATH": os.environ["PATH"], **variables}
    return subprocess.run([clone / "scripts" / script], capture_output=True, text=True, stdin=subprocess.DEVNULL, env=environment,
                          timeout=60 * harness.PATIENCE, check=False)


def owners(folder):
    return {path.relative_to(folder).as_posix(): path.lstat().st_uid for path in folder.rglob("*")}


def test_the_demo_under_sudo(clone):
    """Also where an earlier demo was root's own."""
    demo = clone / "demo"
    demo.mkdir()
    for name in ("timeline.json", "timeline.html"):
        (demo / name).write_text("root's")
    done = run("demo.sh", clone, **SUDO)
    assert done.returncode == 0, done.stderr
    assert harness.report_of(demo / "timeline.json")["samples"] >= 1
    assert (demo / "timeline.html").read_text().rstrip().endswith("</html>")
    roots = [name for name, owner in owners(clone).items() if owner != harness.NOBODY]
    assert sorted(roots) == ["build/chroots", "build/chroots/sid", "build/chroots/sid/bash"]


def test_nothing_is_given_away_of_a_clone_that_is_not_the_callers(clone):
    os.chown(clone, 0, 0)
    (clone / "made").touch()
    subprocess.run([clone / "scripts" / "give-back.sh", f"{harness.NOBODY}:{harness.NOBODY}"], check=True)
    assert (clone / "made").stat().st_uid == 0
