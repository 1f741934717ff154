"""A pid namespace of its own, as a host on which nothing else runs, for the tests of `cowprof watch`: it would record what other
tests train.
"""
import contextlib
import os
import re
import signal
import subprocess
from pathlib import Path

import harness

POOL = "import multiprocessing, sys\nwith multiprocessing.get_context('fork').Pool(2): print('{}', flush=True); sys.stdin.read()"
WORKLOAD = harness.REPOSITORY / "tests" / "packages" / "workload.py"


def children(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def inner_pid(pid):
    """The pid in its own namespace."""
    return int(re.search(r"^NSpid:.*\s(\d+)$", Path(f"/proc/{pid}/status").read_text(), re.M)[1])


class Host:
    def __init__(self):
        self.popen = subprocess.Popen(["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c", "echo up; exec sleep infinity"],
                                      stdout=subprocess.PIPE, text=True)
        assert self.popen.stdout.readline() == "up\n"
        (self.init,) = children(self.popen.pid)
        self.started = []

    def command(self, *words):
        return ["nsenter", f"--target={self.init}", "--pid", "--mount", *map(str, words)]

    def python(self, *words, **environment):
        """A Python program whose stdin is open until the end; its pid here and there are `outer` and `inner`."""
        process = harness.Process(self.command(harness.PYTHON, *words), env={**os.environ, **environment})
        self.started.append(process)
        harness.wait_until(lambda: process.lines, "the program")
        (process.outer,) = children(process.pid)
        process.inner = inner_pid(process.outer)
        return process

    def trainer(self, rank, *words, **environment):
        return self.python(*(words or (WORKLOAD, "--wait")), RANK=str(rank), **environment)

    def watch(self, folder, *options, **popen_options):
        watch = Watch(self, folder, options, **popen_options)
        self.started.append(watch)
        return watch

    def stop(self):
        self.popen.kill()  # and so all that runs there
        self.popen.communicate()
        for process in self.started:
            process.stop()


class Watch:
    def __init__(self, host, folder, options, prefix=(), **popen_options):
        self.folder = Path(folder)
        self.log = open(f"{folder}.log", "w+", encoding="utf-8")
        self.popen = subprocess.Popen(host.command(*prefix, harness.COWPROF, "watch", "-d", folder, *options), stderr=self.log,
                                      stdin=subprocess.DEVNULL, **popen_options)
        self.pid = harness.wait_until(self._pid, "watch")
        self.scanner = harness.wait_until(lambda: next((pid for pid, comm in self.processes().items() if comm == "cowprof-scan"), None), "the scanner")

    def _pid(self):
        """Of the starter."""
        assert self.popen.poll() is None, self.said()
        found = children(self.popen.pid)
        return found[0] if found and b"cowprof\0watch" in Path(f"/proc/{found[0]}/cmdline").read_bytes() else None

    def said(self):
        return Path(self.log.name).read_text(encoding="utf-8")

    def processes(self):
        """{pid: name} of the starter's children."""
        found = {}
        for pid in children(self.pid):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
                found[pid] = Path(f"/proc/{pid}/comm").read_text().strip()
        return found

    def recorders(self):
        """{inner pid of the target: pid of its recorder}."""
        found = {}
        for pid in children(self.pid):
            matched = re.search(rb"--attach=(\d+)", Path(f"/proc/{pid}/cmdline").read_bytes())
            if matched:
                found[int(matched[1])] = pid
        return found

    def recording(self, process):
        """The path of the recording of a program, once it has a sample."""
        def found():
            return next((path for path in self.folder.glob(f"cowprof-*-{process.inner}-*.json") if harness.has_sample(path)), None)
        return harness.wait_until(found, f"a recording of {process.inner}; said: {self.said()}")

    def end(self, number=signal.SIGTERM):
        os.kill(self.pid, number)
        return self.popen.wait(harness.DEADLINE)

    def stop(self):
        if self.popen.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            self.popen.wait(harness.DEADLINE)
        self.log.close()
