#!/usr/bin/python3
"""Makes the recordings whose views same_figures.test.mjs compares: recordings.py FOLDER, as root.

Each kind gets a folder with timeline.html, report.json, report.txt and, if there were alerts, what the hook was given. Kinds are
recorded at once, some seconds each. What the host can't do is left out, and said.
"""
import concurrent.futures
import contextlib
import shutil
import subprocess
import sys
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "system"))
# pylint: disable=wrong-import-position
import harness  # noqa: E402
import memory_groups  # noqa: E402
import verdict_cases  # noqa: E402
import verdict_run  # noqa: E402

WORKLOADS = verdict_run.WORKLOADS


def killed(run):
    """A worker meets the limit of a cgroup, after an alert with the time that is left."""
    with memory_groups.MemoryGroup(300 * memory_groups.MB) as group:
        target = harness.Process([harness.WORKLOADS / "ramp", "--kind=new", "--mb=600", "--rate=60", "--wait"],
                                 preexec_fn=group.join, stderr=subprocess.DEVNULL)
        run.stack.callback(target.stop)
        target.await_line("role", "ready")
        run.attach(target.pid, "--on-alert", write_hook(run.folder))
        target.go()
        run.recording.wait()


def cut(run, last):
    """The recording of `killed` up to the first record for which `last` is true, if that is a sample, or else the sample before it."""
    whole = run.folder.parent / "killed"
    records = harness.load_json(whole / "run.json")["records"]
    at = next(i for i, record in enumerate(records) if last(record))
    end = next(i for i in range(at, 0, -1) if records[i]["type"] == "sample")
    lines = (whole / "run.json").read_text().splitlines(keepends=True)  # the header, then a record each
    run.path.write_text("".join(lines[:end + 2]))
    shutil.copy(whole / "alerts", run.folder / "alerts")


def cut_off(run):
    """A sample after the alert, while the worker still starts."""
    alerts = []

    def later(record):
        alerts.extend([record["t"]] if record["type"] == "alert" else [])
        return alerts and record["type"] == "sample" and record["t"] > alerts[0]

    cut(run, later)


def exceeds(run):
    """Just before nine tenths are used: the forecast knows by then."""
    cut(run, lambda record: record["type"] == "alert" and record["rule"] == "ratio")


def spawned(run):
    """Workers to which a data set is pickled."""
    run.python("verdict_pool.py", "spawned_later")
    run.attach(run.process.pid)
    run.process.go()
    harness.wait_until(lambda: sum(line["event"] == "holds" for line in run.process.lines) == 2, "both workers", verdict_run.LOADING)
    run.rest(1)
    run.finish()


def late(run):
    """Workers that copy before the attach, and go on after it."""
    run.python("verdict_pool.py", "workers_read_twice")
    verdict_cases.work(run)
    run.attach(run.process.pid)
    run.rest(0.5)
    verdict_cases.work(run)
    run.rest(1)
    run.finish()


def freed(run):
    """A worker that allocates memory which its parent had freed."""
    run.record(harness.PYTHON, WORKLOADS / "freed_memory.py", "allocate")


def write_hook(folder):
    hook = folder / "hook"
    hook.write_text(f'#!/bin/sh\ncat >>"{folder}/alerts"\n')
    hook.chmod(0o755)
    return hook


def view(run):
    def output(*arguments):
        done = harness.run_cowprof(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout
    output("view", run.path, "-o", run.folder / "timeline.html")
    (run.folder / "report.json").write_text(output("report", run.path, "--json"))
    (run.folder / "report.txt").write_text(output("report", run.path))


def make(folder, *kinds):
    """Makes the recordings of these kinds, one after the other."""
    for kind in kinds:
        (folder / kind.__name__).mkdir()
        with contextlib.ExitStack() as stack:
            run = verdict_run.Run(folder / kind.__name__, stack)
            kind(run)
        view(run)


def main():
    folder = Path(sys.argv[1]).resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    groups = [(spawned, freed), (late,)]
    if memory_groups.memory_root() is None:
        print("recordings.py: skipped: killed, cut_off, exceeds: no memory cgroup that can be divided", file=sys.stderr)
    else:
        groups.append((killed, cut_off, exceeds))
    failed = 0
    with concurrent.futures.ThreadPoolExecutor() as pool:
        for done in [pool.submit(make, folder, *kinds) for kinds in groups]:
            if done.exception():
                traceback.print_exception(done.exception())
                failed = 1
    sys.exit(failed)


if __name__ == "__main__":
    main()
