"""Real limits for the tests of alerts: a memory cgroup (v1), and a small tmpfs on /dev/shm in a mount namespace, as a
container has it. Each is gone when its block ends.
"""
import itertools
import os
import time
from pathlib import Path

_numbers = itertools.count()
MB = 1 << 20


def memory_root():
    """Our own memory cgroup (v1) as a folder; None where there is none."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        folder = Path("/sys/fs/cgroup/memory") / path.lstrip("/")
        if "memory" in controllers.split(",") and (folder / "memory.limit_in_bytes").exists():
            return folder
    return None


class MemoryGroup:
    """A memory cgroup with a limit. `join` is for preexec_fn; `folder` its files."""

    def __init__(self, limit_bytes, parent=None):
        self.folder = (parent or memory_root()) / f"cowprof-test-{os.getpid()}-{next(_numbers)}"
        self.folder.mkdir()
        (self.folder / "memory.use_hierarchy").exists() and self._try("memory.use_hierarchy", 1)
        self.resize(limit_bytes)
        self._try("memory.swappiness", 0)

    def _try(self, name, value):
        try:
            (self.folder / name).write_text(f"{value}\n")
        except OSError:
            pass

    def resize(self, limit_bytes):
        (self.folder / "memory.limit_in_bytes").write_text(f"{limit_bytes}\n")

    def join(self):
        self.add(os.getpid())

    def add(self, pid):
        (self.folder / "cgroup.procs").write_text(f"{pid}\n")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        deadline = time.monotonic() + 10
        while True:
            try:
                return self.folder.rmdir()
            except OSError:  # its processes are still on their way out
                assert time.monotonic() < deadline, f"{self.folder} can't be removed"
                time.sleep(0.02)


def in_small_shm(command, megabytes=64):
    """`command`, run where /dev/shm has so much room, as in a container."""
    script = f'mount -t tmpfs -o size={megabytes}m tmpfs /dev/shm && exec "$@"'
    return ["unshare", "-m", "--propagation", "private", "sh", "-c", script, "sh", *map(str, command)]
