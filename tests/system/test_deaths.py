"""Why a process ended: each cause is planted with real processes, beside a near miss that must not be mistaken for it.

The OOM killer acts in a real cgroup with a limit, and its choice is compared with the kernel log. Bus errors come from a real small
tmpfs on /dev/shm in a mount namespace, as in a container. A host that runs out of memory can't be shown on a shared machine;
post_mortem_test.cc covers it.
"""
import functools
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import harness
from conftest import needs
from memory_groups import MB, MemoryGroup, in_small_shm, in_small_tmpfs, memory_root

WORKLOAD = Path(__file__).with_name("workloads") / "dying_workers.py"
DATALOADER = Path(__file__).with_name("dataloader.py")
CAUSES = {"oom-cgroup", "oom-host", "sigbus-file", "shm-full"}


@pytest.fixture
def start(start_recording):
    """start(*ways, ...) starts the workers' parent and a recording of it, releases the parent, and returns both."""
    started = []

    def start(*ways, inside=lambda command: command, **options):
        process = harness.Process(inside([harness.PYTHON, WORKLOAD, *ways]), stderr=subprocess.DEVNULL, **options)
        started.append(process)
        process.await_line("role", "ready")
        recording = start_recording(process.pid, "--interval", "1s")
        recording.await_sample()
        await_python(recording)
        process.go()
        return process, recording

    yield start
    for process in started:
        process.stop()


@pytest.fixture
def cgroup():
    """cgroup(parent=None) makes a memory cgroup."""
    needs("memory-cgroup", memory_root() is not None, "no memory cgroup that can be divided")
    made = []

    def make(parent=None):
        made.append(MemoryGroup(parent=parent))
        return made[-1]

    yield make
    for group in reversed(made):
        group.remove()


@pytest.fixture
def hog():
    """hog(group) starts a process in that cgroup that allocates a gigabyte and keeps it."""
    started = []

    def start(group):
        code = "kept = [b'x' * (1 << 20) for _ in range(1000)]; input()"
        started.append(subprocess.Popen([sys.executable, "-c", code], preexec_fn=group.join, stdin=subprocess.PIPE))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.communicate()


def events_of(recording, kind):
    """Events in the file now; none if it is being written right now."""
    return [record for record in harness.records_of(recording.path) if record.get("event") == kind]


def await_python(recording):
    """Waits until the interpreter is identified; from then on Python lines are known."""
    harness.wait_until(lambda: events_of(recording, "python"), "the interpreter to be identified")


def ended(process, way):
    line = process.await_line("by", way)
    return line["pid"]


def finished_report(process, recording):
    """The report once all workers have ended. Names are read from memory, so the parent lives until the last death is recorded."""
    process.await_line("role", "done")
    dead = [line for line in process.lines if line["role"] == "ended"]
    harness.wait_until(lambda: len(events_of(recording, "exit")) >= len(dead), "the exits in the recording")
    process.finish()
    assert recording.wait() == 0, recording.stderr
    recording.timeline()
    return recording.report()


def exit_of(report, pid):
    return harness.row_of(report, pid)["exit"]


def ids_of(report):
    return {diagnosis["id"] for diagnosis in report["diagnoses"]} & CAUSES


def diagnosis_of(report, name):
    return next(diagnosis for diagnosis in report["diagnoses"] if diagnosis["id"] == name)


def assert_no_cause(report):
    assert ids_of(report) == set()
    assert all(row["exit"] is None or row["exit"]["cause"] is None for row in report["workers"])


# ---- Ends not caused by a limit ----


def test_a_worker_that_was_there_at_the_attach_ends_with_an_error_code(start_recording):
    code = ("import os, sys, time\nworker = os.fork()\nif worker == 0:\n"
            "    sys.stdin.readline()\n    os._exit(3)\nprint('{}', flush=True)\nos.waitpid(worker, 0)\ntime.sleep(30)")
    process = harness.Process([harness.PYTHON, "-c", code])
    try:
        harness.wait_until(lambda: process.lines, "the fork")
        recording = start_recording(process.pid)
        recording.await_sample()
        await_python(recording)
        process.go()
        harness.wait_until(lambda: events_of(recording, "exit"), "the worker to end")
        recording.interrupt()
        assert recording.report()["headline"]["sentence"].startswith("1 of 1 worker ended badly: worker ")
    finally:
        process.stop()


def test_ends_without_a_diagnosis(start):
    """A crash is reported with native code and Python line, a kill with its sender, and neither is blamed on a limit."""
    process, recording = start("exit_code:3", "exit_code:0", "hangup_ignored:4", "abort", "segfault", "killed_from_outside", "killed_by_parent:SIGTERM")
    victim = ended(process, "killed_from_outside")
    killer = subprocess.Popen(["sh", "-c", f"kill -9 {victim}"])
    killer.wait()
    report = finished_report(process, recording)
    assert_no_cause(report)
    texts = {line["by"]: exit_of(report, line["pid"]) for line in process.lines if line["role"] == "ending"}
    codes = [exit_of(report, line["pid"])["text"] for line in process.lines if line["role"] == "ending" and line["by"] == "exit_code"]
    assert codes == ["exited unexpectedly with code 3", "exit 0"]
    assert texts["hangup_ignored"]["text"] == "exited unexpectedly with code 4"
    assert texts["killed_from_outside"]["text"] == f"killed by SIGKILL from sh (pid {killer.pid})"
    assert texts["killed_by_parent"]["text"] == "killed by SIGTERM from its parent"
    assert re.match(r"killed by SIGABRT.* at .*dying_workers.py:\d+ in abort$", texts["abort"]["text"])
    segfault = texts["segfault"]
    assert re.match(r"killed by SIGSEGV in .*\.so\S* at .*ctypes/__init__.py:\d+ in string_at$", segfault["text"]), segfault
    assert "it touched address 0x8" in segfault["evidence"]
    line = next(number for number, text in enumerate(WORKLOAD.read_text().splitlines(), 1) if text.strip() == "os.abort()")
    assert f"dying_workers.py:{line} in abort" in texts["abort"]["text"]


def test_a_crash_signal_sent_by_another_process(start):
    """SIGBUS and SIGSEGV sent by another process are not reported as a crash."""
    process, recording = start("killed_from_outside")
    victim = ended(process, "killed_from_outside")
    os.kill(victim, signal.SIGBUS)
    report = finished_report(process, recording)
    assert_no_cause(report)
    assert re.match(rf"killed by SIGBUS from .* \(pid {os.getpid()}\)$", exit_of(report, victim)["text"])


def test_a_handler_that_raises_the_signal_of_another_process_again(start):
    process, recording = start("terminated_after_cleanup")
    victim = process.await_line("role", "handles")["pid"]
    os.kill(victim, signal.SIGTERM)
    report = finished_report(process, recording)
    assert_no_cause(report)
    assert re.match(rf"killed by SIGTERM from .* \(pid {os.getpid()}\)$", exit_of(report, victim)["text"])


@pytest.mark.parametrize("soft, hard, evidence", [(1, 1, "SIGKILL: the hard limit of 1 s was reached"),
                                                  (1, 2, "SIGKILL: the hard limit of 2 s was reached")])
def test_cpu_time_that_is_used_up(soft, hard, evidence, start):
    process, recording = start(f"cpu_time:{soft}:{hard}")
    report = finished_report(process, recording)
    assert_no_cause(report)
    found = exit_of(report, ended(process, "cpu_time"))
    assert found["text"] == "killed by SIGKILL: it used up its CPU time (RLIMIT_CPU, ulimit -t)"
    assert any(evidence in line for line in found["evidence"]), found


def test_the_limit_of_a_file_size(start, tmp_path):
    process, recording = start(f"file_size:{tmp_path}/large")
    report = finished_report(process, recording)
    assert_no_cause(report)
    assert exit_of(report, ended(process, "file_size"))["text"] == \
        "killed by SIGXFSZ: a file that it wrote reached the limit of its size (RLIMIT_FSIZE, ulimit -f)"


@pytest.mark.parametrize("way", ["bound_to_parent", "bound_to_thread"])
def test_a_process_that_dies_with_its_parent(way, start):
    process, recording = start(way)
    child = process.await_line("role", "bound")["pid"]
    parent = ended(process, way)
    harness.wait_until(lambda: recording_deaths(recording), "the child's death in the recording")
    report = finished_report(process, recording)
    assert_no_cause(report)
    text = exit_of(report, child)["text"]
    assert text.startswith("killed by SIGKILL, as ") and f" (pid {parent})" in text and text.endswith("(PR_SET_PDEATHSIG)")
    assert (" that started it ended" in text) == (way == "bound_to_thread"), text


def test_a_command_that_kills_is_named(start):
    process, recording = start("killed_by_command")
    report = finished_report(process, recording)
    assert re.match(r"killed by SIGKILL from sh \(pid \d+\)$", exit_of(report, ended(process, "killed_by_command"))["text"])


TERMINATED_WORKER = """
import json, os, sys, time, torch
from torch.utils.data import DataLoader, Dataset
class Numbers(Dataset):
    def __len__(self):
        return 100_000
    def __getitem__(self, index):
        time.sleep(0.004)
        return index
torch.set_num_threads(1)
print(json.dumps({"role": "ready", "pid": os.getpid()}), flush=True)
sys.stdin.readline()
batches = iter(DataLoader(Numbers(), batch_size=4, num_workers=2))
next(batches)
print(json.dumps({"role": "loading", "workers": [worker.pid for worker in batches._workers]}), flush=True)
for batch in batches:
    if sys.argv[1] == "fails":
        time.sleep(1)
        raise ValueError("planted")
"""


@pytest.mark.parametrize("way", ["is terminated", "fails"])
def test_a_dataloader_whose_worker_is_terminated(way, start_recording):
    """torch's handler raises the signal again, and the trainer fails by it. One that fails by itself ends its workers, which is normal."""
    process = harness.Process([harness.PYTHON, "-c", TERMINATED_WORKER, way], stderr=subprocess.DEVNULL)
    try:
        process.await_line("role", "ready", 60)
        recording = start_recording(process.pid)
        recording.await_sample()
        await_python(recording)
        process.go()
        victim = process.await_line("role", "loading", 60)["workers"][0]
        if way == "is terminated":
            killer = subprocess.Popen(["sh", "-c", f"kill {victim}; sleep 2"])
            killer.wait()
        assert recording.wait() == 0, recording.stderr
        sentence = recording.report()["headline"]["sentence"]
    finally:
        process.stop()
    if way == "fails":
        assert sentence == f"The trainer {process.pid} ended with exit 1."
    else:
        assert sentence == f"1 of 2 workers ended badly: worker {victim} was killed by SIGTERM from sh (pid {killer.pid})."


@pytest.mark.parametrize("where", ["main", "thread"])
def test_signals_that_a_handler_takes(where, start):
    """Runtimes take thousands of faults in normal operation. A few are recorded, and the last one with the death that follows it."""
    process, recording = start(f"trapped:3000:{where}")
    report = finished_report(process, recording)
    assert_no_cause(report)
    assert re.match(r"killed by SIGTRAP.* at .*dying_workers.py:\d+ in last_trap$", exit_of(report, ended(process, "trapped"))["text"])
    assert len(events_of(recording, "signal_delivered")) == 16 + 2
    assert len(events_of(recording, "signal_sent")) == 16 + 1
    samples = [record for record in harness.records_of(recording.path) if record.get("type") == "sample"]
    assert len(samples) < 60, "each signal made a tick of its own"


# ---- Bus errors ----


@pytest.mark.parametrize("way", ["truncated", "truncated_with_handler"])
def test_truncated_file(way, start, tmp_path):
    """Where a handler re-raises the signal, the first delivery carries the evidence and the second one kills."""
    process, recording = start(f"{way}:{tmp_path}/array.npy")
    report = finished_report(process, recording)
    found = exit_of(report, ended(process, way))
    assert (found["signal"], found["cause"]) == ("SIGBUS", "sigbus-file")
    assert "array.npy was truncated while it was mapped" in found["text"] and "in truncated" in found["text"]
    inode = os.stat(tmp_path / "array.npy").st_ino
    device = os.stat(tmp_path / "array.npy").st_dev
    assert any(f"byte 20,480 of array.npy, which is 8,192 bytes long (device {device}, inode {inode})" in line for line in found["evidence"])
    assert ids_of(report) == {"sigbus-file"}


def test_truncated_file_in_shm(start):
    """On a small /dev/shm with room left, the file is to blame and not the mount."""
    process, recording = start("truncated:/dev/shm/array", inside=functools.partial(in_small_shm, megabytes=1))
    report = finished_report(process, recording)
    found = exit_of(report, ended(process, "truncated"))
    assert found["cause"] == "sigbus-file" and found["text"].startswith("killed by SIGBUS: /dev/shm/array was truncated")
    assert ids_of(report) == {"sigbus-file"}


def test_full_shm(start):
    process, recording = start("full:/dev/shm/array", inside=functools.partial(in_small_shm, megabytes=4))
    report = finished_report(process, recording)
    found = exit_of(report, ended(process, "full"))
    assert found["cause"] == "shm-full" and found["text"].startswith("killed by SIGBUS: /dev/shm (4.0 MiB) is full")
    assert ids_of(report) == {"shm-full"}


def test_a_bus_error_after_many_signals_that_a_handler_takes(start):
    """Its handler ends the program, so that nothing else tells of it."""
    process, recording = start("trapped_then_full:100:/dev/shm/array", inside=functools.partial(in_small_shm, megabytes=4))
    report = finished_report(process, recording)
    assert exit_of(report, ended(process, "trapped_then_full"))["text"] == f"exited unexpectedly with code {int(signal.SIGBUS)}"
    assert [event["signal"] for event in events_of(recording, "signal_delivered")].count(int(signal.SIGBUS)) == 1
    assert ids_of(report) == {"shm-full"}


def test_enough_room_in_shm(start):
    process, recording = start("full:/dev/shm/array", inside=functools.partial(in_small_shm, megabytes=16))
    report = finished_report(process, recording)
    assert exit_of(report, ended(process, "full"))["kind"] == "exited"
    assert_no_cause(report)


def test_full_tmpfs_elsewhere(start, tmp_path):
    """A full tmpfs elsewhere does not get the advice for /dev/shm."""
    process, recording = start(f"full:{tmp_path}/array", inside=functools.partial(in_small_tmpfs, tmp_path, megabytes=4))
    report = finished_report(process, recording)
    found = exit_of(report, ended(process, "full"))
    assert found["cause"] == "sigbus-file" and "the tmpfs of array (4.0 MiB) is full" in found["text"]
    assert ids_of(report) == {"sigbus-file"}


LARGE_BATCHES = """
import json, os, resource, sys, torch
from torch.utils.data import DataLoader, Dataset
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
class Images(Dataset):
    def __len__(self):
        return 1000
    def __getitem__(self, index):
        return torch.ones(1 << 20)
torch.set_num_threads(1)
print(json.dumps({"role": "ready", "pid": os.getpid()}), flush=True)
sys.stdin.readline()
seen = 0
for batch in DataLoader(Images(), batch_size=int(sys.argv[1]), num_workers=2):
    seen += 1
    if seen == 20:
        break
print(json.dumps({"role": "done"}), flush=True)
"""


@pytest.mark.parametrize("batch_size, dies", [(8, True), (1, False)])
def test_dataloader_and_a_container_sized_shm(batch_size, dies, start_recording):
    """With four batches of 32 MiB in flight and 64 MiB of /dev/shm, a worker dies of a bus error; with 4 MiB none does."""
    process = harness.Process(in_small_shm([harness.PYTHON, "-c", LARGE_BATCHES, batch_size]), stderr=subprocess.PIPE)
    try:
        process.await_line("role", "ready", 60)
        recording = start_recording(process.pid)
        recording.await_sample()
        process.go()
        process.finish(60)
        said = process.popen.stderr.read()
        assert recording.wait() == 0, recording.stderr
        report = recording.report()
    finally:
        process.stop()
    dead = [row["exit"] for row in report["workers"] if row["exit"]["cause"]]
    assert bool(dead) == dies == ("bus error" in said), said
    assert {(end["signal"], end["cause"]) for end in dead} == ({("SIGBUS", "shm-full")} if dies else set())
    assert ids_of(report) == ({"shm-full"} if dies else set())
    if dies:
        evidence = " ".join(dead[0]["evidence"])
        assert "/dev/shm/torch_" in evidence and "collate" in evidence and "libtorch_cpu" in evidence, dead[0]


# ---- The OOM killer ----


def kernel_log_of(pid):
    """The kernel log's fields for that OOM kill: {constraint, oom_memcg, task_memcg}."""
    log = subprocess.run(["dmesg"], capture_output=True, text=True).stdout
    lines = re.findall(r"oom-kill:(constraint=\S*)", log)
    mine = [line for line in lines if f",pid={pid}," in line]
    return dict(field.split("=", 1) for field in mine[-1].split(",") if "=" in field) if mine else None


def assert_oom(report, pid, group, limit_mebibytes):
    """The death of `pid` is blamed on the limit of `group`, and the kernel log agrees."""
    found = exit_of(report, pid)
    assert (found["signal"], found["cause"]) == ("SIGKILL", "oom-cgroup"), found
    assert found["text"].startswith("killed by SIGKILL: the OOM killer, limit of cgroup ")
    assert ids_of(report) == {"oom-cgroup"}
    diagnosis = diagnosis_of(report, "oom-cgroup")
    assert pid in diagnosis["pids"] and f"limit of {limit_mebibytes}.0 MiB" in diagnosis["summary"], diagnosis
    event = next(record for record in report["timeline"]["records"] if record.get("event") == "oom_victim")
    assert event["limit"]["name"] == group.path and event["limit"]["limit"] == limit_mebibytes << 20
    log = kernel_log_of(pid)
    if log:
        assert log["oom_memcg"] == group.path
    return diagnosis


def oom_report(recording):
    return {**recording.report(), "timeline": recording.timeline()}


def test_oom_kill_of_a_copying_worker_is_recorded_within_a_second(start, cgroup):
    """Victim, limit and copies are in the file while the recording is still running."""
    group = cgroup()
    process, recording = start("exit_code:0", "read_objects", preexec_fn=group.join)
    process.await_line("ended", "exit_code")
    limit = group.used_bytes() // MB + 12
    group.resize(limit * MB)
    victim = process.await_line("ended", "read_objects", 60 * harness.PATIENCE)["pid"]
    harness.wait_until(lambda: recording_deaths(recording), "the death in the recording", 1.0 * harness.PATIENCE)
    report = oom_report(recording)
    diagnosis = assert_oom(report, victim, group, limit)
    row = harness.row_of(report, victim)
    assert {"dict", "str", "int"} & {entry["type"] for entry in row["by_type"]}, row["by_type"]
    evidence = " ".join(diagnosis["evidence"])
    assert "it had itself grown most" in evidence and "objects of type" in evidence, diagnosis
    assert any("columns" in advice for advice in diagnosis["advice"])
    assert report["parent"]["exit"] is None
    process.finish()
    assert recording.wait() == 0, recording.stderr


def test_the_victim_need_not_be_the_top_contributor(start, cgroup):
    group = cgroup()
    process, recording = start("grow_beside_victim:1000", preexec_fn=group.join)
    group.resize((group.used_bytes() // MB + 150) * MB)
    victim = process.await_line("role", "bystander")["pid"]
    grower = ended(process, "grow_beside_victim")
    harness.wait_until(lambda: len(recording_deaths(recording)) == 2, "two deaths", 60 * harness.PATIENCE, 0.1)
    report = oom_report(recording)
    diagnosis = assert_oom(report, victim, group, report_limit(report))
    assert diagnosis["pids"] == [grower, victim] or diagnosis["pids"] == [victim, grower]
    assert any(f"worker {grower} had grown most" in line for line in exit_of(report, victim)["evidence"])
    assert any("new memory" in advice for advice in diagnosis["advice"])


def recording_deaths(recording):
    return [event for event in events_of(recording, "exit") if event["status"] & 0x7f == signal.SIGKILL]


def report_limit(report):
    event = next(record for record in report["timeline"]["records"] if record.get("event") == "oom_victim")
    return event["limit"]["limit"] >> 20


def test_the_trainer_itself_is_killed(start, cgroup, hog):
    """The recording ends with the trainer and has the cause."""
    group = cgroup()
    process, recording = start("exit_code:0", "killed_from_outside", preexec_fn=group.join)
    ended(process, "killed_from_outside")
    Path(f"/proc/{process.pid}/oom_score_adj").write_text("1000")
    group.resize((group.used_bytes() // MB + 60) * MB)
    hog(group)
    assert recording.wait() == 0, recording.stderr
    report = oom_report(recording)
    assert report["timeline"]["records"][-1]["reason"] == "target ended"
    diagnosis = assert_oom(report, process.pid, group, report_limit(report))
    assert any("most belongs to others" in line for line in diagnosis["evidence"]), diagnosis


def test_nested_cgroups(start, cgroup, hog):
    """Another process hits the outer cgroup's limit; the inner one's is far away."""
    outer = cgroup()
    inner, other = cgroup(outer), cgroup(outer)
    process, recording = start("read_objects", preexec_fn=inner.join)
    pid = ended(process, "read_objects")
    inner.resize(4000 * MB)
    outer.resize((outer.used_bytes() // MB + 100) * MB)
    hog(other)
    harness.wait_until(lambda: recording_deaths(recording), "the OOM kill", 60 * harness.PATIENCE, 0.1)
    report = oom_report(recording)
    assert_oom(report, pid, outer, report_limit(report))


def test_an_oom_kill_elsewhere_is_not_blamed_for_a_plain_kill(start, cgroup, hog):
    group = cgroup()
    process, recording = start("killed_from_outside")
    victim = ended(process, "killed_from_outside")
    group.resize(60 * MB)
    assert hog(group).wait(30) == -signal.SIGKILL
    os.kill(victim, signal.SIGKILL)
    report = finished_report(process, recording)
    assert_no_cause(report)
    assert f"(pid {os.getpid()})" in exit_of(report, victim)["text"]


@pytest.mark.parametrize("room, dies", [(60, True), (2000, False)])
def test_dataloader_in_a_cgroup(room, dies, cgroup, start_recording):
    """A real training whose workers copy what they read: with little room one is killed."""
    # Whoever reads torch's files first pays for their cache, and giving it back would be room.
    subprocess.run([harness.PYTHON, "-c", "import torch.utils.data"], check=True, timeout=60 * harness.PATIENCE)
    group = cgroup()
    group.resize(4000 * MB)
    process = harness.Process([harness.PYTHON, DATALOADER, "--items=250000", "--batches=300", "--epochs=2"],
                              preexec_fn=group.join, stderr=subprocess.DEVNULL)
    try:
        process.await_line("event", "start", 60)
        recording = start_recording(process.pid)
        process.await_line("event", "ready", 60)
        limit = group.used_bytes() // MB + room
        group.resize(limit * MB)
        process.finish(120)
        assert recording.wait() == 0, recording.stderr
        report = oom_report(recording)
    finally:
        process.stop()
    if not dies:
        assert_no_cause(report)
        return
    dead = [row for row in [report["parent"], *report["workers"]] if row["exit"] and row["exit"]["cause"]]
    assert dead
    diagnosis = assert_oom(report, dead[0]["pid"], group, limit)
    # Which types: test_oom_kill_of_a_copying_worker. On a busy machine this worker may die before its first names are read.
    assert any("of shared pages" in line for line in diagnosis["evidence"]), diagnosis
    # The code of the fix belongs to the finding on what was copied.
    text = harness.run_cowprof("report", recording.path).stdout
    for copied in [found for found in report["diagnoses"] if found["id"] == "cow-refcount"]:
        assert "what to do (the code is below the tables)" in text
        assert text.count("# after: ") == 1 and text.index("  cow-refcount: ") < text.index(copied["sketch"].splitlines()[0])
