"""Finds and runs the cowprof binary."""
from __future__ import annotations

import json
import os
import shutil
import subprocess
import sysconfig
from typing import Any, Dict, Iterator, List, Optional, Tuple


class CowprofError(Exception):
    """cowprof could not do what was asked. The message is the line that it printed, where it printed one."""


def _folders() -> Iterator[str]:
    package = os.path.dirname(os.path.abspath(__file__))
    yield sysconfig.get_path("scripts")
    if "{}_user".format(os.name) in sysconfig.get_scheme_names():
        yield sysconfig.get_path("scripts", "{}_user".format(os.name))
    yield os.path.join(os.path.dirname(package), "bin")  # pip install --target
    yield os.path.join(package, *[os.pardir] * 4, "bin")  # pip install --prefix


def _is_binary(path: str) -> bool:
    """False for a script, which a pip of another package of that name may have put there."""
    try:
        with open(path, "rb") as file:
            return file.read(4) == b"\x7fELF" and os.access(path, os.X_OK)
    except OSError:
        return False


def installed() -> Optional[str]:
    """The binary that pip installed with this package."""
    return next((path for path in (os.path.join(folder, "cowprof") for folder in _folders()) if _is_binary(path)), None)


def find() -> str:
    """$COWPROF, else the binary of this package, else the one on PATH."""
    named = os.environ.get("COWPROF")
    if named:
        if not os.access(named, os.X_OK) or os.path.isdir(named):
            raise CowprofError("COWPROF is {!r}, which is not a program; set it to the path of cowprof".format(named))
        return os.path.abspath(named)
    program = installed() or shutil.which("cowprof")
    if program is None:
        raise CowprofError("no cowprof beside this package, on PATH or in $COWPROF; install the wheel: pip install cowprof-*.whl")
    return program


def run_json(*words: str, statuses: Tuple[int, ...] = (0,)) -> Dict[str, Any]:
    """What a command of cowprof prints as JSON. Other exit statuses raise CowprofError."""
    command: List[str] = [find(), *words]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    if done.returncode in statuses and done.stdout:
        document: Dict[str, Any] = json.loads(done.stdout.decode("utf-8", "replace"))
        return document
    raise CowprofError(last_line(done.stderr) or "cowprof {} ended with status {}".format(words[0], done.returncode))


def last_line(output: bytes) -> str:
    """The line that says why, without the program's name."""
    lines = [line for line in output.decode("utf-8", "replace").splitlines() if line.strip()]
    return lines[-1][len("cowprof: "):] if lines and lines[-1].startswith("cowprof: ") else lines[-1] if lines else ""
