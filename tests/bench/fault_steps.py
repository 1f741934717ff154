#!/usr/bin/python3
"""Measures what each step of counting a copy costs, and the same steps done in other ways; the programs are in fault_steps.bpf.c.

Run as root: tests/bench/fault_steps.py [--short] [--rounds N] [--instructions KERNEL [--mitigations]]. Each round measures a forked child's copies bare and with
each step in turn; the table has the mean of what the pairs differ by, and its standard error. With --instructions, it does so in a guest whose
clock advances a nanosecond for each instruction, on that kernel of tests/vm.

With --tracked [COWPROF ...]: how much more a copy costs in a tracked process than in another one while a recorder is attached. The two take turns
of some 20 ms, which cancels most of what other tenants of the machine do. Each of several builds is attached once a round. Prints, never asserts.
"""
import argparse
import contextlib
import ctypes
import os
import platform
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import unittest.mock
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "system"))
import harness  # noqa: E402  (the folder above has to be known first)
from bench import next_line, running, with_error  # noqa: E402

SOURCE = Path(__file__).with_name("fault_steps.bpf.c")
OBJECTS = harness.BUILD / "fault_steps"
STEPS = {
    "ENTRY_OF_FAULTS": "a program on the fault that does nothing",
    "ENTRIES": "programs on the fault and the allocation that do nothing",
    "STRANGERS_BY_TABLE": "reject a stranger by a table of pids",
    "STRANGERS_BY_TASK": "reject a stranger by the task's storage pointer",
    "STORAGE": "find the thread's state in task storage",
    "CPU_SLOTS": "find it in a slot of the CPU",
    "THREAD_SLOTS": "find it in a table of slots by tid",
    "FAULT": "task storage; note the fault, find it again, count",
    "ENTRY_OF_PAGES": "a program on the allocation alone that does nothing",
    "PAGES_ALONE": "count on the allocation alone, by its flags",
}
COWPROF = {
    "cowprof, counts alone": ("--without=causes", "--without=stacks"),
    "cowprof, counts and causes": ("--without=stacks",),
    "cowprof": (),
    "cowprof, beside another process": None,
}


def build():
    """An object for each step."""
    OBJECTS.mkdir(parents=True, exist_ok=True)
    machine = platform.machine()
    options = ["-D__TARGET_ARCH_" + {"x86_64": "x86", "aarch64": "arm64"}[machine], "-I", SOURCE.parents[2] / "bpf",
               f"-I/usr/include/{machine}-linux-gnu"]
    for step in STEPS:
        subprocess.run(["clang", "-target", "bpf", "-mcpu=v3", "-O2", "-g", *options, f"-DSTEP={step}", "-c", SOURCE, "-o", OBJECTS / f"{step}.o"],
                       check=True)


def libbpf():
    library = ctypes.CDLL("libbpf.so.1")
    for name, arguments in {"bpf_object__open": [ctypes.c_char_p], "bpf_object__load": [ctypes.c_void_p], "bpf_object__close": [ctypes.c_void_p],
                            "bpf_object__next_program": [ctypes.c_void_p] * 2, "bpf_program__attach": [ctypes.c_void_p],
                            "bpf_link__destroy": [ctypes.c_void_p]}.items():
        function = getattr(library, name)
        function.argtypes, function.restype = arguments, ctypes.c_int if name.endswith(("load", "destroy")) else ctypes.c_void_p
    return library


@contextlib.contextmanager
def attached(step):
    """All programs of a step's object run."""
    bpf, program, links = libbpf(), None, []
    found = bpf.bpf_object__open(str(OBJECTS / f"{step}.o").encode())
    assert found and bpf.bpf_object__load(found) == 0, f"load {step}: see above"
    while program := bpf.bpf_object__next_program(found, program):
        links.append(bpf.bpf_program__attach(program))
    assert links and all(links), f"attach {step}: see above"
    try:
        yield
    finally:
        for link in links:
            bpf.bpf_link__destroy(link)
        bpf.bpf_object__close(found)


@contextlib.contextmanager
def recorded(pid, options, folder, settle):
    path = folder / "recording.json"
    path.unlink(missing_ok=True)
    recording = harness.attach(pid, path, "--quiet", "--interval=1s", "--without=fentry", *options)
    try:
        recording.await_sample()
        time.sleep(settle)  # what a start costs is not part of a copy
        os.kill(recording.pid, signal.SIGSTOP)  # and what the recorder does beside it is measured by bench.py
        try:
            yield
        finally:
            os.kill(recording.pid, signal.SIGCONT)
        recording.interrupt()
    finally:
        recording.stop()


def observers(loop, other, folder, settle):
    found = {text: lambda step=step: attached(step) for step, text in STEPS.items()}
    for text, options in COWPROF.items():
        pid = loop.pid if options is not None else other.pid
        found[text] = lambda pid=pid, options=options: recorded(pid, options or (), folder, settle)
    return found


def measure(rounds, pages, settle):
    """{what: differences from the bare round beside it, in ns a copy}, and the bare rounds."""
    with tempfile.TemporaryDirectory() as folder, running("fault_loop", "--kind=touches", "--pages=10") as other, \
            running("fault_loop", "--kind=copies", f"--pages={pages}", "--forks=2") as loop:
        watched = observers(loop, other, Path(folder), settle)
        differences, bare = {text: [] for text in watched}, []
        next_line(loop)  # warms up
        for number in range(rounds):
            order = list(watched)
            random.Random(number).shuffle(order)
            for text in order:
                before = next_line(loop)["ns_per_page"]
                with watched[text]():
                    next_line(loop)  # the first round finds the lists of free pages as the start left them
                    seen = next_line(loop)["ns_per_page"]
                after = next_line(loop)["ns_per_page"]
                bare += [before, after]
                differences[text].append(seen - (before + after) / 2)
    return differences, bare


# ---- Tracked and not, under one recorder ----

def round_of(loop):
    """Runs one round; returns its ns a copy. Waits in shorter steps than next_line(), as rounds are short."""
    seen = len(loop.lines)
    loop.go()
    while len(loop.lines) <= seen:
        time.sleep(0.001)
    return loop.lines[-1]["ns_per_page"]


def tracked_more(tool, own, other, folder, pairs):
    """The median difference between rounds of `own`, which the recorder tracks, and of `other`, in ns a copy."""
    differences = []
    with unittest.mock.patch.object(harness, "COWPROF", tool), recorded(own.pid, (), folder, 1.5):
        for loop in (own, other):
            round_of(loop)  # warms up
        for number in range(pairs):
            order = (own, other) if number % 2 else (other, own)
            figures = {loop: round_of(loop) for loop in order}
            differences.append(figures[own] - figures[other])
    return statistics.median(differences)


def print_tracked(tools, rounds, pages, pairs):
    with tempfile.TemporaryDirectory() as folder, running("fault_loop", "--kind=copies", f"--pages={pages}", "--forks=1") as own, \
            running("fault_loop", "--kind=copies", f"--pages={pages}", "--forks=1") as other:
        more = {tool: [] for tool in tools}
        for number in range(rounds):
            for tool in random.Random(number).sample(tools, len(tools)):
                more[tool].append(tracked_more(tool, own, other, Path(folder), pairs))
    print("| build | ns a copy more in a tracked process |\n|---|---|")
    for tool, values in more.items():
        print(f"| {tool} | {with_error(values)} |")
    for tool in tools[1:]:
        print(f"| {tool} − {tools[0]} | {with_error([after - before for before, after in zip(more[tools[0]], more[tool])])} |")


def print_table(differences, bare, unit):
    print(f"| what | {unit} a copy |\n|---|---|")
    print(f"| bare | {sum(bare) / len(bare):.0f} |")
    for text, values in differences.items():
        print(f"| {text} | {with_error(values)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--pages", type=int, default=50000)
    parser.add_argument("--short", action="store_true", help="one short round, to see that it runs")
    parser.add_argument("--instructions", metavar="KERNEL", help="in a guest, counted in instructions")
    parser.add_argument("--mitigations", action="store_true", help="leave the guest's on")
    parser.add_argument("--tracked", metavar="COWPROF", nargs="*", type=Path, help="compare a tracked process with another one, for each of these builds")
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.short:
        options.rounds, options.pages = 1, 5000
    if options.tracked is not None:
        print_tracked(options.tracked or [harness.COWPROF], options.rounds, 8000, 10 if options.short else 100)
        return
    if not options.inside:
        build()
    if options.instructions:
        inner = "/usr/bin/python3 tests/bench/fault_steps.py --inside --rounds 2 --pages 5000"
        command = [SOURCE.parents[1] / "vm" / "run.py", "--kernel", options.instructions, "--rung", "none", "--test", "", "--command", inner,
                   "--clock-of-instructions", "--timeout", "1500", *(["--mitigations"] if options.mitigations else [])]
        sys.exit(subprocess.run(command, check=False).returncode)
    if not options.inside:
        print(f"Linux {platform.release()}, {os.cpu_count()} CPUs, {options.rounds} rounds\n")
    print_table(*measure(options.rounds, options.pages, 0 if options.short else 3), "instructions" if options.inside else "ns")


if __name__ == "__main__":
    main()
