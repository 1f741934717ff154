#!/usr/bin/python3
"""Counts the instructions of a copy by function: bare, with empty programs on the two tracepoints, and with cowprof.

Run as root: tests/bench/fault_functions.py [--kernel 6.12] [--rows N]. Takes some minutes: an emulated machine logs each instruction of a forked child's
copies. Calls are listed as well, because each ends in a return, which retpolines and Safe RET make slow. Prints, never asserts.
"""
import argparse
import base64
import bisect
import collections
import contextlib
import gzip
import os
import re
import socket
import sys
import tempfile
import tty
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "vm"))
import fault_steps  # noqa: E402
import harness  # noqa: E402
from archive import fetch_kernel  # noqa: E402
from bench import next_line, running  # noqa: E402
from disk import make_disk  # noqa: E402
from machine import Emulator, Guest  # noqa: E402

REPOSITORY = Path(__file__).resolve().parents[2]
SERIAL = "/dev/ttyS2"  # of the guest: lines for the host, each of which it answers
PAGES = 100
RECORDED = {"bare": None, "empty programs": fault_steps.STEPS["ENTRIES"], "beside another process": "cowprof, beside another process",
            "counts alone": "cowprof, counts alone", "cowprof": "cowprof"}
USER_ADDRESSES = 1 << 47


# ---- In the guest ----

class Host:
    def __init__(self):
        descriptor = os.open(SERIAL, os.O_RDWR | os.O_NOCTTY)
        tty.setraw(descriptor)
        self._in, self._out = os.fdopen(descriptor, "rb", buffering=0), os.fdopen(os.dup(descriptor), "wb", buffering=0)

    def tell(self, *words):
        line = memoryview(" ".join(words).encode() + b"\n")
        while line:
            line = line[self._out.write(line):]
        while self._in.read(1) != b"\n":
            pass


def symbols():
    Path("/proc/sys/kernel/kptr_restrict").write_text("0")
    return base64.b64encode(gzip.compress(Path("/proc/kallsyms").read_bytes())).decode()


def record_inside():
    host = Host()
    Path("/proc/sys/net/core/bpf_jit_kallsyms").write_text("1")
    with tempfile.TemporaryDirectory() as folder, running("fault_loop", "--kind=touches", "--pages=10") as other, \
            running("fault_loop", "--kind=copies", f"--pages={PAGES}", "--forks=1") as loop:
        watched = fault_steps.observers(loop, other, Path(folder), 3)
        for name, step in RECORDED.items():
            with watched[step]() if step else contextlib.nullcontext():
                next_line(loop)
                host.tell("symbols", symbols())
                host.tell("begin", name)
                next_line(loop)
                host.tell("end")


# ---- On the host ----

class Monitor:
    """qemu's, for people: it answers each command with a prompt."""

    def __init__(self, path):
        self._socket = socket.socket(socket.AF_UNIX)
        harness.wait_until(lambda: self._socket.connect_ex(str(path)) == 0, "qemu's monitor", seconds=20)
        self._await_prompt()

    def _await_prompt(self):
        said = b""
        while not said.endswith(b"(qemu) "):
            piece = self._socket.recv(65536)
            assert piece, "qemu has ended"
            said += piece

    def run(self, *commands):
        for command in commands:
            self._socket.sendall(command.encode() + b"\n")
            self._await_prompt()


def copies_in(log, functions):
    """For each copy, the (function, whether it begins) of each of its instructions."""
    starts, copy, copies = [start for start, _ in functions], None, []
    known = {}
    with open(log, encoding="ascii", errors="replace") as lines:
        for line in lines:
            found = re.match(r"Trace \d+: \S+ \[[0-9a-f]+/([0-9a-f]+)/", line)
            if not found:
                continue
            address = int(found[1], 16)
            if address < USER_ADDRESSES:
                if copy and any(name in ("do_wp_page", "wp_page_copy") for name, _ in copy):
                    copies.append(copy)
                copy = None
                continue
            if address not in known:
                start, name = functions[bisect.bisect(starts, address) - 1]
                known[address] = (re.sub(r"^bpf_prog_[0-9a-f]{16}_", "cowprof: ", name), address == start)
            if known[address] == ("asm_exc_page_fault", True) and copy is None:
                copy = []
            if copy is not None:
                copy.append(known[address])
    usual = sorted(map(len, copies))[len(copies) // 2] if copies else 0
    return [copy for copy in copies if len(copy) < 1.3 * usual]  # the others take a page table or an interrupt, too


def means(copies):
    """{function: (instructions, calls)} of a copy."""
    instructions, calls = collections.Counter(), collections.Counter()
    for copy in copies:
        instructions.update(name for name, _ in copy)
        calls.update(name for name, begins in copy if begins)
    return {name: (count / len(copies), calls[name] / len(copies)) for name, count in instructions.items()}


def record(kernel, build):
    """{what ran: means()}"""
    folder = build / "vm" / "functions"
    folder.mkdir(parents=True, exist_ok=True)
    serial, monitor, log = folder / "serial", folder / "monitor", folder / "instructions.log"
    for path in (serial, monitor):
        path.unlink(missing_ok=True)
    emulator = Emulator(clock_of_instructions=True, more=(
        "-chardev", f"socket,id=host,path={serial},server=on,wait=off", "-serial", "chardev:host", "-monitor", f"unix:{monitor},server=on,wait=off"))
    job = {"rungs": ["none"], "tests": [], "commands": ["/usr/bin/python3 tests/bench/fault_functions.py --inside"]}
    image, disk = fetch_kernel(kernel, build / "vm"), make_disk(REPOSITORY, build, build / "vm")
    guest = Guest(image, disk, job, folder, emulator)
    found = {}
    try:
        qemu, inside = Monitor(monitor), socket.socket(socket.AF_UNIX)
        inside.connect(str(serial))
        inside.settimeout(600)
        for line in inside.makefile("rb"):
            what, _, rest = line.decode().strip().partition(" ")
            if what == "symbols":
                symbols = (row.split()[:3] for row in gzip.decompress(base64.b64decode(rest)).decode().splitlines())
                functions = sorted((int(address, 16), name) for address, kind, name in symbols if kind in "tTwW")
            elif what == "begin":
                name = rest
                qemu.run(f"logfile {log}", "singlestep on", "log exec,nochain")
            elif what == "end":
                qemu.run("log none", "singlestep off")
                found[name] = means(copies_in(log, functions))
                log.unlink()
                print(f"{name}: {sum(count for count, _ in found[name].values()):.0f} instructions a copy", file=sys.stderr, flush=True)
            inside.sendall(b"\n")
            if len(found) == len(RECORDED):
                break
    finally:
        _lines, problem = guest.await_end(60)
    if len(found) < len(RECORDED):
        sys.exit(f"tests/bench/fault_functions.py: {problem or 'the guest ended early'}")
    return found


def print_table(found, rows):
    bare, watched = found.pop("bare"), found
    print(f"Instructions (and calls) of a copy more than bare, which are {sum(count for count, _ in bare.values()):.0f}\n")
    print(f"| function | bare | {' | '.join(watched)} |\n|---|---|{'---|' * len(watched)}")
    none = (0, 0)

    def more(table, name):
        return [now - before for now, before in zip(table.get(name, none), bare.get(name, none))]

    names = sorted(set().union(*watched.values()), key=lambda name: -max(abs(more(table, name)[0]) for table in watched.values()))
    for name in names[:rows]:
        cells = ["{:+.0f} ({:+.1f})".format(*more(table, name)) for table in watched.values()]
        print(f"| {name} | {bare.get(name, none)[0]:.0f} | {' | '.join(cells)} |")
    totals = [[sum(more(table, name)[part] for name in names) for part in (0, 1)] for table in watched.values()]
    print(f"| all | | {' | '.join('**{:+.0f}** ({:+.1f})'.format(*total) for total in totals)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kernel", default="6.12", help="one of tests/vm")
    parser.add_argument("--rows", type=int, default=25)
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.inside:
        record_inside()
        return
    fault_steps.build()
    print_table(record(options.kernel, Path(os.environ.get("COWPROF_BUILD", REPOSITORY / "build")).resolve()), options.rows)


if __name__ == "__main__":
    main()
