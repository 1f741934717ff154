"""`cowprof hang` against children that really hang, and against waits that are none; the workload's watchdog decides which are."""
import json
import subprocess
import sys

import pytest

import hang_table
import harness
from conftest import needs, version_or_skip

# An RLock's owner is known by its ident, which glibc gives to the child's next thread, too; a Lock keeps no owner, and the idle thread
# beside it might release it: then nothing is said.
MAY_MISS = {"rlock_beside_idle", "lock_beside_idle"}


@pytest.mark.parametrize("kind", hang_table.HANGS)
def test_hang_is_named(kind):
    row = hang_table.run("3.11", kind)
    said = hang_table.verdict(row)
    assert said == "right" or (said == "missed" and kind in MAY_MISS), row


@pytest.mark.parametrize("kind", hang_table.WAITS)
def test_wait_is_not_called_a_hang(kind):
    assert not hang_table.run("3.11", kind).hangs


@pytest.mark.parametrize("kind", ["lock", "rlock", "import_lock", "file_buffer"])
@pytest.mark.parametrize("version", ["3.8", "3.9", "3.10", "3.12", "3.13", "trixie", "3.14"])
def test_every_version(version, kind):
    assert hang_table.verdict(hang_table.run(version_or_skip(version), kind)) == "right"


@pytest.mark.parametrize("kind", [*hang_table.NATIVE, *hang_table.NATIVE_WAITS])
def test_native_code(kind):
    row = hang_table.run("native", kind)
    assert hang_table.verdict(row) == "right" and row.hung == (kind != "free"), row
    if kind in ("mutex", "rwlock"):
        assert row.hangs[0]["holder"]["name"] == "cache-writer"


@pytest.mark.parametrize("kind", ["process", "pool", *hang_table.TORCH_WAITS])
@pytest.mark.parametrize("version", hang_table.TORCHES)
def test_torch(version, kind):
    row = hang_table.run(version_or_skip(version), kind)
    assert hang_table.verdict(row) == "right", row
    assert row.hung == (kind in hang_table.TORCH)
    if not row.hung:
        return
    assert len(row.hangs) == {"process": 1, "pool": 2}[kind]
    for hang in row.hangs:
        assert "torch.set_num_threads(1)" in hang["fix"] and "at::" in hang["what"]
        victim, = hang["victims"]
        assert victim["what"] == {"process": "Process.join()", "pool": "Pool.join()"}[kind]


def test_holder_is_the_parents_thread_with_its_stack():
    process = harness.Process(hang_table.command_of("3.11", "rlock"), stderr=subprocess.DEVNULL)
    try:
        process.await_line("event", "judged")
        hang, = hang_table.look(process.pid)
        holder = hang["holder"]
        assert holder["seen"] == "still-there" and holder["tid"] not in (process.pid, hang["tid"]) and holder["name"] == "stats-thread"
        assert any(frame["function"].endswith("update_stats") for frame in holder["stack"])
        assert hang["stack"][0]["function"] == "take"
        text = subprocess.run([harness.COWPROF, "hang", str(process.pid)], capture_output=True, text=True, check=True).stdout
        assert f"Process {hang['pid']} can never go on: at fork_hangs.py" in text and "os.register_at_fork" in text
    finally:
        process.stop()


@pytest.mark.parametrize("version", ["3.8", "3.11", "3.12", "3.14"])
def test_who_waits_in_condition_wait_is_not_the_holder(version):
    hang, = hang_table.run(version_or_skip(version), "lock_of_condition").hangs
    assert hang["holder"]["name"] == "stats-thread" and hang["by_fork"], hang


def test_a_wait_that_a_handler_might_end_is_only_suspicious():
    process = harness.Process(hang_table.command_of("3.11", "lock_beside_handler"), stderr=subprocess.DEVNULL)
    try:
        child = process.await_line("event", "judged")["child"]
        assert hang_table.look(process.pid) == []
        run = [harness.COWPROF, "hang", str(process.pid)]
        text = subprocess.run(run, capture_output=True, text=True, check=True).stdout
        assert text.startswith("No hang is proven: ") and f"Not proven, but suspicious: process {child} waits at fork_hangs.py:" in text
        suspect, = json.loads(subprocess.run([*run, "--json"], capture_output=True, text=True, check=True).stdout)["suspects"]
        assert suspect["pid"] == child and suspect["kind"] == "lock" and "proof" not in suspect
    finally:
        process.stop()


def test_no_such_process():
    run = subprocess.run([harness.COWPROF, "hang", "4194304"], capture_output=True, text=True)
    assert run.returncode == 4 and "no process 4194304" in run.stderr


MANY_THREADS = """
import sys, threading
threading.stack_size(64 << 10)
for _ in range(4200): threading.Thread(target=threading.Event().wait, daemon=True).start()
print("ready", flush=True)
sys.stdin.read()
"""


def test_nothing_to_look_at_is_no_proof_that_nothing_hangs():
    process = subprocess.Popen([sys.executable, "-c", MANY_THREADS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        needs("4,200 threads", process.stdout.readline() == b"ready\n", "the program can't start them")
        for options in [], ["--json"]:
            run = subprocess.run([harness.COWPROF, "hang", *options, str(process.pid)], capture_output=True, text=True)
            assert run.returncode == 5 and run.stdout == "" and "more than 4096 threads" in run.stderr, run
    finally:
        process.kill()
        process.communicate()
