"""cowprof only reads its target. These tests check what guarantees it: the system calls that cowprof makes and the helpers that its
probes call. None of them can stop, signal, write to or reschedule another process, whatever bug is in the code around them.
"""
import contextlib
import os
import re
import shutil
import signal
import subprocess
import threading
from pathlib import Path

import pytest

import harness
import planted
import truth
from conftest import needs

# A process that makes none of these calls can't change another process. The JUDGED ones depend on their arguments.
NEVER = ("ptrace", "process_vm_writev", "process_madvise", "process_mrelease", "pidfd_send_signal", "pidfd_getfd", "tkill",
         "rt_sigqueueinfo", "rt_tgsigqueueinfo", "setpriority", "ioprio_set", "sched_setaffinity", "sched_setscheduler",
         "sched_setparam", "sched_setattr", "move_pages", "migrate_pages", "userfaultfd")
JUDGED = ("kill", "tgkill", "prlimit64", "open", "openat", "openat2", "creat")
# The BPF helpers that change something outside the probe's own maps.
HARMFUL = re.compile(r"bpf_(probe_write_user|override_return|send_signal\w*|copy_to_user|set_retval|skb_store\w*|sys_bpf)\b")


def traced(folder, *arguments):
    """Starts cowprof under strace. Returns strace's process, the path of the recording, and the trace file."""
    needs("strace", shutil.which("strace"), "install Debian's package strace")
    calls, path = folder / "calls", folder / "traced.json"
    command = ["strace", "-f", "-qq", "-e", f"trace={','.join(NEVER + JUDGED)}", "-o", calls, harness.COWPROF, "--output", path,
               "--quiet", *map(str, arguments)]
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    return process, path, calls


def written_in_proc(call):
    """True if the call opens a /proc file other than the caller's own for writing."""
    path = re.search(r'"(/proc/[^"]*)"', call)
    return path and not path.group(1).startswith("/proc/self/") and re.search(r"O_(WRONLY|RDWR|CREAT|TRUNC)", call)


def offences(calls, own):
    """Calls that affect a process other than those in `own`."""
    found = []
    for line in calls.read_text().splitlines():
        pid, call = line.split(None, 1)
        name = call.split("(")[0]
        if name in NEVER:
            found.append(line)
        elif name in ("kill", "tgkill") and int(re.search(r"\((-?\d+)", call).group(1)) not in {int(pid), *own}:
            found.append(line)
        elif name == "prlimit64" and not re.match(r"prlimit64\((0|%s)," % pid, call) and ", NULL, " not in call:
            found.append(line)
        elif name in ("open", "openat", "openat2", "creat") and written_in_proc(call):
            found.append(line)
    return found


def test_no_system_call_touches_another_process(tmp_path, start_workload, figure):
    """Covers every kind of read: causes, copy sites, verification, sweeps, shared memory, exiting workers."""
    tree = start_workload("attach_tree", "--branches=2")
    tree.await_line("role", "leaf")
    process, path, calls = traced(tmp_path, "--attach", tree.pid, "--verify", "--interval=50ms", "--duration=2s")
    _, said = process.communicate(timeout=90)
    assert process.returncode == 0, said
    assert tree.finish()[-1]["bad_endings"] == 0
    seen = len(calls.read_text().splitlines())
    assert seen > 50 and harness.load_json(path)["records"][-1]["type"] == "end"
    found = offences(calls, own=set())
    figure("read-only", f"cowprof's {seen} calls that could touch another process", f"{len(found)} of them do")
    assert not found, found[:5]


def test_the_trace_checker_finds_offences(tmp_path):
    """The checker itself: a signal to another process, a write to its memory, a limit set on it."""
    calls = tmp_path / "calls"
    calls.write_text('100 kill(200, SIGSTOP) = 0\n100 openat(AT_FDCWD, "/proc/200/mem", O_RDWR) = 3\n'
                     "100 prlimit64(200, RLIMIT_NOFILE, {rlim_cur=1, rlim_max=1}, NULL) = 0\n100 ptrace(PTRACE_SEIZE, 200) = 0\n"
                     '100 kill(100, SIGTSTP) = 0\n100 openat(AT_FDCWD, "/proc/200/mem", O_RDONLY) = 3\n'
                     "100 prlimit64(200, RLIMIT_NOFILE, NULL, {rlim_cur=1, rlim_max=1}) = 0\n")
    assert len(offences(calls, own=set())) == 4


def started(strace):
    """(cowprof, its program) once the program runs."""
    try:
        below = truth.tree(strace)[1:]
        programs = [pid for pid in below if Path(f"/proc/{pid}/comm").read_text() == "sleep\n"]
        return (below[0], *programs) if programs else None
    except (FileNotFoundError, ProcessLookupError):  # it exited meanwhile
        return None


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_a_started_program_gets_only_the_signals_that_cowprof_got(number, tmp_path, figure):
    process, _, calls = traced(tmp_path, "--", "sleep", "60")
    try:
        cowprof, program = harness.wait_until(lambda: started(process.pid), "the program")
        os.kill(cowprof, number)
        process.communicate(timeout=30)
    finally:
        process.kill()
    sent = [line for line in calls.read_text().splitlines() if re.search(r" t?g?kill\(", line)]
    assert len(sent) == 1 and f"kill({program}, {number.name}" in sent[0], sent
    figure("read-only", f"{number.name} to cowprof with a program that it started", "passed on to it once, nothing else sent")


def helpers_of(objects):
    """The helpers that loaded programs call, from the kernel's translated instructions."""

    found = set()
    for kind, number in objects:
        if kind == "prog":
            text = subprocess.run([truth.BPFTOOL, "prog", "dump", "xlated", "id", str(number)], capture_output=True, text=True,
                                  check=True).stdout
            found |= set(re.findall(r"call (bpf_\w+|__\w+|0x\w+)", text)) | set(re.findall(r"call (unknown#\d+)", text))
    return found


def test_no_probe_can_write_to_user_memory_or_send_a_signal(start_workload, start_recording, figure):
    target = start_workload("fork_copies", "--pages=10", "--wait")
    target.await_line("role", "ready")
    recording = start_recording(target.pid)
    recording.await_sample()
    objects = {one for one in truth.kernel_objects(recording.pid)}
    helpers = helpers_of(objects)
    recording.interrupt()
    assert len(helpers) > 5, helpers
    harmful = {name for name in helpers if HARMFUL.match(name)}
    figure("read-only", "helpers that the loaded probes call", f"{len(helpers)}, of which {len(harmful)} write or signal")
    assert not harmful


@pytest.fixture
def write_locks():
    """write_locks() returns (thread, address space) for each mmap_lock that this test or its children took for writing."""
    tracing = Path("/sys/kernel/tracing")
    with contextlib.ExitStack() as cleanup:
        if not (tracing / "events").exists() and subprocess.run(["mount", "-t", "tracefs", "tracefs", tracing],
                                                                check=False).returncode == 0:
            cleanup.callback(subprocess.run, ["umount", tracing], check=True)
        needs("tracefs", (tracing / "events/mmap_lock").exists(), "no tracepoint mmap_lock_start_locking (Linux 5.11)")
        instance = tracing / f"instances/cowprof-test-{os.getpid()}"
        instance.mkdir()
        cleanup.callback(instance.rmdir)
        (instance / "options/event-fork").write_text("1")  # this thread and its descendants
        (instance / "set_event_pid").write_text(str(threading.get_native_id()))
        event = instance / "events/mmap_lock/mmap_lock_start_locking"
        (event / "filter").write_text("write==1")
        (event / "enable").write_text("1")
        cleanup.callback((event / "enable").write_text, "0")

        def read():
            assert {int(lost) for stats in instance.glob("per_cpu/*/stats")
                    for lost in re.findall(r"^overrun: (\d+)", stats.read_text(), re.M)} == {0}
            return [(int(thread), space) for thread, space in
                    re.findall(r"-(\d+) .* mm=(\w+) .*write=true", (instance / "trace").read_text())]

        yield read


# Since Linux 6.5 a read of an unmapped address takes mmap_lock for writing; before, a stack could grow under the read lock.
READS_OF_NOTHING_LOCK = truth.KERNEL >= (6, 5)


def read_of_nothing(pid):
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory, contextlib.suppress(OSError):
        memory.seek(1 << 20)
        memory.read(8)


def test_no_read_takes_a_lock_of_the_target_for_writing(write_locks, start_recording, figure):
    """The kernel takes it for a read of an unmapped address, which following a stale pointer can cause."""
    process = harness.Process([harness.PYTHON, planted.WORKLOAD, "str_list", "--linger=2"])
    try:
        harness.wait_until(lambda: process.lines, "the workload to be ready")
        recording = start_recording(process.pid, "--interval", "200ms", "--verify")
        recording.await_sample()
        read_of_nothing(process.pid)
        process.go()
        assert recording.wait() == 0, recording.stderr
        taken = write_locks()
    finally:
        process.stop()
    assert recording.report()["by_type"][0]["type"] == "str"
    # The kernel may reuse the mm_struct address of an earlier process of cowprof for the target.
    first = {space: i for i, (thread, space) in reversed(list(enumerate(taken))) if thread == process.pid}
    assert len(first) >= 2  # its own and that of its forked worker
    assert not READS_OF_NOTHING_LOCK or any(thread == threading.get_native_id() for thread, space in taken if space in first)
    harmed = {space for i, (thread, space) in enumerate(taken) if thread == recording.pid and i > first.get(space, i)}
    figure("read-only", "address spaces whose mmap_lock cowprof took for writing to read the target", f"{len(harmed)}")
    assert not harmed
