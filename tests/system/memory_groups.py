"""Real limits for the system tests: a memory cgroup, version 1 or 2 as the host has it, and a small tmpfs on /dev/shm in a mount
namespace, as in a container. Each is removed when its block ends.
"""
import itertools
import os
import signal
from pathlib import Path

import harness

_numbers = itertools.count()
_MOUNTS = {1: Path("/sys/fs/cgroup/memory"), 2: Path("/sys/fs/cgroup")}
_LIMIT = {1: "memory.limit_in_bytes", 2: "memory.max"}
_USED = {1: "memory.usage_in_bytes", 2: "memory.current"}
MB = 1 << 20


def _find_root():
    """(version, folder of our own memory cgroup), or (None, None) if it cannot have children."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        number, controllers, path = line.split(":", 2)
        version = 2 if number == "0" and not controllers else 1
        folder = _MOUNTS[version] / path.lstrip("/")
        if version == 1 and "memory" in controllers.split(",") and os.access(folder / _LIMIT[1], os.W_OK):
            return 1, folder
        divided = folder / "cgroup.subtree_control"
        if version == 2 and divided.exists() and "memory" in divided.read_text().split() and os.access(folder, os.W_OK):
            return 2, folder
    return None, None


_version, _root = _find_root()
KIND = f"cgroup-v{_version}"  # what cowprof calls such a limit


def memory_root():
    return _root


class MemoryGroup:
    """A memory cgroup. `join` is for preexec_fn, `folder` holds its files, `path` is the kernel's name for it."""

    def __init__(self, limit_bytes=None, parent=None):
        self.folder = (parent.folder if parent else _root) / f"cowprof-test-{os.getpid()}-{next(_numbers)}"
        self.path = f"/{self.folder.relative_to(_MOUNTS[_version])}"
        self.folder.mkdir()
        if parent and _version == 2:
            (parent.folder / "cgroup.subtree_control").write_text("+memory\n")
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
        (self.folder / _LIMIT[_version]).write_text(f"{limit_bytes}\n")

    def used_bytes(self):
        return int((self.folder / _USED[_version]).read_text())

    def join(self):
        self.add(os.getpid())

    def add(self, pid):
        (self.folder / "cgroup.procs").write_text(f"{pid}\n")

    def _try_remove(self):
        try:
            self.folder.rmdir()
            return True
        except OSError:  # its processes are still exiting
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
    """`command` wrapped to run with a tmpfs of that size on `folder`."""
    script = f'mount -t tmpfs -o size={megabytes}m tmpfs {folder} && exec "$@"'
    return ["unshare", "-m", "--propagation", "private", "sh", "-c", script, "sh", *map(str, command)]


def in_small_shm(command, megabytes=64):
    """`command` wrapped to run with a /dev/shm of that size, as in a container."""
    return in_small_tmpfs("/dev/shm", command, megabytes)
