"""Shared memory: what `cowprof shm` and a recording say about a /dev/shm whose entire content was planted.

Each workload runs in a mount namespace with a tmpfs of 64 MiB on /dev/shm, as in a container; cowprof runs outside.
"""
import contextlib
import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

import harness
import truth
from memory_groups import in_small_shm

WORKLOAD = harness.REPOSITORY / "tests" / "system" / "workloads" / "shared_memory.py"
MIB = 2**20
CAPACITY = 64 * MIB


class SharedMemory(harness.Process):
    """A planted workload. Its pid is the interpreter's."""

    def __init__(self, shape, *options):
        super().__init__(in_small_shm([harness.PYTHON, WORKLOAD, shape, *options]), stderr=subprocess.DEVNULL)

    def used(self):
        info = os.statvfs(harness.inside(self.pid, "dev/shm"))
        return (info.f_blocks - info.f_bfree) * info.f_frsize

    def go_until(self, event):
        self.go()
        return self.await_line("event", event)


@pytest.fixture
def start():
    started = []

    def begin(shape, *options):
        started.append(SharedMemory(shape, *options))
        started[-1].await_line("event", "ready")
        return started[-1]

    yield begin
    for process in started:
        for pid in [*truth.children(process.pid), *(line["child"] for line in process.lines if "child" in line)]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.stop()


@pytest.fixture
def record(start_recording):
    """record(process) attaches and waits for the first complete scan of shared memory."""
    def begin(process):
        recording = start_recording(process.pid, "--interval", "100ms")
        recording.await_sample()
        harness.wait_until(lambda: any(look["whole"] for look in looks(recording)), "a first complete scan of shared memory")
        return recording
    return begin


def looks(recording):
    return [record["shm"] for record in harness.records_of(recording.path) if "shm" in record]


def finished(recording):
    """The report after the target has ended on its own."""
    assert recording.wait() == 0, recording.stderr
    recording.timeline()
    return recording.report()


def found(report):
    return {diagnosis["id"]: diagnosis for diagnosis in report["diagnoses"]}


def shm_ids(report):
    return {name for name in found(report) if name.startswith("shm-") or name == "fd-exhaustion"}


def shm(*arguments):
    result = harness.run_cowprof("shm", "--json", *arguments)
    assert (result.returncode, result.stderr) == (0, "")
    document = json.loads(result.stdout)
    harness.validate(document, "shm.schema.json")
    return document


def of_kind(document, kind):
    return [segment for segment in document["segments"] if segment["kind"] == kind]


# ---- The command ----

@pytest.mark.parametrize("strategy", ["file_descriptor", "file_system"])
def test_every_batch_in_flight_is_found_once(start, strategy):
    trainer = start("loader", "--kib=4096", "--workers=2", "--prefetch=3", "--keep=1", f"--strategy={strategy}")
    workers = trainer.go_until("holding")["workers"]
    in_flight = 2 * 3 + 1  # one was taken and its place in the queue refilled
    harness.wait_until(lambda: trainer.used() >= in_flight * 4 * MIB, "the queues to fill")
    document = shm(trainer.pid)
    assert (document["pid"], document["capacity_bytes"]) == (trainer.pid, CAPACITY)
    segments = of_kind(document, "torch")
    assert len(segments) == in_flight == document["batches"]["segments"]
    assert {segment["creator"] for segment in segments} == set(workers)
    assert all(segment["deleted"] == (strategy == "file_descriptor") for segment in segments)
    assert all(segment["bytes"] >= 4 * MIB and segment["ownership"] == "owned" for segment in segments)
    owners = {pid for segment in segments for pid in segment["mapped_by"] + segment["opened_by"]}
    assert trainer.pid in owners and owners <= {trainer.pid, *workers}
    inodes = [segment["inode"] for segment in document["segments"] if segment["on_mount"]]
    assert len(inodes) == len(set(inodes))
    assert document["unexplained_bytes"] <= 64 * 1024 and document["leaked"]["segments"] == 0


def test_odd_names_and_file_types_are_handled(start):
    process = start("odd")
    document = shm(process.pid)
    kinds = {segment["name"]: segment["kind"] for segment in document["segments"]}
    assert kinds["cache/table.arrow"] == kinds["torch_x_1"] == kinds["torch_0_1_1"] == kinds["pym-"] == "file"
    assert kinds["memfd:planted"] == "memfd"
    assert not {"psm_link", "torch_1_2_3", "psm_pipe"} & set(kinds), "links and pipes were listed, which hold no memory"
    assert len([name for name in kinds if name.startswith("sem.")]) == 1, "a file with two names was listed twice"
    (memfd,) = of_kind(document, "memfd")
    assert memfd["bytes"] == 3 * MIB and not memfd["on_mount"] and memfd["opened_by"] == [process.pid]
    assert document["used_bytes"] < 3 * MIB and document["unexplained_bytes"] <= 64 * 1024
    assert document["leaked"] == {"segments": 0, "bytes": 0}
    text = harness.run_cowprof("shm", process.pid).stdout
    assert "two\\x0alines\\x1b[31m" in text and "bad\\xff\\xfe" in text and "\x1b" not in text


def test_ownerless_segments_are_leaked_unless_stored_on_purpose(start):
    keeper = start("npy", "--kib=1024")
    join = ["nsenter", "--mount", f"--target={keeper.pid}", harness.PYTHON, str(WORKLOAD), "leak", "--kib=16384"]
    leaker = harness.Process(join, stderr=subprocess.DEVNULL)
    name = leaker.await_line("event", "ready")["name"]
    (segment,) = of_kind(shm(keeper.pid), "multiprocessing")
    assert segment["ownership"] == "owned" and leaker.pid in segment["mapped_by"]
    leaker.finish()
    document = shm(keeper.pid)
    (segment,) = of_kind(document, "multiprocessing")
    assert (segment["name"], segment["ownership"], segment["bytes"]) == (name, "leaked", 16 * MIB)
    (kept,) = of_kind(document, "file")
    assert kept["name"] == "features.npy" and kept["ownership"] == "owned"
    text = harness.run_cowprof("shm", keeper.pid).stdout
    assert "numpy file" in text and "LEAKED" in text


def test_without_a_pid_its_own_mount_is_read_and_an_invalid_pid_is_refused():
    assert shm()["pid"] is None
    result = harness.run_cowprof("shm", "4194303")
    assert result.returncode == 4 and len(result.stderr.splitlines()) == 1
    assert harness.run_cowprof("shm", "nonsense").returncode == 2


def test_a_user_without_access_is_told_so(start):
    """Owners may be among processes that this user can't read, so nothing is called leaked."""
    start("tracked_twice")
    document = json.loads(subprocess.run([*harness.TO_NOBODY, str(harness.COWPROF), "shm", "--json"],
                                         capture_output=True, text=True, timeout=harness.DEADLINE).stdout)
    harness.validate(document, "shm.schema.json")
    assert document["unreadable_processes"] > 0 and not document["complete"] and document["leaked"]["segments"] == 0


# ---- Diagnoses: the cause of each, and a near miss ----

def test_shm_full(start, record):
    trainer = start("loader", "--kib=2560", "--workers=4", "--prefetch=16", "--keep=80", "--delay=0.2")
    recording = record(trainer)
    trainer.go_until("failed")
    trainer.finish()
    report = finished(recording)
    assert shm_ids(report) == {"shm-full"}
    diagnosis = found(report)["shm-full"]
    assert report["diagnoses"][0] == diagnosis
    text = "\n".join(diagnosis["evidence"] + diagnosis["advice"])
    assert re.search(r"segments of 2\.5 MiB from \d process", text), text
    assert "--shm-size=" in text and "num_workers=0" in text
    assert set(diagnosis["pids"]) <= {trainer.pid, *(row["pid"] for row in report["workers"])}


def test_shm_full_without_a_fault(start, record):
    """Since torch 2.10 memory is reserved by a system call without page faults; it is seen, too."""
    process = start("allocate", "--kib=65532")
    recording = record(process)
    process.go_until("holding")
    harness.wait_until(lambda: any(look["used_bytes"] >= 0.99 * CAPACITY for look in looks(recording)[-1:]), "a scan that finds it")
    process.finish()
    report = finished(recording)
    assert shm_ids(report) == {"shm-full"}
    assert report["parent"]["shm_pages"] == 0
    assert report["shm"]["at_peak"]["segments"][0]["opened_by"] == [process.pid]


def test_shm_near_full_and_an_enlarged_mount(start, record):
    trainer = start("loader", "--kib=9216", "--workers=3", "--prefetch=2", "--keep=0")
    recording = record(trainer)
    workers = trainer.go_until("holding")["workers"]
    harness.wait_until(lambda: trainer.used() >= 54 * MIB, "the queues to fill")
    harness.wait_until(lambda: any(look["used_bytes"] >= 54 * MIB for look in looks(recording)[-1:]), "a scan that finds them")
    subprocess.run(["nsenter", "--mount", f"--target={trainer.pid}", "mount", "-o", "remount,size=256m", "/dev/shm"], check=True)

    def seen():
        return any(row[2] == 256 * MIB for record in harness.records_of(recording.path) for row in record.get("limits", []))
    harness.wait_until(seen, "the new limit in the timeline")
    recording.interrupt()
    recording.timeline()
    report = recording.report()
    assert shm_ids(report) == {"shm-near-full"}
    diagnosis = found(report)["shm-near-full"]
    text = "\n".join(diagnosis["evidence"])
    assert "6 segments of 9.0 MiB from 3 processes, 2 each" in text and "of 256.0 MiB" in text
    assert set(diagnosis["pids"]) == {trainer.pid, *workers} or set(diagnosis["pids"]) == set(workers)
    assert "shared memory (/dev/shm)" in harness.run_cowprof("report", recording.path).stdout


def test_half_full_and_flat_is_not_diagnosed(start, record):
    trainer = start("loader", "--kib=8192", "--workers=2", "--prefetch=2", "--keep=0")
    recording = record(trainer)
    trainer.go_until("holding")
    harness.wait_until(lambda: trainer.used() >= 32 * MIB, "the queues to fill")
    harness.wait_until(lambda: any(look["used_bytes"] >= 32 * MIB for look in looks(recording)[-1:]), "a scan that finds them")
    recording.interrupt()
    report = recording.report()
    assert shm_ids(report) == set()
    assert report["shm"]["batches"]["segments"] == 4


@pytest.mark.parametrize("shape, expected", [("leak", {"shm-leaked"}), ("npy", set())])
def test_shm_leaked(start, record, shape, expected):
    """A second process keeps the mount alive, which would otherwise end with the target."""
    keeper = start("odd")
    join = ["nsenter", "--mount", f"--target={keeper.pid}", harness.PYTHON, str(WORKLOAD), shape, "--kib=16384"]
    process = harness.Process(join, stderr=subprocess.DEVNULL)
    process.await_line("event", "ready")
    recording = record(process)
    process.finish()
    report = finished(recording)
    assert shm_ids(report) == expected
    assert report["shm"]["leaked"]["segments"] == len(expected)


def lived_a_second(process, name):
    status = os.stat(harness.inside(process.pid, f"dev/shm/{name}"))
    return time.time() - status.st_ctime > 1.1


def whole_look_with(recording, accept):
    return harness.wait_until(lambda: next((look for look in looks(recording) if look["whole"] and accept(look)), None),
                              "such a scan of shared memory", pause=0.05)


@pytest.mark.parametrize("shape, event, expected", [("tracked_twice", "attached", {"shm-unlinked"}),
                                                    ("handed_over", "unlinked", set()),
                                                    ("outlived", "unlinked", set())])
def test_shm_unlinked(start, record, shape, event, expected):
    process = start(shape, "--kib=8192")
    name = process.lines[0]["name"]
    harness.wait_until(lambda: lived_a_second(process, name), "the name to be a second old")
    recording = record(process)
    process.go_until(event)
    harness.wait_until(lambda: not harness.inside(process.pid, f"dev/shm/{name}").exists(), "the name to be removed")

    def deleted(look):
        return any(row[0] == name and row[6] == 1 for row in look["segments"])
    whole_look_with(recording, deleted)
    process.finish()
    report = finished(recording)
    assert shm_ids(report) == expected
    if expected:
        diagnosis = found(report)["shm-unlinked"]
        assert diagnosis["pids"] == [process.pid] and name in diagnosis["evidence"][0]


@pytest.mark.slow
def test_a_scan_of_a_hundred_thousand_files_is_bounded_and_says_so(start, record):
    process = start("crowd", "--keep=100100")
    document = shm(process.pid)
    assert document["unlisted_entries"] == 100 and len(document["segments"]) == 100_000 and not document["complete"]
    assert "entries not examined: 100" in harness.run_cowprof("shm", process.pid).stdout
    recording = record(process)
    with open(f"/proc/{recording.pid}/status") as status:
        peak_kib = next(int(line.split()[1]) for line in status if line.startswith("VmHWM"))
    assert peak_kib < 40 * 1024, "the recorder's peak memory grew with the number of files"
    recording.interrupt()
    assert len(recording.report()["shm"]["segments"]) == 200


def test_fd_exhaustion(start, record):
    """A trainer keeps the tensors of each batch, with one descriptor each, out of 256."""
    trainer = start("loader", "--kib=4", "--workers=2", "--keep=215", "--limit=256")
    recording = record(trainer)
    trainer.go_until("holding")

    def climbed():
        return len(os.listdir(f"/proc/{trainer.pid}/fd")) >= 205
    harness.wait_until(climbed, "the descriptors to be opened")
    harness.wait_until(lambda: harness.run_cowprof("report", recording.path, "--json").stdout.find('"fd-exhaustion"') > 0,
                       "the diagnosis to appear", pause=0.1)
    recording.interrupt()
    report = recording.report()
    assert shm_ids(report) == {"fd-exhaustion"}
    diagnosis = found(report)["fd-exhaustion"]
    assert diagnosis["pids"] == [trainer.pid]
    assert "torch" in "\n".join(diagnosis["evidence"])


def test_a_constant_number_of_descriptors_is_not_diagnosed(start, record):
    process = start("descriptors", "--keep=215", "--limit=256")
    recording = record(process)
    process.go()
    process.finish()
    assert shm_ids(finished(recording)) == set()


# ---- The limit as mounted for the target ----

LAYOUTS = {"linked": ("mount -t tmpfs -o size=64m tmpfs /mnt && mount -t tmpfs tmpfs /dev && mkdir -p /dev && ln -s /mnt /dev/shm", CAPACITY),
           "without a bound": ("mount -t tmpfs -o size=0 tmpfs /dev/shm", None)}


@pytest.mark.parametrize("script,limit", LAYOUTS.values(), ids=LAYOUTS)
def test_the_limit_comes_from_the_targets_own_mount(script, limit):
    target = subprocess.Popen(["unshare", "--mount", "sh", "-c", f"{script} && exec sleep 60"])
    try:
        harness.wait_until(lambda: Path(f"/proc/{target.pid}/comm").read_text() == "sleep\n", "the mount to be made")
        limits = harness.doctor(target.pid)[0]["limits"]
    finally:
        target.kill()
        target.wait()
    assert [row["limit"] for row in limits if row["kind"] == "shm"] == [limit]
