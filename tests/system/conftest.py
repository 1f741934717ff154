"""Fixtures of the system tests, and the account of what was skipped.

Tests run build/cowprof (or COWPROF_BUILD/cowprof) as root on real processes. A test that needs what the host lacks says so with
needs(); every skip is listed, and one that expected_skips.txt does not name fails the session. Tests in slow_tests.txt, and those
marked slow, or that need a chroot, run with --slow or -m slow only. beside_tests.txt lists the tests marked beside.
"""
import contextlib
import fnmatch
import json
import os
import shutil
import signal
import tempfile
from pathlib import Path

import pytest

import chroots
import hang_table
import harness

EXPECTED_SKIPS = Path(__file__).with_name("expected_skips.txt")
SLOW_TESTS = Path(__file__).with_name("slow_tests.txt")
BESIDE_TESTS = Path(__file__).with_name("beside_tests.txt")

# cowprof would act as the user who called sudo, who may not write pytest's folders. git lets root read their clone by SUDO_UID, or so.
if os.environ.pop("SUDO_UID", None):
    for _name in ("SUDO_GID", "SUDO_USER", "SUDO_COMMAND"):
        os.environ.pop(_name, None)
    os.environ.update(GIT_CONFIG_COUNT="1", GIT_CONFIG_KEY_0="safe.directory", GIT_CONFIG_VALUE_0=str(harness.REPOSITORY))


def patterns(path):
    """The lines of a list of tests, without comments."""
    lines = [line.split("#")[0].strip() for line in path.read_text().splitlines()]
    return [line for line in lines if line]


def needs(capability, available, reason):
    """Skips the calling test, naming the capability that this host lacks."""
    if not available:
        pytest.skip(f"{capability}: {reason}")


def version_or_skip(version):
    """A version of hang_table.py, if this machine has it."""
    lacks = hang_table.missing(version)
    if lacks:
        needs(lacks[0], False, lacks[1])
    return version


def params_to_run(request):
    """The parameters of each parametrized test of the module that is to run."""
    return [item.callspec.params for item in request.session.items if item.module is request.module and hasattr(item, "callspec")]


@pytest.fixture(scope="session", autouse=True)
def built():
    for path in (harness.COWPROF, harness.WORKLOADS / "fork_copies"):
        assert path.exists(), f"{path} is missing; build the project first (scripts/test.sh does), or set COWPROF_BUILD"
    needs("root", os.geteuid() == 0, "the probes and page frames need it; run as root")


@pytest.fixture
def start_workload():
    """start_workload(name, *arguments) starts a planted workload; stops it at the end of the test."""
    started = []

    def start(name, *arguments, **options):
        started.append(harness.Process([harness.WORKLOADS / name, *arguments], **options))
        return started[-1]

    yield start
    for process in started:
        process.stop()


@pytest.fixture(scope="session")
def chroot_of():
    """chroot_of(suite) is the chroots.Chroot of a Debian suite. Takes minutes where it is not made yet."""

    def get(suite):
        chroot, reason = chroots.chroot(suite)
        needs(f"Debian {suite}", chroot, reason)
        return chroot

    return get


@contextlib.contextmanager
def recordings(folder, **defaults):
    started = []

    def start(pid, *options, **popen_options):
        path = folder / f"recording-{len(started)}.json"
        started.append(harness.attach(pid, path, *options, **{**defaults, **popen_options}))
        return started[-1]

    try:
        yield start
    finally:
        for recording in started:
            recording.stop()


@pytest.fixture
def start_recording(tmp_path):
    """start_recording(pid, *options) attaches cowprof; stops it at the end of the test."""
    with recordings(tmp_path) as start:
        yield start


@pytest.fixture
def open_folder():
    """A folder that every user may enter (pytest's own are closed to all but root)."""
    folder = Path(tempfile.mkdtemp(prefix="cowprof-test-"))
    folder.chmod(0o755)
    yield folder

    def removed():  # podman's store is written to for a moment after its container has ended
        shutil.rmtree(folder, ignore_errors=True)
        return not folder.exists()

    harness.wait_until(removed, f"{folder} to be empty")


@pytest.fixture
def nobodys_folder(open_folder):
    os.chown(open_folder, harness.NOBODY, harness.NOBODY)
    return open_folder


@pytest.fixture
def record_as_nobody(nobodys_folder):
    """record_as_nobody(pid, *options) attaches cowprof as an ordinary user, and awaits a sample; stops it at the end of the test."""
    with recordings(nobodys_folder, **harness.AS_NOBODY) as attach:

        def start(pid, *options):
            recording = attach(pid, *options)
            recording.await_sample()
            return recording

        yield start


@pytest.fixture
def hugetlb_pool():
    """Room for 32 pages of 2 MiB in hugetlb's pool."""
    pool = Path("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages")
    needs("hugetlb", os.access(pool, os.W_OK), f"{pool} can't be raised")
    before = pool.read_text()
    pool.write_text(str(int(before) + 32))
    try:
        needs("hugetlb", int(pool.read_text()) >= int(before) + 32, "no 32 huge pages are free")
        yield
    finally:
        pool.write_text(before)


# ---- What was measured: survival_rows.py makes the table of docs/survival.md of it ----

_figures = []


@pytest.fixture
def figure():
    """figure(row, hazard, text) notes what a test measured. Printed with --figures."""
    return lambda row, hazard, text: _figures.append({"row": row, "hazard": hazard, "figure": text})


# ---- The account of skips ----

_skips = []
_failed = []


def pytest_configure(config):
    config.addinivalue_line("markers", "slow: not in the slice that runs by default; slow_tests.txt marks tests as well")
    config.addinivalue_line("markers", "beside: runs beside other tests; set by beside_tests.txt")
    # A shell in the background (and nohup) starts us with these ignored, and so would be all that we start.
    for number in signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM:
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


def pytest_addoption(parser):
    parser.addoption("--slow", action="store_true", help="run slow tests as well")
    parser.addoption("--figures", metavar="FILE", help="write what the tests measured there, as JSON")
    parser.addoption("--failed", metavar="FILE", help="write the tests that failed there")


def pytest_collection_modifyitems(config, items):
    if not any("::" in argument for argument in config.args):  # a test that is asked for by name runs
        mark_tests(items)
    items.sort(key=needs_chroot)  # they take minutes to be made, beside the tests before them
    if config.getoption("--slow") or "slow" in (config.getoption("-m") or ""):
        return
    chosen = [item for item in items if "slow" not in item.keywords]
    config.hook.pytest_deselected(items=[item for item in items if "slow" in item.keywords])
    items[:] = chosen


def needs_chroot(item):
    words = item.callspec.id.split("-") if hasattr(item, "callspec") else []
    return "chroot_of" in item.fixturenames or bool({*chroots.SUITES, "3.14"} & {word.split(", ")[-1] for word in words})


def mark(items, path, marker):
    """Marks the tests that `path` lists; returns its lines that match none."""
    listed = patterns(path)
    unused = set(listed)
    for item in items:
        name = f"{item.path.name}::{item.nodeid.split('::', 1)[1]}"
        matching = [pattern for pattern in listed if fnmatch.fnmatch(name, pattern)]
        if matching:
            item.add_marker(marker)
        unused.difference_update(matching)
    # Tests of an interpreter that this machine lacks need not exist.
    return [f"{path.name}: no test matches {pattern}" for pattern in sorted(unused) if "3." not in pattern]


def mark_tests(items):
    """A session of all files fails if a line of a list matches nothing, or if a file has only slow tests that need no chroot."""
    wrong = mark(items, SLOW_TESTS, "slow") + mark(items, BESIDE_TESTS, "beside")
    for item in filter(needs_chroot, items):
        item.add_marker("slow")
    files = {item.path.name for item in items if not needs_chroot(item)}
    fast_files = {item.path.name for item in items if "slow" not in item.keywords}
    wrong += [f"{SLOW_TESTS.name}: only slow tests in {name}" for name in sorted(files - fast_files)]
    if wrong and files >= {path.name for path in Path(__file__).parent.glob("test_*.py")}:
        raise pytest.UsageError("\n".join(wrong))


def pytest_runtest_logreport(report):
    if report.failed and report.nodeid not in _failed:
        _failed.append(report.nodeid)
    if report.skipped and not hasattr(report, "wasxfail"):
        _skips.append((report.nodeid.split("/")[-1], report.longrepr[2].removeprefix("Skipped: ")))


def _is_expected(test, reason):
    return any(fnmatch.fnmatch(f"{test} {reason.split(':')[0]}", line) for line in patterns(EXPECTED_SKIPS))


def pytest_sessionfinish(session):
    if session.config.getoption("--figures"):
        Path(session.config.getoption("--figures")).write_text(json.dumps(_figures))
    session.config.unexpected_skips = [skip for skip in _skips if not _is_expected(*skip)]
    if session.config.unexpected_skips:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    elif session.config.getoption("--failed"):  # by run.py, which repeats them
        Path(session.config.getoption("--failed")).write_text("".join(f"{session.config.rootpath}/{test}\n" for test in _failed))


def pytest_terminal_summary(terminalreporter, config):
    for test, reason in _skips:
        terminalreporter.write_line(f"skipped {test}: {reason}")
    for test, reason in getattr(config, "unexpected_skips", []):
        terminalreporter.write_line(f"UNEXPECTED SKIP, not in {EXPECTED_SKIPS.name}: {test}: {reason}", red=True)
