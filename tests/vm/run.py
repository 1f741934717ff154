#!/usr/bin/python3
"""Boots distribution kernels under qemu and tests cowprof on each: every rung against planted truth, then system tests.

    tests/vm/run.py                                   6.1 and 6.12
    tests/vm/run.py --kernel 5.10 --rung fentry --test test_doctor.py
    tests/vm/run.py --kernel all --docs               every kernel in archive.py; writes the table of docs/kernels.md
    tests/vm/run.py --kernel uml                      user-mode Linux, which has no BTF: what is said there

Run as root. Fetched and built files stay in BUILD/vm.
"""
import argparse
import os
import platform
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import table
from archive import SUITES, UML, Unreachable, fetch_kernel
from disk import make_disk
from machine import Emulator, Guest

REPOSITORY = Path(__file__).resolve().parents[2]
TESTS = Path(__file__).with_name("guest_tests.txt")
UML_TESTS = TESTS.with_name("uml_tests.txt")
# User-mode Linux 6.1 says so on a CPU with AMX, and ends: ptrace(2) takes all of a CPU's registers or none.
TOO_MANY_REGISTERS = "ptrace set fp regs failed"


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kernel", action="append", choices=[*SUITES, "all"], help="repeatable; default: 6.1 and 6.12")
    parser.add_argument("--rung", action="append", default=[], help="count only at these rungs; default: all that doctor lists")
    parser.add_argument("--test", action="append", help=f"pytest arguments below tests/system; default: {TESTS.name}; '' for none")
    parser.add_argument("--slice", action="store_true", help=f"leave out what {TESTS.name} marks as slow")
    parser.add_argument("--command", action="append", default=[], help="a line of bash to run in /project at the end, with its output printed")
    parser.add_argument("--timeout", type=float, default=600, help="time limit per guest in seconds")
    parser.add_argument("--side-by-side", type=int, default=2, help="number of guests at a time")
    parser.add_argument("--accel", default=Emulator.accelerator, help="qemu's -accel; kvm where available")
    parser.add_argument("--cpu", default=Emulator.cpu, help="qemu's -cpu; kernels since 6.19 need one with cx16, and so a qemu newer than 7.2")
    parser.add_argument("--qemu", default=Emulator.program, help="the qemu program")
    parser.add_argument("--mitigations", action="store_true", help="leave the kernel's mitigations of CPU faults on")
    parser.add_argument("--clock-of-instructions", action="store_true", help="the guest's clock advances a nanosecond for each instruction")
    parser.add_argument("--docs", action="store_true", help="write the table of docs/kernels.md")
    arguments = parser.parse_args()
    arguments.kernel = list(SUITES) if "all" in (arguments.kernel or []) else arguments.kernel or ["6.1", "6.12"]
    return arguments


def tests_of(kernel, wanted, only_slice):
    """`wanted` None: those of the kernel's list, without the slow ones in a slice."""
    if wanted is not None:
        return [test for test in wanted if test]
    lines = [line for line in (UML_TESTS if kernel == UML else TESTS).read_text().splitlines() if line and not line.startswith("#")]
    return [test for test, *marks in map(str.split, lines) if not (only_slice and marks == ["slow"])]


def fetch_kernels(names, build):
    """{name: image}, and (name, reason) for kernels that could not be fetched."""
    images, missing = {}, []
    for name in names:
        try:
            images[name] = fetch_kernel(name, build)
        except Unreachable as error:
            missing.append((name, f"package archive: {error}"))
    return images, missing


def run_guests(images, disk, arguments, build):
    emulator = Emulator(arguments.qemu, arguments.accel, arguments.cpu, arguments.mitigations, arguments.clock_of_instructions)

    def run_guest(name):
        job = {"rungs": arguments.rung, "tests": tests_of(name, arguments.test, arguments.slice), "commands": arguments.command}
        guest = Guest(images[name], disk, job, build / name, None if name == UML else emulator)
        lines, problem = guest.await_end(arguments.timeout)
        return table.read_finding(name, lines, problem, guest.seconds)

    with ThreadPoolExecutor(arguments.side_by_side) as pool:
        return list(pool.map(run_guest, images))


def main():
    arguments = parse_arguments()
    build = Path(os.environ.get("COWPROF_BUILD", REPOSITORY / "build")).resolve()
    if platform.machine() != "x86_64":
        sys.exit(f"tests/vm: boots x86-64 kernels only, with programs built here, for {platform.machine()}")
    missing = [program for program in (arguments.qemu, "apt-get", "dpkg-deb") if not shutil.which(program)]
    if missing:
        sys.exit(f"tests/vm: {', '.join(missing)} is missing; run scripts/install-deps.sh tests")
    images, absent = fetch_kernels(arguments.kernel, build / "vm")
    disk = make_disk(REPOSITORY, build, build / "vm")
    findings = run_guests(images, disk, arguments, build / "vm")
    if unfit := [finding for finding in findings if finding.kernel == UML and TOO_MANY_REGISTERS in (finding.problem or "")]:
        absent.append((UML, f"CPU: it has more registers than this kernel has room for ({TOO_MANY_REGISTERS})"))
        findings = [finding for finding in findings if finding not in unfit]
    if arguments.docs:
        table.write_docs(findings, REPOSITORY / "docs" / "kernels.md", f"qemu -accel {arguments.accel} -cpu {arguments.cpu}")
    sys.exit(table.print_results(findings, absent))


if __name__ == "__main__":
    main()
