"""The scripts that a user runs with sudo, as sudo runs them: they work, and what they leave in a clone is the user's.

They run in a small clone whose installing, building and training are stand-ins; cowprof is real.
"""
import os
import shutil
import subprocess

import pytest

import harness
from conftest import nobodys_folder, open_folder  # noqa: F401  pylint: disable=unused-import
from test_output_file import SUDO

# Stands in for the tests: what they get of sudo, whether git reads the clone, and a file that they make.
CTEST = """import os, pathlib, subprocess
pathlib.Path("build/tested").touch()
print(sorted(name for name in os.environ if name.startswith("SUDO_")), subprocess.run(["git", "status", "--short"], capture_output=True).returncode)
"""
TRAINER = """import json, os, time
print(json.dumps({"event": "ready"}), flush=True)
while not os.path.exists("demo/timeline.json"):
    time.sleep(0.05)
time.sleep(1)
"""
BUILD = f"#!/bin/sh\nmkdir -p build/chroots/sid && ln -sf {harness.COWPROF} build/cowprof && touch build/made build/chroots/sid/bash\n"


@pytest.fixture
def clone(nobodys_folder):
    """A clone of nobody's, with the scripts of this one."""
    files = {"scripts/install-deps.sh": "#!/bin/sh\n", "scripts/build.sh": BUILD, "scripts/run-ctest.py": CTEST, "tests/system/dataloader.py": TRAINER}
    for name, text in files.items():
        path = nobodys_folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)
    for name in ("demo.sh", "test.sh", "give-back.sh"):
        shutil.copy(harness.REPOSITORY / "scripts" / name, nobodys_folder / "scripts")
    subprocess.run(["git", "init", "--quiet", nobodys_folder], check=True)
    subprocess.run(["chown", "-R", f"{harness.NOBODY}:{harness.NOBODY}", nobodys_folder], check=True)
    return nobodys_folder


def run(script, clone, **variables):
    environment = {"PATH": os.environ["PATH"], **variables}
    return subprocess.run([clone / "scripts" / script], capture_output=True, text=True, stdin=subprocess.DEVNULL, env=environment,
                          timeout=60 * harness.PATIENCE, check=False)


def of_root(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.lstat().st_uid == 0)


TREES = ["build/chroots", "build/chroots/sid", "build/chroots/sid/bash"]  # of Debian: root's, as they have to be


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
    assert of_root(clone) == TREES


def test_the_tests_under_sudo(clone):
    """None acts as the caller, and git takes the caller's clone from root."""
    done = run("test.sh", clone, **SUDO)
    assert (done.returncode, done.stdout) == (0, "[] 0\n"), done.stderr
    assert of_root(clone) == TREES


def test_nothing_is_given_away_of_a_clone_that_is_not_the_callers(clone):
    os.chown(clone, 0, 0)
    (clone / "made").touch()
    subprocess.run([clone / "scripts" / "give-back.sh", f"{harness.NOBODY}:{harness.NOBODY}"], check=True)
    assert (clone / "made").stat().st_uid == 0


# ---- What is not packed ----


def package(folder, cache="", binary=""):
    """package.sh in a folder whose build is made already: a script, configured so."""
    shutil.copytree(harness.REPOSITORY / "packaging", folder / "packaging")
    (folder / "scripts").mkdir()
    shutil.copy(harness.REPOSITORY / "scripts" / "package.sh", folder / "scripts")
    for name, text in {"scripts/build.sh": "", "packaging/licences.py": "", "build/cowprof_static": binary, "build/CMakeCache.txt": cache}.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(f"#!/bin/sh\n{text}")
        (folder / name).chmod(0o755)
    return subprocess.run([folder / "scripts" / "package.sh"], capture_output=True, text=True, check=False, env={**os.environ, "SOURCE_DATE_EPOCH": "1"})


@pytest.mark.parametrize("option", ["COWPROF_FILTER_KILLS:BOOL=ON", "COWPROF_SANITIZE:BOOL=1", "CMAKE_BUILD_TYPE:STRING=Debug"])
def test_only_a_release_is_packed(option, tmp_path):
    done = package(tmp_path, f"CMAKE_BUILD_TYPE:STRING=RelWithDebInfo\nCOWPROF_FUZZ:BOOL=OFF\n{option}\n")
    assert done.returncode == 1 and f"build/ is not a release build: {option}; run: cmake --preset release" in done.stderr, done.stderr
    assert not list((tmp_path / "dist").iterdir())


@pytest.mark.parametrize("words, path", [("--man", "usr/share/man/man1/cowprof.1"), ("completions zsh", "usr/share/zsh/vendor-completions/_cowprof")])
def test_what_the_binary_does_not_print_is_not_left_out(words, path, tmp_path):
    done = package(tmp_path, "COWPROF_SANITIZE:BOOL=OFF\n", f'[ "$*" != "{words}" ] && echo cowprof 0.1.0\n')
    assert done.returncode == 1 and f"package.sh: cowprof {words} failed, which should print {path}\n" in done.stderr, done.stderr
    assert not list((tmp_path / "dist").iterdir())
