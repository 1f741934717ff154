"""Alerts: before the kill and never without cause, in every output, and whatever the hook does.

alerts_proof.py is the full proof and prints a table. A few of its cases run here, all of them with --slow.
"""
import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

import alerts_proof
import harness
import truth
from conftest import needs
from memory_groups import KIND, MB, MemoryGroup, in_small_shm, memory_root

OPEN_FILES = [harness.PYTHON, harness.REPOSITORY / "tests/system/workloads/open_files.py"]
TRAINER = [harness.PYTHON, harness.REPOSITORY / "tests/system/workloads/checkpointing_trainer.py"]
CHECKPOINT_HOOK = harness.REPOSITORY / "scripts" / "checkpoint-on-alert.sh"
QUICK_FDS = ["--alert-at", "off", "--alert-eta", "off", "--alert-at", "fds=50%:100ms"]


@pytest.fixture(autouse=True)
def memory_controller():
    needs("memory-cgroup", memory_root() is not None, "no memory cgroup that can be divided")


def alerts_of(records, over=False):
    return [record for record in records if record["type"] == "alert" and record["over"] == over]


def read_alerts(path, over=False):
    return alerts_of(harness.records_of(path), over)


def await_alert(recording, kind, over=False):
    def found():
        assert recording.popen.poll() is None, "cowprof ended"
        return [alert for alert in read_alerts(recording.path, over) if alert["kind"] == kind]
    return harness.wait_until(found, f"an alert of {kind}", pause=0.02)[0]


# ---- Before the kill, and only then ramps ----

def chosen(cases, *names):
    return [pytest.param(*case, id=case[0], marks=() if case[0] in names else pytest.mark.slow) for case in cases()]


@pytest.mark.parametrize("name, limit, command", chosen(
    alerts_proof.steady_ramps, "new memory, 700 MB/s", "copies, 30 MB/s"))
def test_ramp(name, limit, command):
    assert alerts_proof.judge_ramp(alerts_proof.record(name, command, limit_mb=limit)) == ""


@pytest.mark.parametrize("name, limit, command", chosen(
    alerts_proof.loaders_that_die, "copies of a loader, 600000 rows", "shm of a loader, 40 ms"))
def test_dying_loader(name, limit, command):
    assert alerts_proof.judge_loader(alerts_proof.record(name, command, limit_mb=limit)) == ""


@pytest.mark.parametrize("name, limit, command", chosen(
    alerts_proof.healthy_runs, "large but flat: 75 %, 1000 MB/s", "sawtooth, 400 MB/s", "only reuses, 1000 MB/s",
    "page cache: read, 200 MB held"))
def test_healthy_run(name, limit, command):
    assert alerts_proof.judge_healthy(alerts_proof.record(name, command, limit_mb=limit)) == ""


@pytest.mark.parametrize("name, limit, command", chosen(
    alerts_proof.loaders_that_live, "loader: batches in flight, prefetch 6", "loader: four workers share blocks of 150 rows, 1 ms"))
def test_living_loader(name, limit, command):
    assert alerts_proof.judge_healthy(alerts_proof.record(name, command, limit_mb=limit)) == ""


# ---- Where alerts appear ----

def test_alert_appears_in_every_output(tmp_path):
    path = tmp_path / "run.json"
    result = harness.run_cowprof("--output", path, *QUICK_FDS, "--", *OPEN_FILES, "--hold=2", "--status=5")
    assert result.returncode == 5, result.stderr
    lines = [line for line in result.stderr.splitlines() if "ALERT" in line]
    assert len(lines) == 2, result.stderr  # once when raised, once in the final report
    assert lines[0].startswith("!!! cowprof: ALERT file descriptors 9") and "ulimit -n" in lines[0]
    document = harness.load_json(path)
    harness.validate(document, "timeline.schema.json")
    (alert,) = alerts_of(document["records"])
    assert (alert["kind"], alert["rule"], alert["limit"], alert["index"], alert["cause"]) == ("fds", "ratio", 256, 0, "descriptors")
    assert 128 <= alert["used"] <= 256
    assert alert["diagnosis"] == "fd-exhaustion" and "descriptors" in alert["headline"] and alert["culprit"] is None
    assert "ALERT file descriptors" in harness.run_cowprof("report", path).stdout
    report = harness.report_of(path)
    harness.validate(report, "report.schema.json")
    assert report["alerts"][0]["text"] == alert["text"] and report["alerts"][0]["pid"] == report["target"]["pid"]


def test_descriptors_of_what_a_script_starts(tmp_path):
    path = tmp_path / "run.json"
    result = harness.run_cowprof("--output", path, *QUICK_FDS, "--", "sh", "-c", '"$@"; exit 5', "sh", *OPEN_FILES, "--to=250", "--hold=2")
    assert result.returncode == 5, result.stderr
    (alert,) = alerts_of(harness.load_json(path)["records"])
    assert (alert["kind"], alert["limit"], alert["index"], alert["diagnosis"]) == ("fds", 256, 1, "fd-exhaustion")
    report = harness.report_of(path)
    (limit,) = [limit for limit in report["limits"] if limit["kind"] == "fds"]
    assert limit["limit"] == 256 and limit["peak"] == alert["used"]
    (found,) = [one for one in report["diagnoses"] if one["id"] == "fd-exhaustion"]
    assert found["pids"] == [report["alerts"][0]["pid"]] != [report["target"]["pid"]]


def test_mappings_of_a_worker(start_recording):
    target = harness.Process([harness.PYTHON, harness.REPOSITORY / "tests/system/workloads/many_mappings.py"])
    target.await_line("role", "ready")
    recording = start_recording(target.pid, "--alert-at", "off", "--alert-eta", "off", "--alert-at", "mappings=50%:100ms")
    recording.await_sample()
    target.go()
    mapped = target.await_line("role", "mapped")["mappings"]
    alert = await_alert(recording, "mappings")
    limit = int(Path("/proc/sys/vm/max_map_count").read_text())
    assert (alert["name"], alert["limit"], alert["index"], alert["cause"]) == ("vm.max_map_count", limit, 1, "mappings")
    assert limit / 2 <= alert["used"] <= mapped + 5 and "sysctl -w vm.max_map_count" in alert["advice"]
    time.sleep(2)
    target.finish()
    recording.wait()
    report = harness.report_of(recording.path)
    harness.validate(recording.timeline(), "timeline.schema.json")
    (found,) = [one for one in report["limits"] if one["kind"] == "mappings"]
    assert found["peak"] == pytest.approx(mapped, abs=5)


def test_fail_on_alert_sets_the_exit_status(tmp_path):
    options = ["--output", tmp_path / "run.json", "--quiet", *QUICK_FDS, "--fail-on-alert", "--"]
    result = harness.run_cowprof(*options, *OPEN_FILES, "--hold=2", "--status=5")
    assert result.returncode == 3
    assert result.stderr.count("\n") == 1 and "--fail-on-alert" in result.stderr and "file descriptors" in result.stderr
    assert harness.run_cowprof(*options, *OPEN_FILES, "--hold=0.5", "--status=5", "--to=20").returncode == 5


def test_each_crossing_alerts_once(start_recording):
    target = harness.Process([*OPEN_FILES, "--line"])
    target.await_line("role", "open")
    recording = start_recording(target.pid, *QUICK_FDS)
    await_alert(recording, "fds")
    target.go()
    await_alert(recording, "fds", over=True)
    target.finish()
    recording.wait()
    document = recording.timeline()
    assert len(alerts_of(document["records"])) == 1 and len(alerts_of(document["records"], over=True)) == 1


# ---- The hook ----

def write_hook(folder, text, mode=0o755):
    path = folder / "hook.sh"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(mode)
    return path


def test_hook_makes_the_trainer_checkpoint_before_the_kill(tmp_path, start_recording):
    checkpoint = tmp_path / "checkpoint.json"
    with MemoryGroup(400 * MB) as group:
        trainer = harness.Process([*TRAINER, checkpoint], preexec_fn=group.join, stderr=subprocess.DEVNULL)
        try:
            trainer.await_line("role", "ready")
            recording = start_recording(trainer.pid, "--on-alert", CHECKPOINT_HOOK)
            recording.await_sample()
            trainer.go()
            assert recording.wait() == 0, recording.stderr
        finally:
            trainer.stop()
    assert "--on-alert" not in recording.stderr
    assert trainer.await_line("role", "checkpoint")["worker_lives"]
    assert json.loads(checkpoint.read_text())["step"] > 0
    exits = [r for r in recording.timeline()["records"] if r.get("event") == "exit"]
    assert exits[0]["status"] & 0x7F == signal.SIGKILL  # the worker leaked until it was killed


def test_hook_does_not_signal_a_trainer_without_a_handler(start_recording):
    target = harness.Process([*OPEN_FILES, "--line"])
    environment = {**os.environ, "COWPROF_ALERT_KIND": "shm", "COWPROF_PID": str(target.pid)}
    target.await_line("role", "open")
    assert subprocess.run([CHECKPOINT_HOOK], env=environment, check=False).returncode == 1
    target.go()
    target.finish()
    assert target.popen.returncode == 0


HANDLER = """
import os, signal, sys, time
signal.signal(signal.SIGUSR1, lambda *_: os.write(1, (sys.argv[1] if os.getpid() == own else "forked").encode() + b"\\n"))
own = os.getpid()
os.fork()
os.write(1, b"ready\\n")
time.sleep(60)
"""


def slim_environment(folder, pid):
    """Of an alert, with the programs that a slim image has: kill is not among them."""
    folder.mkdir()
    for name in ("awk", "cat", "readlink"):
        (folder / name).symlink_to(shutil.which(name))
    return {"PATH": str(folder), "COWPROF_ALERT_KIND": "host", "COWPROF_PID": str(pid)}


def test_hook_signals_a_trainer_that_handles_it(tmp_path):
    (tmp_path / "trainer.py").write_text(HANDLER)
    trainer = subprocess.Popen([harness.PYTHON, tmp_path / "trainer.py", "a"], stdout=subprocess.PIPE, start_new_session=True)
    try:
        for _ in range(2):
            assert trainer.stdout.readline() == b"ready\n"
        assert subprocess.run([CHECKPOINT_HOOK], env=slim_environment(tmp_path / "bin", trainer.pid), check=False).returncode == 0
        assert trainer.stdout.readline() == b"a\n"
    finally:
        os.killpg(trainer.pid, signal.SIGKILL)
    assert trainer.stdout.read() == b""


def test_hook_finds_the_ranks_below_a_launcher(tmp_path):
    (tmp_path / "rank.py").write_text(HANDLER)
    ranks = [f"{harness.PYTHON} {tmp_path}/rank.py {rank} &" for rank in "ab"]
    launcher = subprocess.Popen(["sh", "-c", f"sh -c '{' '.join(ranks)} wait' & wait"], stdout=subprocess.PIPE, start_new_session=True)
    try:
        for _ in range(4):
            assert launcher.stdout.readline() == b"ready\n"
        assert subprocess.run([CHECKPOINT_HOOK], env=slim_environment(tmp_path / "bin", launcher.pid), check=False).returncode == 0
        asked = {launcher.stdout.readline() for _ in range(2)}
    finally:
        os.killpg(launcher.pid, signal.SIGKILL)
    assert asked == {b"a\n", b"b\n"} and launcher.stdout.read() == b""


@pytest.mark.parametrize("script, says", [
    ("exit 7", "ended with status 7"),
    ("exec sleep 1000", "took longer than 10.0 s and was killed"),
    ("exec 0<&-; head -c 50000000 /dev/zero; exit 8", "ended with status 8"),
    ("kill -9 $$", "was killed by SIGKILL"),
], ids=["fails", "hangs", "floods", "dies"])
def test_failing_hook_is_reported_once_and_is_not_fatal(script, says, open_folder):
    hook = write_hook(open_folder, script)
    path = open_folder / "run.json"
    result = harness.run_cowprof("--output", path, "--quiet", *QUICK_FDS, "--on-alert", hook, "--", *OPEN_FILES, "--hold=2")
    assert result.returncode == 0, result.stderr
    document = harness.load_json(path)
    assert document["records"][-1]["type"] == "end" and len(alerts_of(document["records"])) == 1
    assert result.stderr.count("--on-alert") == 1 and says in result.stderr


def test_what_a_recorder_without_streams_says_runs_no_hook(open_folder, start_workload):
    """As a batch prolog starts it, to let go of its terminal: stderr must not be the socket of the hook's process."""
    hook = write_hook(open_folder, f"touch {open_folder}/ran")
    path = open_folder / "run.json"
    target = start_workload("fork_copies", "--pages=10", "--wait")
    target.await_line("role", "ready")
    words = [harness.COWPROF, "--attach", str(target.pid), "--output", path, "--interval", "50ms", "--duration", "700ms", "--on-alert", hook]
    done = subprocess.run(["sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *words], timeout=harness.DEADLINE, check=False)
    assert done.returncode == 0
    assert harness.load_json(path)["records"][-1]["type"] == "end"
    assert not (open_folder / "ran").exists()


def refused(*options):
    result = harness.run_cowprof(*options, "--", "true")
    assert result.returncode == 2 and result.stdout == "", result.stderr
    assert result.stderr.startswith("cowprof: ") and result.stderr.count("\n") == 1
    return result.stderr


def test_unsafe_hooks_are_refused_at_the_start(open_folder):
    assert "there is no program" in refused("--on-alert", open_folder / "missing.sh")
    hook = write_hook(open_folder, "true", 0o644)
    assert "chmod +x" in refused("--on-alert", hook)
    hook.chmod(0o757)
    assert "chmod go-w" in refused("--on-alert", hook)
    hook.chmod(0o755)
    open_folder.chmod(0o777)
    assert "chmod go-w" in refused("--on-alert", hook)
    open_folder.chmod(0o755)
    os.chown(hook, harness.NOBODY, harness.NOBODY)
    assert "chown" in refused("--on-alert", hook)
    assert "missing closing '" in refused("--on-alert", f"{hook} 'x")
    assert "no command" in refused("--on-alert", " ")


UNANSWERED = """
import ctypes, os, subprocess, sys
device = os.open("/dev/fuse", os.O_RDWR)
options = f"fd={device},rootmode=40000,user_id=0,group_id=0"
assert ctypes.CDLL(None).mount(b"fuse", sys.argv[1].encode(), b"fuse", 0, options.encode()) == 0
sys.exit(subprocess.run(sys.argv[2:]).returncode)
"""


def test_a_folder_that_does_not_answer_ends_the_search_for_a_hook(tmp_path):
    """As a network file system whose server is gone."""
    needs("FUSE", os.access("/dev/fuse", os.W_OK), "/dev/fuse is missing")
    (tmp_path / "fuse").mkdir()
    result = subprocess.run(["unshare", "--mount", harness.PYTHON, "-c", UNANSWERED, tmp_path / "fuse", harness.COWPROF, "--quiet", "--output",
                             tmp_path / "r.json", "--on-alert", tmp_path / "fuse" / "hook", "--", "true"],
                            capture_output=True, text=True, timeout=harness.DEADLINE, check=False)
    assert result.returncode == 2 and "seems not to answer" in result.stderr and result.stderr.count("\n") == 1, result.stderr
    assert not (tmp_path / "r.json").exists()


@pytest.mark.parametrize("options", [
    ["--alert-at", "110%"], ["--alert-at=-1"], ["--alert-at", "90"], ["--alert-at", "nan"], ["--alert-at", "ram=90%"],
    ["--alert-at", "90%:never"], ["--alert-eta", "soon"], ["--alert-eta=0"], ["--alert-eta", "shm=90%"], ["--alert-at"],
], ids=" ".join)
def test_invalid_options_are_refused_in_one_line(options):
    assert options[0].split("=")[0] in refused(*options)


# ---- Limits that change ----

def test_cgroup_is_resized(start_workload, start_recording):
    with MemoryGroup(400 * MB) as group:
        target = start_workload("ramp", "--kind=flat", "--mb=200", "--rate=1000", "--rest=60000", "--wait", preexec_fn=group.join)
        target.await_line("role", "ready")
        recording = start_recording(target.pid, "--alert-at", "80%:100ms", "--alert-eta", "off")
        recording.await_sample()
        target.go()
        harness.wait_until(lambda: truth.anonymous_bytes(target.pid) > 190 * MB, "the memory to be written")
        group.resize(230 * MB)
        alert = await_alert(recording, KIND)
        assert alert["limit"] == 230 * MB and alert["used"] > 180 * MB
        group.resize(400 * MB)
        await_alert(recording, KIND, over=True)
        for pid in truth.tree(target.pid):
            os.kill(pid, signal.SIGKILL)
        recording.wait()
    assert len(alerts_of(recording.timeline()["records"])) == 1


def test_process_moves_to_another_cgroup_and_its_old_one_is_removed(start_workload, start_recording):
    with MemoryGroup(2000 * MB) as wide:
        with MemoryGroup(240 * MB) as narrow:
            target = start_workload("ramp", "--kind=flat", "--mb=200", "--rate=1000", "--rest=60000", "--wait",
                                    preexec_fn=wide.join)
            target.await_line("role", "ready")
            recording = start_recording(target.pid, "--alert-at", "80%:100ms", "--alert-eta", "off")
            recording.await_sample()
            for pid in truth.tree(target.pid):
                narrow.add(pid)
            target.go()  # from now on its writes are charged to the narrow cgroup
            alert = await_alert(recording, KIND)
            assert alert["name"].endswith(narrow.folder.name)
            for pid in truth.tree(target.pid):
                wide.add(pid)
        over = await_alert(recording, KIND, over=True)
        assert over["name"] == alert["name"]
        assert recording.popen.poll() is None
        for pid in truth.tree(target.pid):
            os.kill(pid, signal.SIGKILL)
        assert recording.wait() == 0, recording.stderr
    recording.timeline()


def test_shm_is_remounted_larger(start_recording):
    write = "import sys,json,os; print(json.dumps({'role': 'ready'}), flush=True); sys.stdin.readline();" \
            "open('/dev/shm/block', 'wb').write(bytes(56 << 20)); sys.stdin.readline()"
    target = harness.Process(in_small_shm([harness.PYTHON, "-c", write]))
    try:
        target.await_line("role", "ready")
        recording = start_recording(target.pid, "--alert-at", "shm=80%:100ms", "--alert-eta", "off")
        recording.await_sample()
        target.go()
        assert await_alert(recording, "shm")["limit"] == 64 * MB
        subprocess.run(["nsenter", "-t", str(target.pid), "-m", "mount", "-o", "remount,size=512m", "/dev/shm"], check=True)
        assert await_alert(recording, "shm", over=True)["limit"] == 512 * MB
    finally:
        target.finish()
    assert recording.wait() == 0, recording.stderr


# ---- The recorder survives ----

def notes_of(document):
    return [record["text"] for record in document["records"] if record.get("event") == "note"]


def test_recorder_warns_when_it_shares_the_targets_cgroup(tmp_path, start_workload, start_recording):
    with MemoryGroup(600 * MB) as group:
        target = start_workload("ramp", "--kind=new", "--mb=10", "--rate=100", "--rest=0", "--wait", preexec_fn=group.join)
        target.await_line("role", "ready")
        outside = start_recording(target.pid)
        inside = harness.Recording(tmp_path / "inside.json", ["--attach", target.pid, "--output", tmp_path / "inside.json"],
                                   preexec_fn=group.join)
        try:
            outside.await_sample()
            inside.await_sample()
            locked = Path(f"/proc/{outside.pid}/status").read_text().split("VmLck:")[1].split()[0]
            target.go()
            assert inside.wait() == 0 and outside.wait() == 0
        finally:
            inside.stop()
    assert int(locked) > 0
    assert inside.stderr.count("cowprof itself runs in cgroup") == 1
    assert [note for note in notes_of(inside.timeline()) if group.folder.name in note or "OOM killer" in note]
    assert "itself runs in" not in outside.stderr and not notes_of(outside.timeline())
