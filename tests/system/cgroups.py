"""Memory cgroups for the system tests, made below the one that the tests run in, with a limit, and removed at the end.

Version 1 only: where the host has its memory controller in version 2, what needs one is skipped.
"""
import os
from pathlib import Path

import harness

MOUNT = Path("/sys/fs/cgroup/memory")


def own():
    """The path in the hierarchy of the memory cgroup that this process is in; None: there is none of version 1."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            return path
    return None


def available():
    return own() is not None and os.access(MOUNT / own().lstrip("/"), os.W_OK)


class MemoryCgroup:
    def __init__(self, name, parent=None):
        self.path = f"{parent.path if parent else own().rstrip('/')}/{name}"  # as the kernel names it
        self.folder = MOUNT / self.path.lstrip("/")
        self.folder.mkdir()

    def limit(self, mebibytes):
        (self.folder / "memory.limit_in_bytes").write_text(str(mebibytes << 20))

    def used_mebibytes(self):
        return int((self.folder / "memory.usage_in_bytes").read_text()) >> 20

    def enter(self):
        """For preexec_fn: the process and all that it forks are in the cgroup."""
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))

    def remove(self):
        for pid in (self.folder / "cgroup.procs").read_text().split():
            os.kill(int(pid), 9)
        harness.wait_until(self._try_remove, f"{self.folder} to be empty")

    def _try_remove(self):
        try:
            self.folder.rmdir()
            return True
        except OSError:
            return False
