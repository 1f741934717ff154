"""Fix sketches work: each runs, yields what the code before it yielded, and removes the copies that it promises to."""
import json
import re
import subprocess

import pytest

import harness

SOURCE = harness.REPOSITORY / "userspace" / "model" / "judge" / "fix_sketch.cc"
WORKLOAD = harness.REPOSITORY / "tests" / "system" / "workloads" / "sketched_data.py"
# Items of each kind such that reading them copies about 5,000 pages.
COUNTS = {"Strings": 150_000, "Numbers": 800_000, "Dicts": 60_000, "Tuples": 100_000, "Lists": 200_000, "Objects": 80_000,
          "Arrays": 120_000, "Any": 50_000}

# Runs every sketch with what its reader has: a data set and torch. Forks for each, so that torch is imported only once.
HARNESS = """
import gc, json, os, pickle, sys, traceback, numpy, torch
from types import SimpleNamespace
from torch.utils.data import DataLoader, Dataset
torch.set_num_threads(1)
data = [[float(i)] * 4 for i in range(512)]
def run(before, after, items, check):
    scopes = []
    for code in (before, after):
        names = dict(globals(), items=eval(items))
        exec(code, names)
        scopes.append(names)
    exec(check, dict(globals(), scopes=scopes, items=items))
for number, case in enumerate(json.load(sys.stdin)):
    child = os.fork()
    if child == 0:
        try:
            run(*case)
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    print(json.dumps([number, os.waitpid(child, 0)[1]]), flush=True)
"""
# `old` and `new` are defined by the part before and the part after.
SAME_ITEMS = """
old, new = (scope["Data"](eval(items)) for scope in scopes)
assert len(new) == len(eval(items))
for i in range(len(new)):
    assert repr(new[i]) == repr(old[i]), (new[i], old[i])
assert len(list(DataLoader(new, num_workers=2, collate_fn=len, batch_size=2))) == -(-len(new) // 2)
"""
LOADS = "assert sum(1 for batch in scopes[1]['loader']) > 0\n"
CASES = {
    ("cow-refcount", "Strings"): ("['a', '', 'w\\u00f6rter', 'x' * 99]", SAME_ITEMS),
    ("cow-refcount", "Numbers"): ("[3, 5, 2**40]", SAME_ITEMS),
    ("cow-refcount", "Dicts"): ("[{'id': i, 'text': 'w\\u00f6rter' * i, 'score': i / 3} for i in range(5)]", SAME_ITEMS),
    ("cow-refcount", "Tuples"): ("[(i, 'text' * i, i / 3) for i in range(5)]", SAME_ITEMS),
    ("cow-refcount", "Lists"): ("[[1, 2, 3], [], [4]]", SAME_ITEMS),
    ("cow-refcount", "Objects"): ("[SimpleNamespace(a=i, b='text' * i) for i in range(5)]", SAME_ITEMS),
    ("cow-refcount", "Arrays"): ("[numpy.arange(4) + i for i in range(5)]", SAME_ITEMS),
    ("cow-refcount", "Tensors"): ("[torch.arange(4) + i for i in range(5)]", SAME_ITEMS),
    ("cow-refcount", "Any"): ("[({'a': [i]}, 'text') for i in range(5)]", SAME_ITEMS),
    ("cow-gc-header", "Any"): ("[]", LOADS + "assert gc.get_freeze_count() > 10_000"),
    ("cow-data", "Any"): ("numpy.arange(12.0).reshape(4, 3)", SAME_ITEMS),
    ("gc-disabled", "Any"): ("[]", LOADS + "gc.disable(); scopes[1]['collect_again'](0); assert gc.isenabled()"),
    ("shm-full", "Any"): ("[]", LOADS),
    ("fd-exhaustion", "Any"): ("[]", LOADS + "assert torch.multiprocessing.get_sharing_strategy() == 'file_system'"),
}


def sketches():
    """The table from the source: {(diagnosis, container): (before, after)}."""
    found = re.findall(r'\{"([\w-]+)", Container::k(\w+), R"py\(\n(.*?)\)py"\}', SOURCE.read_text(), re.DOTALL)
    return {(diagnosis, container): re.split(r"(?m)^(?=# after)", text) for diagnosis, container, text in found}


def test_every_sketch_is_tested():
    assert sorted(sketches()) == sorted(CASES)


@pytest.fixture(scope="module")
def runs():
    """{case: wait status}, and stderr."""
    cases = [(*sketches()[case], *CASES[case]) for case in CASES]
    result = subprocess.run([harness.PYTHON, "-W", "ignore", "-c", HARNESS], input=json.dumps(cases), capture_output=True,
                            text=True, timeout=6 * harness.DEADLINE)
    return dict(zip(CASES, (json.loads(line)[1] for line in result.stdout.splitlines()))), result.stderr


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_a_sketch_runs_and_gives_the_same_items(case, runs):
    statuses, said = runs
    assert statuses.get(case) == 0, said


def copies_of_worker(code, kind, folder):
    """The worker's copies, the checksum of what it read, and the report."""
    (folder / "code.py").write_text(code)
    path = folder / "recording.json"
    result = harness.run_cowprof("--quiet", "--interval", "100ms", "--output", path, "--", harness.PYTHON, WORKLOAD,
                                 folder / "code.py", kind, COUNTS[kind], seconds=4 * harness.DEADLINE)
    assert result.returncode == 0, result.stderr
    report = harness.report_of(path)
    [worker] = [process for process in report["workers"] if process["role"] == "worker"]
    return worker["copies"], json.loads(result.stdout)["read"], report


@pytest.mark.parametrize("kind", COUNTS)
def test_a_sketch_removes_nine_of_ten_copies(kind, tmp_path):
    before, after = sketches()["cow-refcount", kind]
    copies, read, report = copies_of_worker(before, kind, tmp_path)
    assert copies > 2500
    diagnosis = report["diagnoses"][0]
    assert diagnosis["id"] == "cow-refcount"
    assert diagnosis["sketch"] in {"".join(parts).strip() for parts in sketches().values()}
    if kind not in ("Any", "Objects"):  # classified by their content, which depends on what shares a page
        assert diagnosis["sketch"] == (before + after).strip()
    copies_then, read_then, _ = copies_of_worker(after, kind, tmp_path)
    print(f"{kind}: {copies} copies before, {copies_then} after")
    assert read_then == read
    assert copies_then <= 0.1 * copies


def test_the_text_report_shows_the_sketch_below_the_advice(tmp_path):
    before, _ = sketches()["cow-refcount", "Strings"]
    copies_of_worker(before, "Strings", tmp_path)
    text = harness.run_cowprof("report", tmp_path / "recording.json").stdout
    assert "        # before" in text and "        # after" in text
    assert text.index("    > ") < text.index("        # before")
