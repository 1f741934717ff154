"""Debian's newer suites, for the Python and the torch that they have: chroots.sh makes their root file systems.

A program that runs in one has a mount namespace of its own, with all of the suite read-only and an empty /dev/shm and /tmp. It
gets the pid that was started, so cowprof attaches to it as to any other, and its mounts end with it, however it ends.
"""
import collections
import functools
import os
import subprocess
from pathlib import Path

import harness

MAKER = harness.REPOSITORY / "tests" / "system" / "chroots.sh"
FOLDER = Path(os.environ.get("COWPROF_CHROOTS", harness.BUILD / "chroots")).resolve()
SUITES = ("trixie", "sid")
MAKING = 1800 * harness.PATIENCE  # seconds
TESTS = "/mnt"  # where tests/system is in a chroot

# $1 is the root, $2 the tests; the remaining words are the command, which replaces the shell.
_ENTER = f"""
set -e
root=$1 tests=$2; shift 2
mount --bind -o ro "$root" "$root"
mount --bind -o ro "$tests" "$root{TESTS}"
mount --bind /dev "$root/dev"
mount -t tmpfs -o size=1g,mode=1777 tmpfs "$root/dev/shm"
mount -t tmpfs -o size=1g,mode=1777 tmpfs "$root/tmp"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
exec setpriv --pdeathsig KILL chroot "$root" "$@"
"""


class Chroot(collections.namedtuple("Chroot", "suite root")):
    def command(self, *words):
        """The host's command that becomes `words` in the chroot. It is killed when the thread that started it ends."""
        return ["unshare", "--mount", "--propagation", "private", "sh", "-c", _ENTER, "sh", self.root, MAKER.parent, *words]

    def python(self, script, *arguments):
        """The command for a script of tests/system, run by the suite's Python."""
        return self.command("/usr/bin/python3", f"{TESTS}/{script}", *arguments)


@functools.lru_cache(maxsize=None)
def chroot(suite):
    """The Chroot, made if it is not there yet, and ""; or None and why it can't be made."""
    root = FOLDER / suite
    if not root.is_dir():
        made = subprocess.run([MAKER, suite], env={**os.environ, "COWPROF_CHROOTS": str(FOLDER)}, capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=MAKING)
        if made.returncode == 77:
            return None, made.stderr.strip().splitlines()[-1].removeprefix("chroots: ")
        assert made.returncode == 0, made.stderr
    return Chroot(suite, root), ""
