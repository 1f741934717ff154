"""Containers without a container engine: namespaces made by unshare(1), a root of their own by pivot_root(8), 64 MiB of /dev/shm.

A container's image holds an interpreter, libraries and cowprof below /opt/inside, which the host does not have. Its first process
sleeps; others are started in it as `docker exec` does, by nsenter(1). All that it mounts and runs ends with its first process.
"""
import contextlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import harness
import truth

PREFIX = "/opt/inside"
PYTHON = f"{PREFIX}/bin/python3"
COWPROF = f"{PREFIX}/bin/cowprof"
WORKLOADS = f"{PREFIX}/workloads"
SHM_BYTES = 64 << 20
BOOT_OFFSET = 1_000_000  # seconds that a time namespace is ahead
NOBODY = 65534
ENVIRONMENT = {"PATH": f"{PREFIX}/bin", "LD_LIBRARY_PATH": f"{PREFIX}/lib", "PYTHONDONTWRITEBYTECODE": "1"}
TOOLS = ("sh", "sleep", "umount", "dd", "setpriv", "cat")


# ---- The image ----


def _libraries(programs):
    listed = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"(/\S+\.so\S*) \(", listed))


def _copy(source, target):
    """By a link where that can be: quick."""
    source, target = Path(source).resolve(), Path(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        target.hardlink_to(source)
    except OSError:
        shutil.copy(source, target)


def make_image(folder):
    """A root file system in `folder`: the distribution's interpreter, the workloads and cowprof, with what they need."""
    inside = folder / PREFIX.lstrip("/")
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    standard = Path(os.__file__).parent
    shutil.copytree(standard, inside / "lib" / version, copy_function=_copy,
                    ignore=shutil.ignore_patterns("__pycache__", "test", "config-*", "idlelib", "dist-packages", "ensurepip"))
    programs = {name: shutil.which(name) for name in TOOLS} | {"python3": harness.PYTHON, "cowprof": harness.COWPROF}
    for name, program in programs.items():
        _copy(program, inside / "bin" / name)
    shutil.copytree(harness.REPOSITORY / "tests" / "system" / "workloads", inside / "workloads")
    for workload in harness.WORKLOADS.iterdir():
        _copy(workload, inside / "workloads" / workload.name)
    for library in _libraries([*programs.values(), *standard.glob("lib-dynload/*.so")]):
        _copy(library, inside / "lib" / Path(library).name if "/ld-linux" not in library else folder / library.lstrip("/"))
    for mount_point in ("dev/shm", "proc", "sys", "tmp", "old"):
        (folder / mount_point).mkdir(parents=True)
    for device in ("null", "urandom"):
        (folder / "dev" / device).touch()
    return folder


# ---- One container ----

# Run in the new namespaces. $1: the image; the other words: which optional mounts.
_START = """
set -e
root=$1; shift
mount --make-rprivate /
mount --bind "$root" "$root"
mount -t tmpfs -o size=64m,mode=1777 tmpfs "$root/dev/shm"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
for device in null urandom; do mount --bind /dev/$device "$root/dev/$device"; done
for option; do case $option in
  proc) mount -t proc proc "$root/proc" ;;
  sys) mount --rbind /sys "$root/sys" ;;
  cgroup)
    mount -t tmpfs tmpfs "$root/sys/fs/cgroup"
    mkdir "$root/sys/fs/cgroup/memory"
    mount -t cgroup -o memory cgroup "$root/sys/fs/cgroup/memory" ;;
esac; done
cd "$root"
pivot_root . old
export PATH=/opt/inside/bin LD_LIBRARY_PATH=/opt/inside/lib
exec sh -c 'umount -l /old; echo "{\\"role\\": \\"up\\"}"; exec sleep infinity'
"""


class Container:
    """`mounts`: of "proc", "sys" and "cgroup"; `group`: its MemoryGroup; `rootless`: begun by nobody, whom it takes for root."""

    def __init__(self, image, mounts=("proc", "sys"), group=None, rootless=False):
        user = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if rootless else {}
        self._join = group.join if group else None
        command = ["unshare", "--mount", "--pid", "--cgroup", "--ipc", "--uts", "--fork", "--kill-child"]
        command += ["--user", "--map-root-user"] if rootless else ["--time", f"--boottime={BOOT_OFFSET}"]
        self._first = harness.Process([*command, "sh", "-c", _START, "sh", image, *mounts], preexec_fn=self._join, **user)
        self._others = []
        try:
            self._first.await_line("role", "up")
            self.init = truth.children(self._first.pid)[0]
        except BaseException:
            self.stop()
            raise

    def command(self, words, capabilities=None):
        """For the host: runs `words` in the container. `capabilities`: of those alone, as with --cap-drop=all --cap-add=..."""
        drop = []
        if capabilities is not None:
            listed = "-all" + "".join(f",+{name}" for name in capabilities)
            drop = ["setpriv", f"--bounding-set={listed}", f"--inh-caps={listed}", f"--ambient-caps={listed}", "--"]
        words = [shutil.which("nsenter"), "--target", self.init, "--all", "--root", "--wd", "--", *drop, *words]
        return [str(word) for word in words]

    def start(self, *words, **options):
        """A harness.Process in the container; `host_pid` is its pid outside, `inner_pid` inside."""
        process = harness.Process(self.command(words), preexec_fn=self._join, env=ENVIRONMENT, **options)
        self._others.append(process)
        process.host_pid = harness.wait_until(lambda: next(iter(truth.children(process.pid)), None), f"{words[0]} to start")
        process.inner_pid = inner_pid(process.host_pid)
        return process

    def run(self, *words, seconds=harness.DEADLINE, **options):
        return subprocess.run(self.command(words), capture_output=True, text=True, timeout=seconds, stdin=subprocess.DEVNULL,
                              preexec_fn=self._join, env=ENVIRONMENT, **options)

    def path(self, path):
        """A path of the container, for the host."""
        return harness.inside(self.init, path.lstrip("/"))

    def stop(self):
        for process in [self._first, *self._others]:
            with contextlib.suppress(ValueError, OSError):
                process.stop()
        if hasattr(self, "init"):
            harness.wait_until(lambda: truth.state(self.init) is None, "the container to end")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


def inner_pid(pid):
    """As the innermost pid namespace has it."""
    return int(re.search(r"^NSpid:.*\s(\d+)$", Path(f"/proc/{pid}/status").read_text(), re.M).group(1))


# ---- Where cowprof runs ----


class Outside:
    """cowprof on the host, the target in the container."""

    name = "outside"

    def __init__(self, container):
        self.container = container

    def pid_of(self, process):
        return process.host_pid

    def cowprof(self, *arguments):
        return harness.run_cowprof(*arguments)

    def record(self, process, folder, *options):
        return harness.attach(process.host_pid, folder / "recording.json", *options)


class Inside(Outside):
    """Both in the container."""

    name = "inside"

    def pid_of(self, process):
        return process.inner_pid

    def cowprof(self, *arguments):
        return self.container.run(COWPROF, *arguments)

    def record(self, process, folder, *options):
        return _InnerRecording(self.container, ["--attach", process.inner_pid, "--output", "/tmp/recording.json", "--quiet", *options])


class _InnerRecording(harness.Recording):
    def __init__(self, container, arguments):
        self.path = container.path("/tmp/recording.json")
        self.path.unlink(missing_ok=True)
        self.popen = subprocess.Popen(container.command([COWPROF, *arguments]), text=True, stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, preexec_fn=container._join, env=ENVIRONMENT)
        self.stderr = ""

    def send(self, number):
        os.kill(truth.children(self.popen.pid)[0], number)
