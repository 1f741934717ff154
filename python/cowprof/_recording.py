"""Records the calling process: cowprof runs beside it and reads it from outside. Nothing is injected into it."""
from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import tempfile
import time
import warnings
from types import TracebackType
from typing import IO, Any, Callable, Dict, List, Optional, Tuple, Type, Union

from cowprof import _program
from cowprof._program import CowprofError
from cowprof._timeline import Follower, Live, LiveFigures

# Of the command line; `Recording` sets those.
_OWN_OPTIONS = {"attach", "output", "quiet", "live"}
_YAMA = "/proc/sys/kernel/yama/ptrace_scope"
_PR_SET_PTRACER = 0x59616D61

_readable_by: List[int] = []  # pids whose descendants may read this process's memory, and that of those it forks; one for each recording
_prctl: Optional[Callable[..., int]] = None


class NotAttached(CowprofError):
    """cowprof could not attach: no rights, or nothing that counts copies here. The message is the line that it printed."""

    def __init__(self, message: str, status: Optional[int] = None) -> None:
        super().__init__(message)
        self.status = status  # with which cowprof ended; None: it did not end by itself


def _scratch() -> IO[bytes]:
    """A file without a name. Where no temporary folder can be written, as in many containers, in memory."""
    try:
        return tempfile.TemporaryFile()
    except OSError:
        return os.fdopen(os.memfd_create("cowprof"), "w+b")  # from Python 3.8 on


def _yama_asks() -> bool:
    try:
        with open(_YAMA, encoding="ascii") as file:
            return file.read().strip() == "1"
    except OSError:
        return False


def _let_read() -> None:
    for pid in dict.fromkeys(_readable_by):
        if _prctl is not None:
            _prctl(_PR_SET_PTRACER, pid, 0, 0, 0)


def _let_descendants_read(pid: int) -> None:
    """Lets cowprof, a child of this process, read its memory and that of those it forks, to which the permission is not handed on."""
    global _prctl
    _readable_by.append(pid)
    if _prctl is None:
        _prctl = ctypes.CDLL(None).prctl
        _prctl.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4  # type: ignore[attr-defined]
        os.register_at_fork(after_in_child=_let_read)
    _let_read()


def words_of(options: Dict[str, Any]) -> List[str]:
    """The command line's words: every_copy=True is --every-copy, without=["stacks"] is --without stacks, label={"run": "a"} is --label run=a."""
    words: List[str] = []
    for name, value in options.items():
        if name in _OWN_OPTIONS:
            raise TypeError("record() sets {} itself".format(name))
        if isinstance(value, dict):
            value = ["{}={}".format(*item) for item in value.items()]
        for one in value if isinstance(value, (list, tuple)) else [value]:
            if one is not None and one is not False:
                words.append("--" + name.replace("_", "-") + ("" if one is True else "={}".format(one)))
    return words


def _inode(path: str) -> Optional[Tuple[int, int]]:
    try:
        stat = os.stat(path)
    except OSError:
        return None
    return stat.st_dev, stat.st_ino


class Recording:
    """A recording of the calling process and all that it forks from start() to stop(), or for the time of a `with` block.

    What is already forked is recorded, too, but what it copied before is not known.
    """

    def __init__(self, path: Union[str, "os.PathLike[str]"], *, attach_seconds: float = 60, **options: Any) -> None:
        self.path = os.path.abspath(os.fspath(path))
        self._words = words_of(options)
        self._attach_seconds = attach_seconds
        self._pid = 0  # of the process that started it
        self._lets_read = False
        self._reader: Optional["subprocess.Popen[bytes]"] = None
        self._said: Optional[IO[bytes]] = None
        self._last_said = ""
        self._header: Dict[str, Any] = {}
        self._figures: Optional[LiveFigures] = None
        self._report: Optional[Dict[str, Any]] = None

    # ---- From start to stop ----

    def start(self) -> "Recording":
        """Returns when cowprof counts. Raises NotAttached if it can't."""
        if self._reader is not None:
            raise RuntimeError("{} is already being recorded".format(self.path))
        program, before = _program.find(), _inode(self.path)
        self._pid, self._report = os.getpid(), None
        command = [program, "--attach={}".format(self._pid), "--output={}".format(str(self.path).replace("%", "%%")), "--quiet", *self._words]
        try:
            if _yama_asks():
                self._lets_read = True
                _let_descendants_read(self._pid)
            self._said = _scratch()
            # A session of its own: Ctrl-C is for the program, which stops the recording when it ends.
            self._reader = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=self._said, start_new_session=True)
            self._await_sample(before)
        except BaseException:
            if self._reader is not None:
                self._reader.kill()
            self._forget()
            raise
        self._figures = LiveFigures(self.path)
        return self

    def _await_sample(self, before: Optional[Tuple[int, int]]) -> None:
        """The probes are in place before the file gets its header, and the first sample lists what is already there.

        Another process may record itself to the same path at the same time: that file is not ours.
        """
        assert self._reader is not None
        deadline = time.monotonic() + self._attach_seconds
        while True:
            ended = self._reader.poll()
            if _inode(self.path) != before:
                file = Follower(self.path)
                sampled = any(record["type"] == "sample" for record in file.read())
                if sampled and file.header and file.header["target"]["pid"] == self._pid:
                    self._header = file.header
                    return
            if ended is not None:
                raise NotAttached(self._last_line() or "cowprof ended with status {}".format(ended), ended)
            if time.monotonic() > deadline:
                raise NotAttached("cowprof has not attached within {:g} s".format(self._attach_seconds))
            time.sleep(0.005)

    def stop(self) -> None:
        """Ends the recording and completes its file. Does nothing if it is not running, or in a process that was forked meanwhile."""
        if self._reader is None or os.getpid() != self._pid:
            return
        try:
            self._reader.send_signal(signal.SIGINT)
            status = self._reader.wait(60)
            said = self._last_line()
        except subprocess.TimeoutExpired:
            self._reader.kill()
            raise CowprofError("cowprof did not complete {} within 60 s; it was killed".format(self.path)) from None
        finally:
            self._forget()
        if status not in (0, 3):  # 3: --fail-on-alert
            raise CowprofError(said or "cowprof ended with status {}".format(status))

    def _forget(self) -> None:
        if self._reader is not None:
            self._reader.wait()
        if self._said is not None:
            self._last_said = self.said
            self._said.close()
        if self._lets_read:
            self._lets_read = False
            _readable_by.remove(self._pid)
            if _readable_by:
                _let_read()
            elif _prctl is not None:
                _prctl(_PR_SET_PTRACER, 0, 0, 0, 0)
        self._reader = self._said = None

    def _last_line(self) -> str:
        return _program.last_line(self.said.encode())

    def __enter__(self) -> "Recording":
        return self.start()

    def __exit__(self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]) -> None:
        stop_or_warn(self)

    # ---- What it says ----

    @property
    def exactness(self) -> str:
        """How copies are counted: "exact", "upper-bound", "sampled", "page-map" or "unavailable". Known from start() on."""
        return str(self._header.get("plan", {}).get("exactness", "unavailable"))

    @property
    def why_not_exact(self) -> str:
        """Why the exact ways of counting were refused, as one line."""
        rejected = self._header.get("plan", {}).get("rejected", [])
        return "; ".join("{rung}: {reason}".format(**rung) for rung in rejected)

    @property
    def said(self) -> str:
        """What cowprof has printed since start(): warnings, and with serve=True the address of the page."""
        if self._said is None:
            return self._last_said
        size = os.fstat(self._said.fileno()).st_size
        return os.pread(self._said.fileno(), size, 0).decode("utf-8", "replace")  # leaves the offset, which is cowprof's, too

    def live(self) -> Live:
        """Figures while it runs, read from the end of the file."""
        if self._figures is None:
            raise RuntimeError("{} was not started".format(self.path))
        return self._figures.read()

    @property
    def report(self) -> Dict[str, Any]:
        """cowprof.report/1 of the recording; while it runs, as of its last sample, by a process that it records, too."""
        if self._reader is not None:
            return _program.run_json("report", self.path, "--json")
        if self._report is None:
            self._report = _program.run_json("report", self.path, "--json")
        return self._report

    @property
    def verdict(self) -> str:
        """The first sentence of the report."""
        return str(self.report["headline"]["sentence"])

    @property
    def copied_bytes(self) -> Optional[int]:
        """What the workers copied; None where that can't be counted."""
        report = self.report
        copied: Optional[int] = report["totals"]["workers_copied_bytes"]
        return copied if report["worker_slots"] else 0  # without workers there are no figures

    @property
    def peak_private_bytes(self) -> Optional[int]:
        """The most private memory that the workers had at one time; None where that was not seen."""
        report = self.report
        peak: Optional[int] = report["peak"]["bytes"] if report["peak"] else None
        return peak if report["worker_slots"] else 0


def stop_or_warn(recording: Recording) -> None:
    """Where the program goes on: what became of the recorder must not end it, nor hide an exception of its own."""
    try:
        recording.stop()
    except CowprofError as error:
        warnings.warn("cowprof: {}".format(error), RuntimeWarning, stacklevel=3)


def record(path: Union[str, "os.PathLike[str]"], **options: Any) -> Recording:
    """`with record("run.json") as r:` records the block. Options are those of the command line: interval="200ms", every_copy=True."""
    return Recording(path, **options)
