"""Runs a program with planted truth under cowprof, looks at the program by a second source, and compares what cowprof says.

verdict_cases.py is the list of programs; test_verdict.py and verdict_table.py go through it. A second source is the kernel's page
tables (truth.py: page frames, smaps) or what the program itself has planted; never cowprof.
"""
import collections
import contextlib
import os
import re
import signal
import subprocess
from pathlib import Path

import harness
import truth

WORKLOADS = harness.REPOSITORY / "tests" / "system" / "workloads"
MIB = 1 << 20
LOADING = 90 * harness.PATIENCE  # seconds; imports of torch, a server's start
FIGURE = re.compile(r"(\d+(?:\.\d+)?) ([KMG]iB)")
UNTOLD = re.compile(rf"why (?:it|they) copied another {FIGURE.pattern} is unknown")
UNITS = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}

ANY = "any"  # diagnosis: where the sentence is about something else, such as deaths
# What a program is: `play(run)` starts it, records it, drives it, and returns its Truth. `first`: the id of the first diagnosis, or
# ANY; `sentence`, `says`: what the first sentence and the whole text must contain; `never`: what the text
# must not contain. `packages`: Debian's. `known`: why cowprof is wrong about it today.
Case = collections.namedtuple("Case", "name row play first sentence says never packages known")
# `bytes`: the least and the most that the first figure of the sentence may be, give or take 5 %.
Truth = collections.namedtuple("Truth", "text bytes", defaults=[None])
Result = collections.namedtuple("Result", "sentence first truth report text deviations")


class Missing(Exception):
    """The host lacks a package or something else that the program needs: (capability, reason)."""


def line_of(script, mark):
    """Number of the line that is marked with "# planted: MARK"."""
    lines = (WORKLOADS / script).read_text().splitlines()
    (number,) = [number for number, line in enumerate(lines, 1) if line.endswith(f"# planted: {mark}")]
    return number


def mib(count):
    return f"{count / MIB:.0f} MiB"


def living(pids):
    return [pid for pid in pids if truth.state(pid) not in (None, "Z")]


class Run:
    """One recorded program. Everything it starts ends with it."""

    def __init__(self, folder, stack):
        self.folder, self.stack = Path(folder), stack
        self.path = self.folder / "run.json"
        self.recording = self.process = None
        self.figures = {}  # {pid: private bytes that its row must have, within 3 %}
        self.framework = None  # what the report must call what starts the workers
        self.configured = None  # workers that the program asked for, where the report must know it
        self.says = ""  # what the text must contain, besides what the case has
        self.no_limits = ()  # kinds that the report must not have
        self.workers_started = None  # how many the report must count
        self.at_rest = None  # (time in the recording, {pid: (least, most) private bytes}): nobody has got memory since

    # ---- The program ----

    def start(self, *command, ready="ready", **options):
        """Starts a workload that prints JSON lines and waits until it is ready."""
        options = {"stderr": subprocess.DEVNULL, "cwd": self.folder, **options}
        self.process = harness.Process(command, **options)
        self.stack.callback(self.process.stop)
        self.process.await_line("event", ready, LOADING)
        return self.process

    def python(self, script, *arguments, python=harness.PYTHON, **options):
        return self.start(python, WORKLOADS / script, *arguments, **options)

    def serve(self, command, up, **options):
        """Starts a server and waits until `up()` is true. Returns its pid."""
        log = open(self.folder / "server.log", "w")  # pylint: disable=consider-using-with
        self.stack.callback(log.close)
        server = subprocess.Popen(list(map(str, command)), stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder,
                                  **options)

        def end():
            pids = truth.tree(server.pid) if server.poll() is None else []
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            server.wait(harness.DEADLINE)

        self.stack.callback(end)

        def is_up():
            assert server.poll() is None, (self.folder / "server.log").read_text()[-2000:]
            with contextlib.suppress(OSError):
                return up()

        harness.wait_until(is_up, f"{command[0]} to be up", LOADING, pause=0.1)
        return server.pid

    # ---- The recording ----

    def attach(self, pid, *options, **popen_options):
        self.recording = harness.attach(pid, self.path, "--interval=200ms", *options, **popen_options)
        self.stack.callback(self.recording.stop)
        self.recording.await_sample()

    def record(self, *command, seconds=LOADING, **options):
        """Records a command from its first instruction to its end."""
        done = harness.run_cowprof("--interval=200ms", "--quiet", "--output", self.path, "--", *command, seconds=seconds,
                                   cwd=self.folder, **options)
        assert self.path.exists(), done.stderr
        return done

    def finish(self):
        if self.recording and self.recording.popen.poll() is None:
            self.recording.interrupt()
        elif self.recording:
            assert self.recording.wait() == 0, self.recording.stderr

    # ---- The second source ----

    def rest(self, seconds=1.5):
        """Waits until cowprof has looked for so long at processes that do nothing any more."""
        after = harness.end_of(self.path) + seconds
        harness.wait_until(lambda: harness.end_of(self.path) > after, "samples at rest", pause=0.1)

    def go_and_rest(self, event="read", seconds=1.5):
        """Lets a workload do its work and waits until it has, and cowprof has seen that. Returns what it said."""
        self.process.go()
        said = self.process.await_line("event", event, LOADING)
        self.rest(seconds)
        return said

    def look_at_rest(self):
        """Reads what each process has. Call when nobody does anything any more.

        A mapped file's page counts as private as long as one process maps it: that is no memory of its own, and may change at
        any time."""
        since = harness.end_of(self.path)
        private = {pid: truth.private_bytes(pid) for pid in self.workers()}
        self.at_rest = since, {pid: (had - truth.private_clean_bytes(pid), had) for pid, had in private.items()}

    def workers(self):
        return living(truth.tree(self.process.pid)[1:])

    @staticmethod
    def copied(parent, workers):
        """Bytes of pages that the parent and a worker have in different frames: somebody copied them after the fork."""
        frames = truth.anonymous_frames(parent)
        return sum(truth.diverged(frames, truth.anonymous_frames(worker)) for worker in workers) * harness.PAGE

    @staticmethod
    def private(pids):
        return sum(map(truth.private_bytes, pids))


def needs_packages(case):
    for package, path in case.packages.items():
        if not Path(path).exists():
            raise Missing(f"package {package}", f"install Debian's package {package}")


def visible(text):
    """The text of a report without the line that repeats the command, and without the segments of whoever else runs here."""
    return "\n".join(line for line in text.partition("\n  shared memory (")[0].splitlines() if "target: " not in line)


def deviations_of(case, sentence, report, text, said):
    first = report["diagnoses"][0]["id"] if report["diagnoses"] else None
    if first == "fork-hazard" and sentence.startswith("Nothing to do"):
        first = "clean"  # of memory, which is what the cases are about
    if case.first not in (first, ANY):
        yield f"the first diagnosis is {first}, not {case.first}"
    if not re.search(case.sentence, sentence):
        yield f"the first sentence lacks {case.sentence!r}"
    if said.bytes:
        figure = FIGURE.search(sentence)
        found = float(figure[1]) * UNITS[figure[2]] if figure else 0
        low, high = said.bytes
        more = UNTOLD.search(sentence)
        untold = float(more[1]) * UNITS[more[2]] if more else 0
        if not 0.95 * low - untold <= found <= 1.05 * high - untold:
            yield f"{mib(found)}{f' and {mib(untold)}' if more else ''} in the first sentence, {mib(low)} to {mib(high)} are true"
    if case.says and not re.search(case.says, text):
        yield f"the text lacks {case.says!r}"
    wrong = re.search(case.never, text) if case.never else None
    if wrong:
        yield f"the text says {wrong[0]!r}"
    if case.first in (None, "clean", "file-backed") and sentence.startswith("Nothing to do") and report["alerts"]:
        yield f"{len(report['alerts'])} alerts"


def deviations_of_peak(one, report):
    """The parts of the peak add up to it, and it is what the workers had at rest, or more if that was earlier."""
    peak = report["peak"]
    if peak is None:
        return
    if sum(peak["split"].values()) != peak["bytes"]:
        yield f"the parts of the peak do not add up to it: {peak}"
    if one.at_rest is None:
        return
    since, private = one.at_rest
    workers = {row["pid"] for row in report["workers"] if row["role"] in ("worker", "pool")}
    least, most = (sum(had[i] for pid, had in private.items() if pid in workers) for i in (0, 1))
    slack = 0.03 * most + 0.5 * MIB * len(workers)
    if peak["bytes"] < least - slack or (peak["at_seconds"] >= since and peak["bytes"] > most + slack):
        yield (f"the peak, {peak['bytes'] / MIB:.1f} MiB at {peak['at_seconds']:.1f} s, is not the {least / MIB:.1f} to "
               f"{most / MIB:.1f} MiB that the workers had from {since:.1f} s on")


def deviations_of_run(one, report, text):
    framework = report["target"]["framework"]
    if framework != one.framework:
        yield f"the framework is {framework}, not {one.framework}"
    configured = (report["worker_slots"] or {}).get("configured")
    if one.configured and configured != one.configured:
        yield f"{configured} workers are configured, not {one.configured}"
    if one.says and not re.search(one.says, text):
        yield f"the text lacks {one.says!r}"
    for pid, true in one.figures.items():
        found = harness.row_of(report, pid)["private_bytes"] or 0
        if abs(found - true) > 0.03 * true + 0.25 * MIB:
            yield f"pid {pid} has {found / MIB:.1f} MiB private, {true / MIB:.1f} MiB are true"
    if one.workers_started not in (None, (report["worker_slots"] or {}).get("started")):
        yield f"{report['worker_slots']} workers, {one.workers_started} are true"
    yield from deviations_of_peak(one, report)
    for limit in report["limits"]:
        if limit["kind"] in one.no_limits:
            yield f"a limit {limit['kind']} of {limit['limit']}"


def run(case, folder):
    """Plays a case; returns its Result. Raises Missing where the host lacks what it needs."""
    needs_packages(case)
    with contextlib.ExitStack() as stack:
        one = Run(folder, stack)
        said = case.play(one)
        one.finish()
    report = harness.report_of(one.path)
    harness.validate(report, "report.schema.json")
    result = harness.run_cowprof("report", one.path)
    assert result.returncode == 0, result.stderr
    sentence = report["headline"]["sentence"]
    text = visible(result.stdout)
    deviations = [*deviations_of(case, sentence, report, text, said), *deviations_of_run(one, report, text)]
    if not text.replace("\n", " ").startswith(sentence.split(". ")[0]):
        deviations.append("the text does not begin with the headline")
    first = report["diagnoses"][0]["id"] if report["diagnoses"] else report["headline"]["diagnosis"]
    return Result(sentence, first, said.text, report, result.stdout, deviations)
