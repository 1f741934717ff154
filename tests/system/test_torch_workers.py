"""Whether DataLoader workers are persistent, as read from their frames: of real workers, and in every Python version."""

import pytest

import harness
import planted
from conftest import needs

LOADER = harness.REPOSITORY / "tests" / "system" / "workloads" / "planted_dataloader.py"
# Defines the same function in a file of the same name; its workers wait until stdin is closed.
LIKE_TORCH = """
import json, os, sys
folder = os.path.join(sys.argv[1], "torch", "utils", "data", "_utils")
os.makedirs(folder, exist_ok=True)
path = os.path.join(folder, "worker.py")
source = '''
def _worker_loop(dataset, worker_id, persistent_workers, shared_seed=None):
    watchdog = [worker_id]
    return (lambda: sys.stdin.read())() or watchdog
'''
def other_loop(persistent_workers):
    sys.stdin.read()
print(json.dumps({"event": "ready"}), flush=True)
sys.stdin.readline()
names = {"sys": sys}
exec(compile(source, path, "exec"), names)
for worker in range(3):
    if os.fork() == 0:
        names["_worker_loop"]("data", worker, bool(worker)) if worker < 2 else other_loop(True)
        os._exit(0)
for worker in range(3):
    os.wait()
"""


def flags_of(path):
    """{pid: persistent_worker} of the workers in a recording, as far as known by now."""
    report = harness.report_of(path)
    return {worker["pid"]: worker["persistent_worker"] for worker in report["workers"]}


def record(command, path, known):
    """Attaches before the first fork, waits until `known` accepts the flags, lets the program end, returns the final flags."""
    process = harness.Process(command)
    try:
        process.await_line("event", "ready", 60)
        recording = harness.attach(process.pid, path, "--interval", "100ms")
        try:
            recording.await_sample()
            process.go()
            harness.wait_until(lambda: known(flags_of(path)), "the workers' flags", seconds=60, pause=0.2)
            process.finish(seconds=60)
            assert recording.wait() == 0, recording.stderr
            harness.validate(harness.load_json(path), "timeline.schema.json")
        finally:
            recording.stop()
    finally:
        process.stop()
    return flags_of(path)


@pytest.mark.parametrize("persistent", [True, False])
def test_a_real_worker_is_known_to_be_persistent_or_not(persistent, tmp_path):
    command = [harness.PYTHON, LOADER, "--items=4000", "--workers=2", "--epoch-seconds=3", *["--persistent"][:persistent]]
    flags = record(command, tmp_path / "loader.json", lambda flags: len(flags) == 2 and None not in flags.values())
    assert list(flags.values()) == [persistent, persistent]


@pytest.mark.parametrize("version", planted.interpreters())
def test_the_frame_is_read_in_every_version(version, tmp_path):
    """One worker is persistent, one is not, and one runs another function with an argument of that name."""
    python = planted.interpreters()[version]
    needs(f"Python {version}", python, "neither pyenv nor COWPROF_PYTHONS has it")
    flags = record([python, "-c", LIKE_TORCH, tmp_path], tmp_path / "like.json",
                   lambda flags: sum(flag is not None for flag in flags.values()) >= 2)
    assert [flags[pid] for pid in sorted(flags)] == [False, True, None]
