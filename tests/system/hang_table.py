#!/usr/bin/env python3
"""Prints, for each CPython and kind of wait, what hung by the workload's watchdog and what `cowprof hang` said, and the truth against
what was said (H3 and H4): python3 hang_table.py.

Options: versions (3.8 3.14 native torch-sid) and kinds, to run some only. Run as root. Exits 1 if a wait that is none is called a hang, or a kind is
named wrong; a hang that is not named is a row, and counts.
"""
import collections
import datetime
import json
import os
import platform
import subprocess
import sys

import chroots
import harness
import planted

# kind of the workload -> (kind that must be named, whether it is by the fork); None: it hangs, but nothing proves it
HANGS = {
    "lock": ("lock", True), "rlock": ("rlock", True), "condition": ("rlock", True), "notification": ("unknown", False),
    "lock_of_condition": ("lock", True), "loop_result": ("unknown", True), "executor_result": ("unknown", True),
    "import_lock": ("import-lock", True), "file_buffer": ("file-buffer", True), "logging_handler": ("rlock", True),
    "own_deadlock": ("deadlock", False), "own_lock_twice": (("deadlock", "lock"), False), "rlock_beside_idle": ("rlock", True),
    "ended_rlock": ("rlock", False), "lock_beside_idle": (None, None)}
WAITS = ["sleeps", "reads_pipe", "polls", "multiprocessing_queue", "shared_semaphore", "timed_wait", "timed_lock", "contention",
         "ping_pong", "stopped", "idle_executor", "slow_disk", "busy", "waits_for_signal", "queue_fed_from_pipe",
         "waits_for_grandchild", "serves_until_killed", "result_of_server", "non_daemon"]
NATIVE = {"mutex": ("c-mutex", True), "rwlock": ("c-mutex", True), "openmp": ("openmp", True), "join": ("c-mutex", True), "twice": ("deadlock", False)}
NATIVE_WAITS = ["free", "served", "shares", "held"]
TORCH = {"process": ("openmp", True), "pool": ("openmp", True), "loader_lock": ("lock", True), "loader_rlock": ("rlock", True)}
TORCH_WAITS = ["loader", "cured"]
# Python and torch of Debian's suites. trixie's 3.13 has another Lock than 3.13.0, which pyenv has.
SUITES = {"trixie": "trixie", "3.14": "sid"}
TORCHES = {"torch-1.13": None, "torch-trixie": "trixie", "torch-sid": "sid"}
Row = collections.namedtuple("Row", "version kind hung hangs")


def look(pid):
    """What `cowprof hang` says of a tree, checked against the schema."""
    run = subprocess.run([harness.COWPROF, "hang", str(pid), "--json"], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    said = json.loads(run.stdout)
    harness.validate(said, "hang.schema.json")
    return said["hangs"]


def command_of(version, kind):
    if version == "native":
        return [harness.WORKLOADS / "fork_hangs_native", kind]
    return python_command(version, "fork_hangs_torch.py" if version in TORCHES else "fork_hangs.py", kind)


def python_command(version, script, *arguments):
    """The command for a script of workloads/, by the Python of a version or of the suite that has a version of torch."""
    suite = {**SUITES, **TORCHES}.get(version)
    if suite:
        chroot, why = chroots.chroot(suite)
        assert chroot, why
        return chroot.python(f"workloads/{script}", *arguments)
    python = harness.PYTHON if version in ("3.11", "torch-1.13") else planted.interpreters()[version]
    return [python, harness.REPOSITORY / "tests/system/workloads" / script, *arguments]


def missing(version):
    """What this machine lacks for a version, as expected_skips.txt names it, and why; or None."""
    suite = {**SUITES, **TORCHES}.get(version)
    if suite:
        chroot, why = chroots.chroot(suite)
        return None if chroot else (f"Debian {suite}", why)
    has = version in ("3.11", "native", "torch-1.13") or planted.interpreters()[version]
    return None if has else (f"Python {version}", "not installed")


def run(version, kind):
    process = harness.Process(command_of(version, kind), stderr=subprocess.DEVNULL)
    try:
        judged = process.await_line("event", "judged")
        hangs = look(process.pid)
    finally:
        process.stop()
    return Row(version, kind, judged["hung"], hangs)


def verdict(row):
    """"right", "missed" or "WRONG"."""
    if row.kind in (*WAITS, *NATIVE_WAITS) or not row.hung:
        return "WRONG" if row.hangs else "right"
    kind, by_fork = (NATIVE if row.version == "native" else TORCH if row.version in TORCHES else HANGS)[row.kind]
    if kind is None:
        return "WRONG" if row.hangs else "missed"
    if not row.hangs:
        return "missed"
    named = all(hang["kind"] in kind if isinstance(kind, tuple) else hang["kind"] == kind for hang in row.hangs)
    return "right" if named and all(hang["by_fork"] == by_fork for hang in row.hangs) else "WRONG"


def summary(rows):
    """The tables of docs/hangs.md: a row a kind of wait, then the truth against what was said."""
    yield f"{datetime.date.today():%-d %b %Y}, Linux {'.'.join(platform.release().split('.')[:2])}, {os.cpu_count()} CPUs, {' '.join(platform.libc_ver())}"
    yield "\n| wait | runs | hung, by the watchdog | said |\n| --- | --- | --- | --- |"
    for kind in dict.fromkeys(row.kind for row, _ in rows if hangs(row)):
        of_kind = [row for row, _ in rows if row.kind == kind and hangs(row)]
        said = collections.Counter(", ".join(sorted({f"`{hang['kind']}`, {hang['proof']}" for hang in row.hangs})) or "nothing" for row in of_kind)
        runs = sum(row.kind == kind for row, _ in rows)
        yield f"| {kind} | {runs} | {len(of_kind)} | {'; '.join(f'{words} ({count})' if len(said) > 1 else words for words, count in said.most_common())} |"
    yield "\n| truth | runs | named right | named wrong | nothing said |\n| --- | --- | --- | --- | --- |"
    for truth, is_hang in ("hangs (H3)", True), ("waits that are none (H4)", False):
        of_truth = [(row, judged) for row, judged in rows if hangs(row) == is_hang]
        wrong = sum(judged == "WRONG" for _, judged in of_truth)
        right = sum(judged == "right" for _, judged in of_truth) if is_hang else 0
        yield f"| {truth} | {len(of_truth)} | {right if is_hang else '–'} | {wrong} | {len(of_truth) - wrong - right} |"


def hangs(row):
    return row.hung and row.kind not in (*WAITS, *NATIVE_WAITS)


def main(words):
    kinds = {**dict.fromkeys(["3.8", "3.9", "3.10", "3.11", "3.12", "3.13", "trixie", "3.14"], [*HANGS, *WAITS]),
             "native": [*NATIVE, *NATIVE_WAITS], **dict.fromkeys(TORCHES, [*TORCH, *TORCH_WAITS])}
    versions = [word for word in words if word in kinds] or list(kinds)
    chosen = [word for word in words if word not in kinds]
    rows = []
    print(f"{'':13}{'wait':24}{'hung':6}{'said':26}{'holder':18}verdict")
    for version in versions:
        for kind in chosen or kinds[version]:
            row = run(version, kind)
            said = ", ".join(sorted({f"{hang['kind']} ({hang['proof']})" for hang in row.hangs})) or "-"
            holders = ", ".join(sorted({hang["holder"]["name"] for hang in row.hangs if hang["holder"]})) or "-"
            rows.append((row, verdict(row)))
            print(f"{version:13}{kind:24}{'yes' if hangs(row) else 'no':6}{said:26}{holders:18}{rows[-1][1]}", flush=True)
    print("", *summary(rows), sep="\n")
    return any(judged == "WRONG" for _, judged in rows)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
