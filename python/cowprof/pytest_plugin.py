"""Holds tests against bounds on what their workers copy and own: docs/python.md.

A recording runs around the setup and the call of each test that asks for it. The bound is decided by `cowprof check`, the
comparison by `cowprof diff`; what they can't decide fails the test.
"""
from __future__ import annotations

import hashlib
import os
import re
import tempfile
from typing import Any, Callable, Dict, List, Optional

import pytest

from cowprof import _program
from cowprof._program import CowprofError
from cowprof._recording import Recording

_BOUNDS = {"limit_copies": "--max-copied", "limit_private": "--max-private"}
_MARKS = {
    "limit_copies(size)": "fail if the test's workers copy more than this, such as \"20 MiB\"",
    "limit_private(size)": "fail if the test's workers have more private memory than this at one time",
    "cowprof": "record the test, for --cowprof-save and --cowprof-baseline",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("cowprof")
    group.addoption("--cowprof-save", metavar="DIR", help="write the recordings of tests there, named by test")
    group.addoption("--cowprof-baseline", metavar="DIR", help="fail tests whose workers copy or own more than in the recordings there")
    group.addoption("--cowprof-require", action="store_true", help="fail tests with a bound or a baseline, instead of skipping them, where cowprof can't record or count exactly")


def pytest_configure(config: pytest.Config) -> None:
    for mark, text in _MARKS.items():
        config.addinivalue_line("markers", "{}: {}".format(mark, text))
    # Tests may change the folder.
    for name in ("cowprof_save", "cowprof_baseline"):
        if getattr(config.option, name):
            setattr(config.option, name, os.path.realpath(getattr(config.option, name)))
    if os.environ.get("COWPROF"):
        os.environ["COWPROF"] = os.path.abspath(os.environ["COWPROF"])
    if config.option.cowprof_save and config.option.cowprof_save == config.option.cowprof_baseline:
        raise pytest.UsageError("--cowprof-save and --cowprof-baseline are the same folder: recordings would replace the baseline before they are "
                                "compared with it; save to another folder")


def _hand_over(folder: str) -> None:
    """Under sudo cowprof writes as the user who called it, who has to be able to write a folder that this process made."""
    uid, gid = os.environ.get("SUDO_UID", ""), os.environ.get("SUDO_GID", "")
    if os.geteuid() == 0 and uid.isdigit() and gid.isdigit():
        os.chown(folder, int(uid), int(gid), follow_symlinks=False)


def file_of(test: str) -> str:
    """The name of a test's recording: readable, and another one for each test."""
    return "{}-{}.json".format(re.sub(r"[^\w.\[\]-]+", "_", test)[-120:], hashlib.sha256(test.encode()).hexdigest()[:8])


def _more_copies(diff: Dict[str, Any]) -> List[str]:
    """The verdict is that of the peak: where it fell, more copies would go unseen. What spawn sends is not a copy, so other start methods don't compare."""
    if diff["a"][0]["start_method"] != diff["b"][0]["start_method"]:
        return []
    return ["against its baseline (A): the workers copied {:.1f} MiB, {:.1f} MiB in A".format(row["b"]["mean"] / 2**20, row["a"]["mean"] / 2**20)
            for row in diff["figures"] if row["figure"] == "copied" and row["verdict"] == "worse"]


class _Recorded:
    def __init__(self, item: pytest.Item) -> None:
        self.bounds: List[str] = []
        for name, option in _BOUNDS.items():
            mark = item.get_closest_marker(name)
            if mark is None:
                continue
            if len(mark.args) != 1 or mark.kwargs or not isinstance(mark.args[0], str):
                raise pytest.UsageError("{}: {} takes one size with its unit, such as \"20 MiB\"".format(item.nodeid, name))
            self.bounds.append("{}={}".format(option, mark.args[0]))
        self.baseline: Optional[str] = item.config.getoption("--cowprof-baseline")
        save: Optional[str] = item.config.getoption("--cowprof-save")
        self.saves = bool(save)
        self._folder = None if save else tempfile.TemporaryDirectory(prefix="cowprof-pytest-")
        if self._folder:
            _hand_over(self._folder.name)
        elif save and not os.path.isdir(save):
            os.makedirs(save, exist_ok=True)  # another process of pytest-xdist may be as far
            _hand_over(save)
        self.name = file_of(item.nodeid)
        self.recording = Recording(os.path.join(save or (self._folder.name if self._folder else "."), self.name), interval="200ms")

    def close(self) -> None:
        self.recording.stop()
        if self._folder:
            self._folder.cleanup()

    def can_judge(self) -> bool:
        """The page map shows private memory as well, but misses copies."""
        of_copies = self.baseline or any(bound.startswith(_BOUNDS["limit_copies"]) for bound in self.bounds)
        return self.recording.exactness == "exact" or (not of_copies and self.recording.exactness == "page-map")

    def decide(self) -> List[str]:
        """What is broken or can't be decided, a sentence each."""
        failures: List[str] = []
        path = self.recording.path
        if self.bounds:
            check = _program.run_json("check", path, "--json", *self.bounds, statuses=(0, 2, 3))
            failures += [row["sentence"] for row in check["bounds"] if row["outcome"] != "kept"]
        if self.baseline:
            baseline = os.path.join(self.baseline, self.name)
            if not os.path.exists(baseline):
                return failures + ["no baseline of this test: {} is not there; make it with --cowprof-save".format(baseline)]
            diff = _program.run_json("diff", baseline, path, "--json", statuses=(0, 2))
            if not diff["comparable"]:
                failures.append("can't be compared with its baseline: " + " ".join(diff["obstacles"]))
            elif diff["verdict"] not in ("same", "better"):
                failures.append("against its baseline (A): " + diff["sentence"])
            else:
                failures += _more_copies(diff)
        return failures


_KEY = "_cowprof"
_CAN_NOT = (4, 5)  # exit statuses of cowprof: no right to look at the process; the host can't count copies


def _recorded(item: pytest.Item) -> Optional[_Recorded]:
    recorded: Optional[_Recorded] = getattr(item, _KEY, None)
    return recorded


def _wants_recording(item: pytest.Item) -> bool:
    return any(item.get_closest_marker(name) for name in (*_BOUNDS, "cowprof")) or "cowprof_report" in getattr(item, "fixturenames", ())


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before fixtures are set up, which may start workers. Not tryfirst, as pytest's own skipping is. Skips where copies to judge can't be counted exactly."""
    if not _wants_recording(item):
        return
    recorded = _Recorded(item)
    setattr(item, _KEY, recorded)
    judged = bool(recorded.bounds or recorded.baseline)
    required = judged and item.config.getoption("--cowprof-require")
    try:
        recorded.recording.start()
    except CowprofError as error:
        delattr(item, _KEY)
        said = "cowprof can't record this test: {}".format(error)
        if required or ((judged or recorded.saves) and getattr(error, "status", None) not in _CAN_NOT):
            pytest.fail(said, pytrace=False)
        pytest.skip(said)
    if judged and not recorded.can_judge():
        said = "copies can't be counted exactly here ({}): {}".format(recorded.recording.exactness, recorded.recording.why_not_exact)
        if required:
            pytest.fail(said, pytrace=False)
        pytest.skip(said)


@pytest.hookimpl(trylast=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """After the test has passed; a test that failed does not come here."""
    recorded = _recorded(item)
    if recorded is None:
        return
    try:
        recorded.recording.stop()
        report = recorded.recording.report
        item.user_properties.append(("cowprof_verdict", report["headline"]["sentence"]))
        item.user_properties.append(("cowprof_exactness", report["exactness"]["copies"]))
        item.user_properties.append(("cowprof_copied_bytes", recorded.recording.copied_bytes))
        item.user_properties.append(("cowprof_peak_private_bytes", recorded.recording.peak_private_bytes))
        failures = recorded.decide()
    except CowprofError as error:
        failures = [str(error)]
    if failures:
        pytest.fail("\n".join("cowprof: " + failure for failure in failures), pytrace=False)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    recorded = _recorded(item)
    if recorded is not None:
        delattr(item, _KEY)
        recorded.close()


@pytest.fixture
def cowprof_report(request: pytest.FixtureRequest) -> Callable[[], Dict[str, Any]]:
    """cowprof_report() ends the recording and returns its report (cowprof.report/1)."""
    recorded = _recorded(request.node)
    if recorded is None:
        pytest.fail("name cowprof_report among the test's arguments: the recording begins before its fixtures", pytrace=False)
    recording = recorded.recording

    def report() -> Dict[str, Any]:
        recording.stop()
        return recording.report

    return report
