"""Diagnoses of memory that grows without copies: a workload that causes each, near misses that must not, and healthy shapes.

A few recordings run at a time, because their workers mostly sleep.
"""
import concurrent.futures
import json
import shutil
import tempfile
from pathlib import Path
from types import SimpleNamespace

import pytest

import harness
import planted
from conftest import needs, params_to_run

WORKLOAD = harness.REPOSITORY / "tests" / "system" / "workloads" / "worker_memory.py"
AT_ONCE = 6
LEAK = ["new-memory-growth"]
GARBAGE = ["gc-disabled", "new-memory-growth"]
FOUND = {
    ("leak", "fork"): LEAK,
    ("leak", "spawn"): LEAK,
    ("collector_off_cycles", "fork"): GARBAGE,
    ("collector_off_in_worker", "fork"): GARBAGE,
    ("memmap_read", "fork"): ["file-backed"],
    ("memmap_read", "spawn"): ["file-backed"],
    ("memmap_read_and_leak", "fork"): LEAK,
    ("big_payload", "spawn"): ["private-by-spawn"],
    ("big_payload", "forkserver"): ["private-by-spawn"],
    ("reads_objects", "fork"): ["cow-refcount"],
}
HEALTHY = [
    ("big_payload", "fork"), ("small_payload", "spawn"), ("small_payload", "forkserver"), ("start_up", "fork"),
    ("allocates_and_frees", "fork"), ("cache_that_fills", "fork"), ("cycles", "fork"), ("collector_off_flat", "fork"),
    ("memmap_written_privately", "fork"), ("memmap_in_memory", "fork"), ("reads_buffer", "fork"), ("epochs", "fork"),
    ("parent_reuses", "fork"),
]


def run(shape, method, python=harness.PYTHON):
    """Records a program from its first instruction to its end; returns the report, the timeline and the workers' pids."""
    memory = "/dev/shm" if shape == "memmap_in_memory" else None
    folder = Path(tempfile.mkdtemp(prefix="cowprof-test-", dir=memory))
    try:
        done = harness.run_cowprof("--interval=100ms", "--quiet", "--output", folder / "run.json", "--", python, WORKLOAD, shape,
                                   method, folder)
        assert done.returncode == 0, done.stderr
        report = harness.report_of(folder / "run.json")
        timeline = harness.load_json(folder / "run.json")
    finally:
        shutil.rmtree(folder)
    return SimpleNamespace(report=report, timeline=timeline,
                           workers={json.loads(line)["worker"] for line in done.stdout.splitlines()})


OF_SEVERAL_TESTS = [("leak", "fork"), ("collector_off_in_worker", "fork")]


@pytest.fixture(scope="module")
def runs(request):
    keys = {*OF_SEVERAL_TESTS, *((params["shape"], params["method"]) for params in params_to_run(request) if "shape" in params)}
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        futures = {key: pool.submit(run, *key) for key in keys}
    return {key: future.result() for key, future in futures.items()}


def names(rows):
    return [pytest.param(*row, id="-".join(row)) for row in rows]


@pytest.mark.parametrize("shape, method", names(FOUND))
def test_growth_is_diagnosed(shape, method, runs):
    one = runs[shape, method]
    diagnoses = one.report["diagnoses"]
    assert [diagnosis["id"] for diagnosis in diagnoses] == FOUND[shape, method]
    for diagnosis in diagnoses:
        assert set(diagnosis["pids"]) == one.workers
        assert diagnosis["evidence"] and diagnosis["advice"]
    harness.validate(one.report, "report.schema.json")
    harness.validate(one.timeline, "timeline.schema.json")


@pytest.mark.parametrize("shape, method", names(HEALTHY))
def test_a_healthy_shape_is_clean(shape, method, runs):
    assert [diagnosis["id"] for diagnosis in runs[shape, method].report["diagnoses"]] == ["clean"]


def test_leak_figures_match_the_planted_rate(runs):
    """The leak is 1 MiB per step of 0.1 s and a little overhead, 40 steps; the evidence states part of it and the rate."""
    evidence = runs["leak", "fork"].report["diagnoses"][0]["evidence"]
    for line in evidence:
        told, rate = (float(text.split(" MiB")[0].split()[-1]) for text in (line, line.split(",", 1)[1]))
        assert 15 < told < 40 and 2 < rate < 13, line


def test_collector_state_is_reported_per_process(runs):
    report = runs["collector_off_in_worker", "fork"].report
    assert report["parent"]["collector_on"] is True
    assert [worker["collector_on"] for worker in report["workers"]] == [False, False]
    assert [worker["collector_on"] for worker in runs["leak", "fork"].report["workers"]] == [True, True]


SWITCHES = "import gc, sys\nfor line in sys.stdin: gc.disable() if 'off' in line else gc.enable(); print('\"said\"', flush=True)"


@pytest.mark.parametrize("version", planted.interpreters())
def test_collector_state_is_read_in_every_version(version):
    python = planted.interpreters()[version]
    needs(f"Python {version}", python, "neither pyenv nor COWPROF_PYTHONS has it")
    process = harness.Process([python, "-c", SWITCHES])
    try:
        for number, on in enumerate([True, False, True], start=1):
            process.popen.stdin.write("on\n" if on else "off\n")
            process.popen.stdin.flush()
            harness.wait_until(lambda: len(process.lines) == number, "the interpreter to answer")
            assert harness.doctor(process.pid)[0]["collector_on"] is on
        text = harness.run_cowprof("doctor", process.pid).stdout
        assert "collector: on" in text
    finally:
        process.stop()


@pytest.mark.slow
@pytest.mark.parametrize("version", planted.interpreters())
def test_garbage_is_diagnosed_in_every_version(version):
    python = planted.interpreters()[version]
    needs(f"Python {version}", python, "neither pyenv nor COWPROF_PYTHONS has it")
    off, on = (run(shape, "fork", python).report["diagnoses"] for shape in ("collector_off_cycles", "cycles"))
    assert [diagnosis["id"] for diagnosis in off] == GARBAGE
    assert [diagnosis["id"] for diagnosis in on] == ["clean"]
