"""Where packages are installed: Debian trees that stay as they are, an empty root, and podman's containers; and what is right there.

A tree of tests/system/chroots.sh is the lower layer of an overlay in a mount namespace of its own: all that is installed is gone with
the last process. In it, /mnt holds the packages and the workload.
"""
import json
import shutil
import subprocess
import tempfile
from pathlib import Path

import chroots
import harness

WORKLOAD = Path(__file__).with_name("workload.py")
SELF_RECORDING = Path(__file__).parents[1] / "python" / "self_recording.py"
SECONDS = 120 * harness.PATIENCE

# $1: the tree, $2: what /mnt is to be, $3: a folder for the upper layer, $4: options of /tmp, $5: the script.
_ENTER = """
set -e
mount -t tmpfs -o mode=755 tmpfs "$3"
mkdir "$3/upper" "$3/work" "$3/tree"
mount -t overlay -o "lowerdir=$1,upperdir=$3/upper,workdir=$3/work" overlay "$3/tree"
mount --bind -o ro "$2" "$3/tree/mnt"
mount --bind /dev "$3/tree/dev"
mount -t tmpfs -o "size=1g,mode=1777,$4" tmpfs "$3/tree/tmp"
mount -t proc proc "$3/tree/proc"
mount --rbind /sys "$3/tree/sys"
exec setpriv --pdeathsig KILL chroot "$3/tree" env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin sh -ec "$5"
"""
_ENTER_EMPTY = """
set -e
root=$1; shift
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
exec setpriv --pdeathsig KILL chroot "$root" /cowprof "$@"
"""
# Records the workload with `cowprof`; prints its truth and the report.
RECORD = "cowprof --quiet --output recording.json -- python3 /mnt/workload.py; cowprof report recording.json --json"


def _namespace(script, *words):
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", *map(str, words)]


def in_tree(root, files, script, tmp="exec"):
    """Runs a shell script in a Debian tree; returns the CompletedProcess."""
    with tempfile.TemporaryDirectory() as scratch:
        return subprocess.run(_namespace(_ENTER, root, files, scratch, tmp, script), capture_output=True, text=True, timeout=SECONDS,
                              stdin=subprocess.DEVNULL, check=False)


class EmptyRoot:
    """A folder with cowprof, /proc and /sys, and nothing else."""

    def __init__(self, folder, cowprof):
        self.folder = folder
        for name in ("proc", "sys"):
            (folder / name).mkdir(parents=True)
        shutil.copy(cowprof, folder / "cowprof")

    def command(self, *words):
        return _namespace(_ENTER_EMPTY, self.folder, *words)

    def run(self, *words):
        return subprocess.run(self.command(*words), capture_output=True, text=True, timeout=SECONDS, stdin=subprocess.DEVNULL, check=False)


class Podman:
    """podman with runc and a store of its own."""

    def __init__(self, folder):
        self.folder = folder

    def command(self, *words):
        options = ["--root", self.folder / "store", "--runroot", self.folder / "run", "--runtime", "/usr/sbin/runc",
                   "--cgroup-manager", "cgroupfs", "--storage-driver", "vfs"]
        return [str(word) for word in ("podman", *options, *words)]

    def run(self, *words):
        return subprocess.run(self.command(*words), capture_output=True, text=True, timeout=SECONDS, stdin=subprocess.DEVNULL, check=False)

    def container(self, *words):
        limits = ["--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024"]
        return self.command("run", "--rm", "--network", "none", *limits, *words)

    def run_container(self, *words):
        return subprocess.run(self.container(*words), capture_output=True, text=True, timeout=SECONDS, stdin=subprocess.DEVNULL, check=False)


def options_of_pod(pod, container, volumes, beside):
    """What the engine is told of a container of a pod. `volumes`: {name of a volume: folder}; `beside`: the container whose processes
    one of a shared namespace sees. What is not known here is an error."""
    context = dict(container["securityContext"])
    capabilities = context.pop("capabilities")
    options = ["--cap-drop", ",".join(capabilities["drop"]), "--cap-add", ",".join(capabilities["add"]), "--user", context.pop("runAsUser")]
    options += ["--security-opt", "no-new-privileges"] if not context.pop("allowPrivilegeEscalation") else []
    options += ["--read-only", "--read-only-tmpfs=false"] if context.pop("readOnlyRootFilesystem") else []
    assert context.pop("appArmorProfile", None) in (None, {"type": "Unconfined"})  # not passed on, nor is the next: not every host has them
    assert context.pop("seLinuxOptions", None) in (None, {"type": "spc_t"})
    assert context.pop("seccompProfile") == {"type": "Unconfined"} and not context, context
    options += ["--security-opt", "seccomp=unconfined"]
    if pod.get("hostPID"):
        options += ["--pid", "host"]
    elif pod.get("shareProcessNamespace"):
        options += ["--pid", f"container:{beside}"]
    for mount in container["volumeMounts"]:
        options += ["--volume", f"{volumes[mount['name']]}:{mount['mountPath']}"]
    return options


def tree(suite):
    """The folder of a Debian tree, or None and why it can't be made."""
    chroot, reason = chroots.chroot(suite)
    return (chroot.root, "") if chroot else (None, reason)


def check(truth, report):
    """Every planned page was copied once, for its reference counts, by the planted line; the rest is the interpreter's own."""
    pages, totals = truth["pages"], report["totals"]
    assert report["exactness"]["copies"] == "exact", report["exactness"]
    assert pages <= totals["copies"] <= pages + 600, (pages, totals)
    assert totals["by_cause"]["refcount"] >= 0.98 * pages, (pages, totals)
    assert report["by_type"][0]["type"] == "str" and report["by_line"][0]["function"] == "read", (report["by_type"][:2], report["by_line"][:2])
    assert not any(report["losses"].values()), report["losses"]


def check_output(done):
    """The same, of what RECORD printed."""
    assert done.returncode == 0, done.stderr
    truth, _, report = done.stdout.partition("\n")
    check(json.loads(truth), json.loads(report))
