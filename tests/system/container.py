"""Containers without a container engine: namespaces from unshare(1), a root from pivot_root(8), and 64 MiB of /dev/shm.

A container's image holds an interpreter, libraries and cowprof below /opt/inside, which the host does not have. Its first process
sleeps; nsenter(1) starts others in it, as `docker exec` does. Everything that it mounts and runs ends with its first process.
"""
import contextlib
import os
import re
import shutil
import signal
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
BOOT_OFFSET = 1_000_000  # seconds by which the time namespace is ahead
ENVIRONMENT = {"PATH": f"{PREFIX}/bin", "LD_LIBRARY_PATH": f"{PREFIX}/lib", "PYTHONDONTWRITEBYTECODE": "1"}
TOOLS = ("sh", "sleep", "mount", "umount", "setpriv", "unshare")


# ---- The image ----


def _libraries(programs):
    listed = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"(/\S+\.so\S*) \(", listed))


def _copy(source, target):
    """Links where possible, because that is quick."""
    source, target = Path(source).resolve(), Path(target)
    target.parent.mkdir(parents=True, exist_ok=True)
    try:
        target.hardlink_to(source)
    except OSError:
        shutil.copy(source, target)


def make_image(folder):
    """Makes a root file system in `folder`: the distribution's interpreter, the workloads, cowprof, and their libraries."""
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

# Runs in the new namespaces. $1 is the image; the remaining words are optional mounts.
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


class _Inner(harness.Process):
    """A process in a container: `host_pid` is its pid outside, `inner_pid` inside, and `pid` that of the nsenter that waits for it."""

    def __init__(self, command, **options):
        super().__init__(command, **options)
        self.host_pid = harness.wait_until(lambda: next(iter(truth.children(self.pid)), None), f"{command} to start")
        self.inner_pid = inner_pid(self.host_pid)

    def stop(self):
        if self.popen.poll() is None:
            os.kill(self.host_pid, signal.SIGKILL)
        super().stop()


# What docker, podman and containerd leave to root.
OF_ENGINES = ("chown", "dac_override", "fowner", "fsetid", "kill", "setgid", "setuid", "setpcap", "net_bind_service", "net_raw", "sys_chroot",
              "mknod", "audit_write", "setfcap")


class Container:
    """`mounts`: any of "proc", "sys", "cgroup"; `group`: its MemoryGroup; `rootless`: started by nobody, mapped to root inside;
    `capabilities`: of all that runs in it, if not all."""

    def __init__(self, image, mounts=("proc", "sys"), group=None, rootless=False, capabilities=None):
        self.join = group.join if group else None
        self.rootless = rootless
        self.capabilities = capabilities
        user = harness.TO_NOBODY if rootless else []
        command = [*user, "unshare", "--mount", "--pid", "--cgroup", "--ipc", "--uts", "--fork", "--kill-child"]
        command += ["--user", "--map-root-user"] if rootless else ["--time", f"--boottime={BOOT_OFFSET}"]
        self._first = harness.Process([*command, "sh", "-c", _START, "sh", image, *mounts], preexec_fn=self.join)
        self._others = []
        try:
            self._first.await_line("role", "up")
            self.init = truth.children(self._first.pid)[0]
        except BaseException:
            self.stop()
            raise

    def command(self, words, capabilities=None):
        """The host's command that runs `words` in the container, with only these capabilities; without them, those of the container."""
        drop = []
        capabilities = self.capabilities if capabilities is None else capabilities
        if capabilities is not None:
            drop = ["setpriv", "--bounding-set", ",".join(["-all", *(f"+{name}" for name in capabilities)]), "--"]
        words = [shutil.which("nsenter"), "--target", self.init, "--all", "--root", "--wd", "--", *drop, *words]
        return [str(word) for word in words]

    def start(self, *words, **options):
        self._others.append(_Inner(self.command(words), preexec_fn=self.join, env=ENVIRONMENT, **options))
        return self._others[-1]

    def run(self, *words, seconds=harness.DEADLINE, capabilities=None, **options):
        return subprocess.run(self.command(words, capabilities), capture_output=True, text=True, timeout=seconds, stdin=subprocess.DEVNULL,
                              preexec_fn=self.join, env=ENVIRONMENT, **options)

    def fill_shm(self, files):
        """Writes {name: bytes}, removes where None. Runs inside, because files of a user namespace reject the host's root."""
        program = "import os, sys\nfor path, size in eval(sys.argv[1]).items():\n" \
                  "    open('/dev/shm/' + path, 'wb').write(bytes(size)) if size else os.remove('/dev/shm/' + path)"
        done = self.run(PYTHON, "-c", program, files)
        assert done.returncode == 0, done.stderr

    def path(self, path):
        """A path in the container, as the host reaches it."""
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
    """The process's pid in its innermost pid namespace."""
    return int(re.search(r"^NSpid:.*\s(\d+)$", Path(f"/proc/{pid}/status").read_text(), re.M).group(1))


# ---- Where cowprof runs ----


class Outside:
    """cowprof on the host, the target in the container."""

    sees_host = True

    def __init__(self, container):
        self.container = container
        self.has_probes = self.sees_host or not container.rootless

    def name_of(self, group):
        """The name of the container's cgroup as cowprof sees it."""
        return group.path

    def pid_of(self, process):
        return process.host_pid

    def cowprof(self, *arguments):
        return harness.run_cowprof(*arguments)

    def record(self, process, folder, *options):
        return harness.attach(process.host_pid, folder / "recording.json", *options)


class Inside(Outside):
    """Both in the container, with cowprof optionally limited to some of root's capabilities."""

    sees_host = False

    def __init__(self, container, capabilities=None):
        super().__init__(container)
        self.capabilities = capabilities
        self.has_probes &= "bpf" in (capabilities or container.capabilities or ["bpf"])

    def name_of(self, group):
        return "/"

    def command(self, *arguments):
        return self.container.command([COWPROF, *arguments], self.capabilities)

    def pid_of(self, process):
        return process.inner_pid

    def cowprof(self, *arguments):
        return subprocess.run(self.command(*arguments), capture_output=True, text=True, timeout=harness.DEADLINE,
                              stdin=subprocess.DEVNULL, preexec_fn=self.join, env=ENVIRONMENT, check=False)

    def join(self):
        if self.container.join:
            self.container.join()

    def record(self, process, folder, *options):
        return _InnerRecording(self, ["--attach", process.inner_pid, "--output", "/tmp/recording.json", "--quiet", *options])


class Beside(Inside):
    """cowprof in its own mount and cgroup namespaces, as a sidecar or debug container that shares only the pid namespace."""

    def name_of(self, group):
        return f"/../{group.folder.name}"

    def command(self, *arguments):
        script = 'umount -l /sys/fs/cgroup; mount -t tmpfs -o size=1m tmpfs /dev/shm; exec "$@"'
        return self.container.command(["unshare", "--mount", "--cgroup", "sh", "-c", script, "sh", COWPROF, *arguments])

    def join(self):
        if self.container.sidecar:
            self.container.sidecar.join()


class _InnerRecording(harness.Recording):
    def __init__(self, view, arguments):
        container = view.container
        self.path = container.path("/tmp/recording.json")
        self.path.unlink(missing_ok=True)
        self.popen = subprocess.Popen(view.command(*arguments), text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                      preexec_fn=view.join, env=ENVIRONMENT)
        self.stderr = ""

    def send(self, number):
        os.kill(truth.children(self.popen.pid)[0], number)

    def stop(self):
        """Ends cowprof first: it outlives its nsenter(1), and holds the pipes."""
        for pid in truth.children(self.popen.pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        super().stop()
