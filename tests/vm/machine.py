"""Boots one kernel under qemu with the disk and returns the lines that guest.py printed. Emulates in software by default, so that it
needs no virtualization. User-mode Linux runs as a program, with the same disk.
"""
import base64
import json
import os
import signal
import subprocess
import time
from dataclasses import dataclass

MEMORY_MIB = 2048


@dataclass
class Emulator:
    """How qemu is run."""
    program: str = "qemu-system-x86_64"
    # One thread for both CPUs: with one thread each, qemu before 8.1 may execute a breakpoint that the kernel has patched into its code
    # and removed again (as whenever a tracepoint is attached), and the kernel dies with "Oops: int3". bugzilla.redhat.com/2216496
    accelerator: str = "tcg,thread=single"
    # cx16 is off: with CMPXCHG16B emulated by qemu 7.2, Linux 6.12 crashed at boot in the slab allocator, with garbage in the flags after
    # that instruction. Without five-level page tables each emulated walk is shorter.
    cpu: str = "max,cx16=off,la57=off"
    mitigations: bool = False  # off: the guest is slow enough
    clock_of_instructions: bool = False  # its clock advances a nanosecond for each instruction; it has one CPU, since all would share that clock
    more: tuple = ()  # further arguments


def _user_mode_command(kernel, disk, job, folder, lines):
    """`lines`: the descriptor that the second serial port writes to."""
    changes = folder / "changes.cow"  # what the guest writes; the disk stays as it is
    changes.unlink(missing_ok=True)
    return [kernel, f"mem={MEMORY_MIB}M", f"ubd0={changes},{disk}", "root=/dev/ubda", "rw", "init=/project/tests/vm/init", "panic=-1",
            f"uml_dir={folder}", "con=null", "con0=null,fd:1", "ssl=null", f"ssl1=null,fd:{lines}", f"job={job}"]


def _command(kernel, disk, job, lines, emulator):
    # no_timer_check: on a busy host the emulated timer is late, and the kernel would panic in its first second.
    words = ["root=/dev/nvme0n1", "rw", "init=/project/tests/vm/init", "panic=-1", "no_timer_check", "nowatchdog", "console=ttyS0",
             *([] if emulator.mitigations else ["mitigations=off"]), f"job={job}"]
    clock = ["-icount", "shift=0,sleep=off"] if emulator.clock_of_instructions else []
    nodes = [] if clock else [word for node in (0, 1) for word in (
        "-object", f"memory-backend-ram,id=memory{node},size={MEMORY_MIB // 2}M", "-numa", f"node,nodeid={node},cpus={node},memdev=memory{node}")]
    return [emulator.program, "-accel", emulator.accelerator, "-cpu", emulator.cpu, *clock, "-smp", "1" if clock else "2", "-m", str(MEMORY_MIB), *nodes, "-display", "none",
            "-no-reboot", "-nic", "none", "-serial", "stdio", "-serial", f"file:{lines}",
            "-drive", f"file={disk},if=none,id=disk,format=raw,snapshot=on", "-device", "nvme,drive=disk,serial=disk",
            "-kernel", kernel, "-append", " ".join(words), *emulator.more]


class Guest:
    """A running machine. await_end() returns what it printed."""

    def __init__(self, kernel, disk, job, folder, emulator):
        """`emulator` None: the kernel is user-mode Linux."""
        wanted = base64.urlsafe_b64encode(json.dumps(job).encode()).decode()
        folder.mkdir(parents=True, exist_ok=True)
        self.console, self._lines = folder / "console.txt", folder / "lines.json"
        self._lines.unlink(missing_ok=True)
        self._started = time.monotonic()
        with open(self.console, "wb") as console, open(self._lines, "wb") as lines:
            command = (_command(kernel, disk, wanted, self._lines, emulator) if emulator else
                       _user_mode_command(kernel, disk, wanted, folder, lines.fileno()))
            self._popen = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=console,
                                           stderr=subprocess.STDOUT, pass_fds=[lines.fileno()], start_new_session=True,
                                           env={**os.environ, "TMPDIR": str(folder)})

    def await_end(self, seconds):
        """The lines, and why they are incomplete, or None if they are complete."""
        problem = None
        try:
            self._popen.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(self._popen.pid, signal.SIGKILL)  # user-mode Linux has a process for each address space
            self._popen.wait()
            problem = f"not finished after {seconds:g} s"
        self.seconds = time.monotonic() - self._started
        lines = [json.loads(line) for line in self._read_lines() if line.startswith("{") and line.endswith("}")]
        if problem:
            problem += f", while running {next((line['running'] for line in reversed(lines) if 'running' in line), 'no test')}"
        if not problem and not any(line.get("done") for line in lines):
            problem = "the guest ended before it had finished"
        return lines, problem and f"{problem}; the end of {self.console}:\n{self._tail()}"

    def _read_lines(self):
        return self._lines.read_text(errors="replace").replace("\r", "").splitlines() if self._lines.exists() else []

    def _tail(self):
        return "\n".join(self.console.read_text(errors="replace").splitlines()[-100:])
