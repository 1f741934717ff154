"""Runs workloads and cowprof for the system tests, and reads their output.

Owns command lines and waiting: everything waits for an event with a deadline; nothing sleeps and hopes. Checks only what must
hold for every recording: the schemas, and that a healthy run lost nothing.
"""
import contextlib
import json
import os
import re
import signal
import subprocess
import threading
import time
from pathlib import Path

import jsonschema

import truth

REPOSITORY = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("COWPROF_BUILD", REPOSITORY / "build")).resolve()
COWPROF = BUILD / "cowprof"
WORKLOADS = BUILD / "workloads"
PYTHON = "/usr/bin/python3"  # the distribution's, because it has torch
# How many times slower than an idle machine this one may be. Emulated guests set it.
PATIENCE = float(os.environ.get("COWPROF_TEST_PATIENCE", 1))
DEADLINE = 30.0 * PATIENCE  # seconds, for what takes one second on an idle machine
PAGE = os.sysconf("SC_PAGE_SIZE")
NOBODY = 65534
AS_NOBODY = {"user": NOBODY, "group": NOBODY, "extra_groups": []}  # Popen options
TO_NOBODY = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]  # command prefix


def wait_until(condition, what, seconds=DEADLINE, pause=0.005):
    """Polls condition() until it is true, and returns that value."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"waited {seconds:g} s for {what}"
        time.sleep(pause)


class Process:
    """A child process whose stdout is read line by line, as JSON, while it runs."""

    def __init__(self, command, **options):
        self.popen = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                      text=True, **options)
        self.pid = self.popen.pid
        self.lines = []
        self._news = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for text in self.popen.stdout:
            with self._news:
                self.lines.append(json.loads(text))
                self._news.notify_all()

    def await_line(self, key, value, seconds=DEADLINE):
        def matching():
            return next((line for line in self.lines if line.get(key) == value), None)
        with self._news:
            assert self._news.wait_for(matching, seconds), f"no line with {key}={value} in {seconds:g} s"
            return matching()

    def go(self):
        """Sends the line for which --wait waits."""
        self.popen.stdin.write("\n")
        self.popen.stdin.flush()

    def close_stdin(self):
        if not self.popen.stdin.closed:
            self.popen.stdin.close()

    def finish(self, seconds=DEADLINE):
        """Closes stdin, waits for the process to end, returns all lines."""
        self.close_stdin()
        self.popen.wait(seconds)
        self._reader.join(seconds)
        return self.lines

    def stop(self):
        """Kills it with its workers: those of a DataLoader notice after five seconds, or never, that their trainer is gone, and
        hold its stdout until then."""
        if self.popen.poll() is None:
            kill_tree(self.pid)
        self.finish()


def kill_tree(root):
    for pid in truth.tree(root):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def inside(pid, path):
    """A path as that process sees it in its mount namespace."""
    return Path("/proc", str(pid), "root", path)


def bytes_read(pid):
    """Bytes the process has read(2) so far, from any file."""
    return int(re.search(r"rchar: (\d+)", (Path("/proc") / str(pid) / "io").read_text()).group(1))


def load_json(path):
    return json.loads(Path(path).read_text())


def validate(document, schema_file):
    path = REPOSITORY / "schema" / schema_file
    assert path.exists(), f"{path} is missing"
    jsonschema.Draft202012Validator(load_json(path)).validate(document)


def records_of(path):
    """Records of a running recording; none if the file does not exist yet or is being written right now."""
    try:
        return load_json(path)["records"]
    except (FileNotFoundError, json.JSONDecodeError):
        return []


def last_record(path):
    """The last record of a running recording; {} if there is none yet, or it is being written right now."""
    return (records_of(path) or [{}])[-1]


def end_of(path):
    """Seconds covered so far by the recording at `path`."""
    return max((record["t"] for record in records_of(path)), default=0)


def has_sample(path):
    """True once the recording at `path` holds a sample, which means that the target is tracked."""
    return any(record["type"] == "sample" for record in records_of(path))


def run_cowprof(*arguments, seconds=DEADLINE, **options):
    """Runs cowprof to completion; returns the CompletedProcess with text streams."""
    return subprocess.run([str(COWPROF), *map(str, arguments)], capture_output=True, text=True, timeout=seconds,
                          stdin=subprocess.DEVNULL, **options)


def report_of(path):
    """The JSON report on a recording."""
    result = run_cowprof("report", path, "--json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def doctor(*arguments):
    """The JSON document of `cowprof doctor`, and the exit status."""
    result = run_cowprof("doctor", "--json", *arguments)
    assert len(result.stderr.splitlines()) == (result.returncode != 0), result.stderr
    document = json.loads(result.stdout)
    validate(document, "doctor.schema.json")
    return document, result.returncode


def start_readers(workers=2):
    """Starts steady_readers.py and waits until its workers run."""
    process = Process([PYTHON, REPOSITORY / "tests" / "system" / "workloads" / "steady_readers.py", workers])
    process.await_line("event", "ready")
    return process


class Recording:
    """A recording cowprof and the file it writes."""

    said = None  # the file that its stdout goes to, where what it says is checked

    def __init__(self, path, arguments, **options):
        self.path = Path(path)
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        self.popen = subprocess.Popen([str(COWPROF), *map(str, arguments)], text=True, **streams)
        self.pid = self.popen.pid
        self.stderr = ""

    def await_sample(self, seconds=DEADLINE):
        def sampled():
            ended = self.popen.poll()
            assert ended is None, f"cowprof ended with {ended}: {self.popen.stderr.read()}"
            return has_sample(self.path)
        wait_until(sampled, f"the first sample in {self.path}", seconds)

    def send(self, number):
        self.popen.send_signal(number)

    def wait(self, seconds=DEADLINE):
        """Waits for cowprof to end and returns its exit status; `stderr` holds its messages. Too late: kills it, with a program that it started."""
        try:
            _, self.stderr = self.popen.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            kill_tree(self.pid)
            raise
        if self.said is not None:
            check_said(self.said.read_text(), self.path)
        return self.popen.returncode

    def interrupt(self):
        self.send(signal.SIGINT)
        assert self.wait() == 0, self.stderr

    def stop(self):
        if self.popen.poll() is None:
            self.popen.kill()
        if not (self.popen.stderr and self.popen.stderr.closed):
            self.popen.communicate()

    def timeline(self):
        document = load_json(self.path)
        validate(document, "timeline.schema.json")
        return document

    def report(self, healthy=True, seconds=DEADLINE):
        result = run_cowprof("report", self.path, "--json", seconds=seconds)
        assert result.returncode == 0, result.stderr
        document = json.loads(result.stdout)
        validate(document, "report.schema.json")
        # probes_skipped is only an upper bound on missing copies, on kernels that can preempt probes.
        lost = {name: count for name, count in document["losses"].items() if count and name != "probes_skipped"}
        assert not healthy or not lost, lost
        return document


def check_said(said, path):
    """Checks that what cowprof said at the end of a recording is what a replay of the file says.

    Beyond 128 ended processes the recorder keeps sums where a replay still has rows."""
    live, end, _ = said.rpartition("\nrecorded in ")
    if not end or sum(record.get("event") == "exit" for record in records_of(path)) > 128:
        return
    replay = run_cowprof("report", path)
    assert replay.returncode == 0, replay.stderr
    text = replay.stdout.partition("\n  ranks\n")[0]  # which takes a second reading
    assert live.endswith(f"\n{text}"), (
        f"said live:\n{live[-len(replay.stdout):]}\nsaid of the file:\n{replay.stdout}")


def attach(pid, path, *options, **popen_options):
    """Starts a recording of `pid`. Unless it is --quiet, wait() checks that a replay of the file says what cowprof said at the end."""
    assert not Path(path).exists(), "an old recording would be mistaken for the new one"
    arguments = ["--attach", pid, "--output", path, *options]
    if "--quiet" in options or "stdout" in popen_options:
        return Recording(path, arguments, **popen_options)
    said = Path(f"{path}.said")
    with open(said, "w") as stdout:
        recording = Recording(path, arguments, stdout=stdout, **popen_options)
    recording.said = said
    return recording


def rows_of(report, pid):
    """All rows of one process in a report. Use row_of() where exactly one is expected."""
    return [row for row in [report["parent"], *report["workers"]] if row["pid"] == pid]


def row_of(report, pid):
    rows = rows_of(report, pid)
    assert len(rows) == 1, f"process {pid} has {len(rows)} rows in the report"
    return rows[0]
