"""Real limits for the system tests: a memory cgroup (v1), and a small tmpfs on /dev/shm in a mount namespace, as a container
has it. Each is gone when its block ends. Where the memory controller is one of version 2, what needs one is skipped.
"""
import itertools
import os
import signal
from pathlib import Path

import harness

_numbers = itertools.count()
_MOUNT = Path("/sys/fs/cgroup/memory")
MB = 1 << 20


def memory_root():
    """Our own memory cgroup (v1) as a folder; None where there is none that can be divided."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        folder = _MOUNT / path.lstrip("/")
        if "memory" in controllers.split(",") and os.access(folder / "memory.limit_in_bytes", os.W_OK):
            return folder
    return None


class MemoryGroup:
    """A memory cgroup. `join` is for preexec_fn; `folder` has its files; `path` is what the kernel calls it."""

    def __init__(self, limit_bytes=None, parent=None):
        self.folder = (parent.folder if parent else memory_root()) / f"cowprof-test-{os.getpid()}-{next(_numbers)}"
        self.path = f"/{self.folder.relative_to(_MOUNT)}"
        self.folder.mkdir()
        self._try("memory.use_hierarchy", 1)
        if limit_bytes is not None:
            self.resize(limit_bytes)
        self._try("memory.swappiness", 0)

    def _try(self, name, value):
        try:
            (self.folder / name).write_text(f"{value}\n")
        except OSError:
            pass

    def resize(self, limit_bytes):
        (self.folder / "memory.limit_in_bytes").write_text(f"{limit_bytes}\n")

    def used_bytes(self):
        return int((self.folder / "memory.usage_in_bytes").read_text())

    def join(self):
        self.add(os.getpid())

    def add(self, pid):
        (self.folder / "cgroup.procs").write_text(f"{pid}\n")

    def _try_remove(self):
        try:
            self.folder.rmdir()
            return True
        except OSError:  # its processes are still on their way out
            return False

    def remove(self):
        for pid in (self.folder / "cgroup.procs").read_text().split():
            os.kill(int(pid), signal.SIGKILL)
        harness.wait_until(self._try_remove, f"{self.folder} to be empty")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.remove()


def in_small_tmpfs(folder, command, megabytes):
    """`command`, run where `folder` is a tmpfs with so much room."""
    script = f'mount -t tmpfs -o size={megabytes}m tmpfs {folder} && exec "$@"'
    return ["unshare", "-m", "--propagation", "private", "sh", "-c", script, "sh", *map(str, command)]


def in_small_shm(command, megabytes=64):
    """`command`, run where /dev/shm has so much room, as in a container."""
    return in_small_tmpfs("/dev/shm", command, megabytes)
