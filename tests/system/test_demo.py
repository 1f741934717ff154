"""`cowprof demo`: with root and without, in odd places, and what keeps it from starting. It is the smoke test of packages."""
import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

import harness
from test_bad_input import UNPRIVILEGED, assert_refused

SAVED = re.compile(r"the\s+workers\s+copied\s+([0-9.]+ \w+)\s+instead\s+of\s+([0-9.]+ \w+)\s+\(([0-9.]+)\s+%\s+less\)")
UNITS = {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
TIME = 60 * harness.PATIENCE


@pytest.fixture
def tool(open_folder):
    """A cowprof that everybody can run, in a folder that everybody can write."""
    open_folder.chmod(0o777)
    return shutil.copy(harness.COWPROF, open_folder / "cowprof")


def run(tool, folder, *words, prefix=(), **variables):
    environment = {"PATH": "/usr/bin:/bin", "TMPDIR": str(folder), **variables}
    return subprocess.run([*prefix, tool, "demo", *words], capture_output=True, text=True, cwd=folder, env=environment,
                          timeout=TIME, stdin=subprocess.DEVNULL, check=False)


def bytes_of(figure):
    number, unit = figure.split()
    return float(number) * UNITS[unit]


def recorded(result):
    """The paths of both recordings; also checks what every demo says."""
    assert result.returncode == 0, result.stderr
    after, before, _ = SAVED.search(result.stdout).groups()
    paths = re.search(r"Both recordings: (\S+) and\s+(\S+)", result.stdout).groups()
    page = 4096
    for path, said in zip(paths, (before, after)):
        report = harness.report_of(path)
        harness.validate(report, "report.schema.json")
        copied = page * sum(row["copies"] for row in report["workers"])
        assert abs(copied - bytes_of(said)) <= 0.001 * copied + page, (said, copied)
    # 400,000 str, each at least 88 bytes in a page that both workers read.
    assert bytes_of(before) >= 2 * 400_000 * 88 and bytes_of(after) < 0.1 * bytes_of(before)
    assert harness.report_of(paths[0])["headline"]["diagnosis"] == "cow-refcount"
    assert all(len(line) <= 80 for line in result.stdout.splitlines() if line.startswith(("The ", "Both ", "Reading ")))
    return paths


@pytest.mark.slow
def test_without_root(tool, open_folder):
    """It says what it can't see; the page is opened where there is a desktop; nothing else is left behind."""
    opener = open_folder / "bin" / "xdg-open"
    opener.parent.mkdir()
    opener.write_text(f'#!/bin/sh\necho "$1" >{open_folder}/opened.part && mv {open_folder}/opened.part {open_folder}/opened\n')
    opener.chmod(0o755)
    result = run(tool, open_folder, prefix=UNPRIVILEGED, PATH=f"{opener.parent}:/usr/bin:/bin", DISPLAY=":7")
    paths = recorded(result)
    assert harness.report_of(paths[0])["exactness"]["rung"] == "page-map"
    assert "CAP_BPF, CAP_PERFMON missing" in " ".join(result.stdout.split())
    page = open_folder / "cowprof-demo.html"
    assert f"The page: {page}\n" in result.stdout and page.stat().st_uid == harness.NOBODY
    harness.wait_until((open_folder / "opened").exists, "xdg-open")
    assert (open_folder / "opened").read_text() == f"{page}\n"
    kept = {os.path.dirname(path) for path in paths}
    assert {str(path) for path in open_folder.glob("cowprof-demo-*")} == kept
    assert not list(open_folder.rglob("demo.py"))


@pytest.mark.slow
def test_under_sudo(tool, open_folder):
    """Lines are named; what is left behind belongs to who called sudo."""
    result = run(tool, open_folder, SUDO_UID="4321", SUDO_GID="4321", SUDO_USER="somebody")
    paths = recorded(result)
    assert harness.report_of(paths[0])["exactness"]["copies"] == "exact"
    assert "at demo.py:" in " ".join(result.stdout.split())
    for path in [open_folder / "cowprof-demo.html", *paths, os.path.dirname(paths[0])]:
        assert os.stat(path).st_uid == 4321
    assert len(list(open_folder.glob("cowprof-demo-*"))) == 1


@pytest.mark.slow
def test_a_temporary_folder_without_execution_and_a_folder_that_is_read_only(tool, open_folder):
    (open_folder / "home").mkdir()
    script = ('mount -t tmpfs -o noexec,mode=1777 tmpfs "$1/tmp" && mount --bind -o ro "$1/home" "$1/home" && cd "$1/home" && '
              'shift && exec "$@"')
    (open_folder / "tmp").mkdir()
    enter = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", open_folder]
    result = run(tool, open_folder, prefix=enter, TMPDIR=str(open_folder / "tmp"))
    assert result.returncode == 0, result.stderr
    assert SAVED.search(result.stdout)
    assert "The page can't be in this folder" in result.stdout and "Read-only file system" in " ".join(result.stdout.split())
    assert re.search(rf"The page: {open_folder}/tmp/cowprof-demo-\w+/demo.html\n", result.stdout)


# ---- Stopped before its end ----


def start(tool, folder, *words, **variables):
    environment = {"PATH": "/usr/bin:/bin", "TMPDIR": str(folder), **variables}
    return subprocess.Popen([tool, "demo", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=folder, env=environment,
                            stdin=subprocess.DEVNULL, start_new_session=True)


def await_text(demo, text):
    printed = []
    for line in demo.stdout:
        printed.append(line)
        if text in line:
            return
    raise AssertionError(f"no {text!r} in {''.join(printed)}")


def command_of(process):
    try:
        return (process / "cmdline").read_bytes()
    except OSError:
        return b""


def check_stopped(demo, folder, status):
    """The recording is whole, and nothing that ran is left. Returns its path and what was printed since."""
    printed, _ = demo.communicate(timeout=TIME)
    assert demo.returncode == status, printed
    assert "Traceback" not in printed, printed
    path = re.search(r"cowprof: demo: stopped, so nothing is compared; recorded until then: (\S+)\n$", printed)[1]
    assert harness.records_of(path)[-1]["type"] == "end"
    assert not [process for process in Path("/proc").glob("[0-9]*") if bytes(folder) in command_of(process)]
    assert not list(folder.rglob("demo.py"))
    return path, printed


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c(times, tool, open_folder):
    """It reaches every process of the terminal. What there was until then is explained."""
    demo = start(tool, open_folder)
    await_text(demo, "  2 workers  copied 4")
    for _ in range(times):
        os.killpg(demo.pid, signal.SIGINT)
    path, printed = check_stopped(demo, open_folder, 130)
    assert "Reading Python objects duplicated" in printed
    page = open_folder / "cowprof-demo.html"
    assert f"The page: {page}\n" in printed and page.read_text().endswith("</html>\n")
    split = harness.report_of(path)["peak"]["split"]
    assert split["new"] < 0.1 * split["copied"], split


@pytest.mark.slow
@pytest.mark.parametrize("caller", ["4321", "0", None])
def test_root_on_a_desktop(caller, tool, open_folder):
    """Only the user who called sudo opens the page. SIGTERM reaches the demo alone."""
    programs = open_folder / "bin"
    programs.mkdir()
    for name in ("sudo", "xdg-open"):
        (programs / name).write_text(f'#!/bin/sh\necho {name} "$@" >>{open_folder}/opened\n')
        (programs / name).chmod(0o755)
    sudo = {"SUDO_UID": caller, "SUDO_GID": caller} if caller else {}
    demo = start(tool, open_folder, PATH=f"{programs}:/usr/bin:/bin", DISPLAY=":7", WAYLAND_DISPLAY="wayland-0", **sudo)
    await_text(demo, "The same with rows that are in buffers")
    await_text(demo, "  2 workers  copied")
    demo.terminate()
    check_stopped(demo, open_folder, 143)
    opened = (open_folder / "opened").read_text() if (open_folder / "opened").exists() else ""
    page = open_folder / "cowprof-demo.html"
    variables = "DISPLAY,WAYLAND_DISPLAY,XAUTHORITY,XDG_RUNTIME_DIR"
    assert opened == (f"sudo -n -H -u #4321 --preserve-env={variables} -- {programs}/xdg-open {page}\n" if caller == "4321" else "")


# ---- What keeps it from starting ----


def fake_python(folder, script, mode=0o755):
    path = folder / "fake" / "python3"
    path.parent.mkdir()
    path.write_text(script)
    path.chmod(mode)
    return str(path.parent)


def test_no_python(tool, open_folder):
    (open_folder / "empty").mkdir()
    assert_refused(run(tool, open_folder, PATH=str(open_folder / "empty")), {5}, "no python3 on the PATH", "install")


def test_a_python_that_is_too_old(tool, open_folder):
    path = fake_python(open_folder, "#!/bin/sh\necho 3.5.2\n")
    assert_refused(run(tool, open_folder, PATH=path), {5}, "is Python 3.5.2", "3.6 to 3.14")


@pytest.mark.parametrize("script", ["#!/bin/sh\nexit 1\n", "not a program\n", "#!/no/such/interpreter\n"])
def test_a_python_that_does_not_run(script, tool, open_folder):
    assert_refused(run(tool, open_folder, PATH=fake_python(open_folder, script)), {5}, "fake/python3 can't be run")


def test_a_python_that_may_not_be_read(tool, open_folder):
    """The kernel then keeps its processes from everybody but root."""
    folder = open_folder / "bin"
    folder.mkdir()
    shutil.copy("/usr/bin/python3", folder / "python3")
    (folder / "python3").chmod(0o711)
    result = run(tool, open_folder, prefix=UNPRIVILEGED, PATH=f"{folder}:/usr/bin:/bin")
    assert result.returncode == 5
    assert "bin/python3 may not be read by this user" in result.stderr and len(result.stderr.splitlines()) == 1


def test_no_temporary_folder(tool, open_folder):
    assert_refused(run(tool, open_folder, TMPDIR=str(open_folder / "none")), {6}, "none", "TMPDIR")


def test_a_page_that_cannot_be_written_is_said_before_anything_runs(tool, open_folder):
    assert_refused(run(tool, open_folder, "-o", "none/page.html"), {6}, "none/page.html")
    assert not list(open_folder.glob("cowprof-demo-*"))
