"""Runs workloads and cowprof for the system tests, and reads back what they say.

Owns the spelling of command lines and the waiting: everything waits for an event with a deadline, nothing sleeps and hopes.
Judges only what must hold of every recording: the schemas, and that a healthy run lost nothing.
"""
import json
import os
import re
import signal
import subprocess
import threading
import time
from pathlib import Path

import jsonschema

REPOSITORY = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("COWPROF_BUILD", REPOSITORY / "build")).resolve()
COWPROF = BUILD / "cowprof"
WORKLOADS = BUILD / "workloads"
PYTHON = "/usr/bin/python3"  # the distribution's: it has torch
# How much slower than an idle machine this one may be; an emulated one is.
PATIENCE = float(os.environ.get("COWPROF_TEST_PATIENCE", 1))
DEADLINE = 30.0 * PATIENCE  # seconds; for what takes a second on an idle machine
PAGE = os.sysconf("SC_PAGE_SIZE")
NOBODY = 65534
AS_NOBODY = {"user": NOBODY, "group": NOBODY, "extra_groups": []}  # options of Popen
TO_NOBODY = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]  # before a command


def wait_until(condition, what, seconds=DEADLINE, pause=0.005):
    """Returns the first true value of condition()."""
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
        """Sends the line that --wait waits for."""
        self.popen.stdin.write("\n")
        self.popen.stdin.flush()

    def close_stdin(self):
        if not self.popen.stdin.closed:
            self.popen.stdin.close()

    def finish(self, seconds=DEADLINE):
        """Closes stdin, waits for the end; returns all lines."""
        self.close_stdin()
        self.popen.wait(seconds)
        self._reader.join(seconds)
        return self.lines

    def stop(self):
        if self.popen.poll() is None:
            self.popen.kill()
        self.finish()


def inside(pid, path):
    """A path as that process sees it, whatever its mount namespace."""
    return Path("/proc", str(pid), "root", path)


def bytes_read(pid):
    """That it asked for with read(2) so far, of whatever file."""
    return int(re.search(r"rchar: (\d+)", (Path("/proc") / str(pid) / "io").read_text()).group(1))


def load_json(path):
    return json.loads(Path(path).read_text())


def validate(document, schema_file):
    path = REPOSITORY / "schema" / schema_file
    assert path.exists(), f"the project has no {path}"
    jsonschema.Draft202012Validator(load_json(path)).validate(document)


def records_of(path):
    """Of a recording that goes on; none if it is not there yet, or is being written at this moment."""
    try:
        return load_json(path)["records"]
    except (FileNotFoundError, json.JSONDecodeError):
        return []


def end_of(path):
    """Seconds that the recording at `path` covers so far."""
    return max((record["t"] for record in records_of(path)), default=0)


def has_sample(path):
    """True once the recording at `path` holds a sample: from then on the target is followed."""
    return any(record["type"] == "sample" for record in records_of(path))


def run_cowprof(*arguments, seconds=DEADLINE, **options):
    """Runs cowprof to its end; returns the CompletedProcess with text streams."""
    return subprocess.run([str(COWPROF), *map(str, arguments)], capture_output=True, text=True, timeout=seconds,
                          stdin=subprocess.DEVNULL, **options)


class Recording:
    """A cowprof that records, and the file it writes."""

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
        """Waits for the end. Returns the exit status; `stderr` has what was said."""
        _, self.stderr = self.popen.communicate(timeout=seconds)
        return self.popen.returncode

    def interrupt(self):
        self.send(signal.SIGINT)
        assert self.wait() == 0, self.stderr

    def stop(self):
        if self.popen.poll() is None:
            self.popen.kill()
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
        # probes_skipped says how many copies may be missing at most, on kernels where probes can be preempted.
        lost = {name: count for name, count in document["losses"].items() if count and name != "probes_skipped"}
        assert not healthy or not lost, lost
        return document


def attach(pid, path, *options, **popen_options):
    assert not Path(path).exists(), "the first sample could not be told from the last recording's"
    return Recording(path, ["--attach", pid, "--output", path, "--quiet", *options], **popen_options)


def rows_of(report, pid):
    """Every row of one process in a report: there must be exactly one."""
    return [row for row in [report["parent"], *report["workers"]] if row["pid"] == pid]


def row_of(report, pid):
    rows = rows_of(report, pid)
    assert len(rows) == 1, f"process {pid} has {len(rows)} rows in the report"
    return rows[0]
