"""Memory that a worker has alone once those that shared it have ended or freed it; shared memory that grows; a target that is a worker."""
import pytest

import harness

MIB = 1 << 20
# What the parent and a child share, 64 MiB, which the child alone has in the end.
LEAVES = {
    "the parent frees it": """
if not os.fork():
    time.sleep(9)
    os._exit(0)
time.sleep(2)
shared.close()
time.sleep(6)
""",
    "a worker forks its successor and ends": """
if not os.fork():
    shared.seek(0)  # the copy of one page
    shared.write_byte(1)
    time.sleep(1)
    if os.fork():
        os._exit(0)
    time.sleep(8)
    os._exit(0)
shared.close()
time.sleep(8)
""",
}
LEAK = """
import mmap, os, time
if not os.fork():
    kept = []
    while True:
        kept.append(mmap.mmap(-1, 400_000))
        kept[-1].write(b"x" * 400_000)
        time.sleep(0.04)
time.sleep(60)
"""
POOL = """
import multiprocessing, os, time
def work(_):
    print('{"worker": %d}' % os.getpid(), flush=True)
    time.sleep(60)
multiprocessing.get_context("fork").Pool(1).map(work, [0])
"""


def program(code):
    shared = "import mmap, os, time\nshared = mmap.mmap(-1, 64 << 20, flags=mmap.MAP_PRIVATE)\nshared.write(b'x' * (64 << 20))\ntime.sleep(1)\n"
    return [harness.PYTHON, "-c", shared + code]


def recorded(command, path, *options):
    done = harness.run_cowprof("--quiet", *options, "--output", path, "--", *command)
    assert done.returncode == 0, done.stderr
    return harness.report_of(path)


@pytest.mark.parametrize("code", LEAVES.values(), ids=LEAVES)
def test_what_others_leave_to_a_worker_is_its_own_and_not_new(code, tmp_path):
    report = recorded(program(code), tmp_path / "run.json")
    worker = max(report["workers"], key=lambda row: row["started_at"])
    peak = report["peak"]
    assert worker["peak_private_bytes"] == pytest.approx(64 * MIB, rel=0.1), worker
    assert worker["still_shared_bytes"] < 12 * MIB, worker
    assert peak["split"]["left"] == pytest.approx(64 * MIB, rel=0.1), peak
    assert peak["split"]["new"] < 4 * MIB and sum(peak["split"].values()) == peak["bytes"], peak
    assert "new memory" not in report["headline"]["sentence"]


def recorded_for(seconds, command, path, pid_of=lambda process: process.pid):
    """The report of that many seconds, attached to a process of the command."""
    process = harness.Process(command)
    try:
        recording = harness.attach(pid_of(process), path, f"--duration={seconds}s")
        assert recording.wait() == 0, recording.stderr
    finally:
        harness.kill_tree(process.pid)
        process.stop()
    return recording.report()


def test_shared_memory_without_a_name_that_grows_is_neither_nothing_nor_flat(tmp_path):
    report = recorded_for(14, [harness.PYTHON, "-c", LEAK], tmp_path / "run.json")
    sentence = report["headline"]["sentence"]
    assert "Nothing to do" not in sentence
    assert "The workers added" in sentence and "; it still grows, by " in sentence
    assert report["forecast"]["verdict"] == "unknown"
    assert report["forecast"]["sentence"].startswith("shared memory grows by "), report["forecast"]["sentence"]


def test_who_attaches_to_a_worker_is_told_what_to_attach_to(tmp_path):
    def worker_of(process):
        harness.wait_until(lambda: process.lines, "the worker")
        return process.lines[0]["worker"]

    report = recorded_for(3, [harness.PYTHON, "-c", POOL], tmp_path / "run.json", worker_of)
    sentence = report["headline"]["sentence"]
    assert sentence.startswith("The target is itself a worker of a pool: attach to ")
    assert f"ps -o ppid= -p {report['target']['pid']}" in sentence
