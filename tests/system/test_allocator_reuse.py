"""Workers that allocate inherited memory which their parent had freed, against workers that really write: planted truth.

What would have to be wrong for `allocator-reuse` to be false: the memory was in use at the fork. Each near miss makes just that so.
"""
import json

import pytest

import harness
import planted
from conftest import needs

WORKLOAD = planted.WORKLOAD.with_name("freed_memory.py")
CHUNKS = 830  # that a parent frees, and a few
VERSIONS = [*(f"3.{minor}" for minor in range(8, 14)), planted.DEBIAN]  # sid has 3.14


def record(command, folder):
    """What the workload said, the report, and its row of the worker that copied most."""
    path = folder / f"run-{len(list(folder.iterdir()))}.json"
    with open(path.with_suffix(".out"), "w+") as out:
        recording = harness.Recording(path, ["--quiet", "--output", path, "--", *command], stdout=out)
        assert recording.wait() == 0, recording.stderr
        out.seek(0)
        said = json.loads(out.read().splitlines()[-1])
    report = recording.report()
    return said, report, max(report["workers"], key=lambda row: row["copies"])


def judge(report, worker, pages, freed):
    """`freed`: whether the pages were free in the parent, or else in use."""
    reused, data = worker["by_cause"]["malloc_reuse"], worker["by_cause"]["data"] + worker["by_cause"]["kernel"]
    found = {diagnosis["id"]: diagnosis for diagnosis in report["diagnoses"]}
    split = report["peak"]["split"]
    assert sum(split.values()) == report["peak"]["bytes"]
    assert sum(worker["by_cause"].values()) == worker["copies"]
    assert report["exactness"]["causes"]["contradicted"] == 0
    # Every block has two pages in part. When a parent frees blocks, it copies one of them itself.
    assert 0.93 * pages <= (reused if freed else data) <= 1.06 * pages, worker["by_cause"]
    # A worker's malloc may sort its lists, which writes to each free chunk that it inherited.
    assert (data if freed else reused) <= 0.02 * pages + (0 if freed else CHUNKS), worker["by_cause"]
    assert split["inherited_freed"] == pytest.approx(4096 * reused, rel=0.02, abs=1 << 20)
    assert ("allocator-reuse" in found) == freed and ("cow-data" in found) != freed, list(found)
    if freed:
        assert report["headline"]["diagnosis"] == "allocator-reuse"
        assert found["allocator-reuse"]["saves_bytes"] == {"low": 0, "best": 0, "high": 0}
    return found


@pytest.mark.parametrize("version", VERSIONS)
def test_memory_that_the_parent_had_freed_is_not_data(version, tmp_path):
    python = planted.interpreters()[version]
    needs(f"Python {version}", python, "neither pyenv nor COWPROF_PYTHONS has it")
    said, report, worker = record([python, str(WORKLOAD), "allocate"], tmp_path)
    found = judge(report, worker, said["pages"], freed=True)
    culprit = found["allocator-reuse"]["culprit"]
    assert (culprit["file"], culprit["function"]) == (str(WORKLOAD), "new_block") and culprit["share"] > 0.9


@pytest.mark.parametrize("mode, freed", [("read-file", True), ("write", False), ("late", False), ("worker-frees", False)])
def test_only_what_was_free_at_the_fork_counts(mode, freed, tmp_path):
    """read(2) into memory that was free at the fork does not count as writing inherited data; writing to blocks that were in use does."""
    python = planted.interpreters()[planted.DEBIAN]
    said, report, worker = record([python, str(WORKLOAD), mode], tmp_path)
    judge(report, worker, said["pages"], freed)


def test_arrays_of_numpy(tmp_path):
    python = planted.interpreters()[planted.DEBIAN]
    for mode, freed in (("allocate", True), ("write", False)):
        said, report, worker = record([python, str(WORKLOAD), mode, "numpy"], tmp_path)
        judge(report, worker, said["pages"], freed)


def test_after_malloc_trim_the_memory_is_new_and_as_much(tmp_path):
    """What the diagnosis says of its remedy: whole pages are new instead of copied, and the worker holds the same."""
    python = planted.interpreters()[planted.DEBIAN]
    private, copies = [], []
    for mode in ("allocate", "trim"):
        said, report, worker = record([python, str(WORKLOAD), mode], tmp_path)
        private.append(worker["peak_private_bytes"])
        copies.append(worker["copies"])
    assert copies[1] < 0.15 * copies[0]
    assert private[1] == pytest.approx(private[0], rel=0.06)
    assert [diagnosis["id"] for diagnosis in report["diagnoses"]] == ["clean"]


@pytest.mark.parametrize("mode, freed", [("allocate", True), ("write", False)])
@pytest.mark.parametrize("suite", ["trixie", "sid"])
def test_newer_c_libraries(suite, mode, freed, chroot_of, tmp_path):
    """glibc 2.41, and 2.43, which has a different struct malloc_state."""
    said, report, worker = record(chroot_of(suite).python("workloads/freed_memory.py", mode), tmp_path)
    judge(report, worker, said["pages"], freed)


@pytest.mark.parametrize("mode, freed", [("allocate", True), ("read-file", True), ("write", False), ("late", False),
                                         ("other-arena", True), ("commands", True)])
def test_programs_without_python(mode, freed, tmp_path):
    said, report, worker = record([str(harness.WORKLOADS / "freed_memory"), mode], tmp_path)
    judge(report, worker, said["pages"], freed)


@pytest.mark.parametrize("blocks, known", [(16384, "data"), (65536, "unknown")])
def test_pages_that_were_free_in_part(blocks, known, tmp_path):
    """Small blocks: on half of the pages the first write hits one that was free, on the others one in use beside it.

    Of more free chunks than cowprof looks at during a fork, it doesn't know whether a page had one."""
    said, _, worker = record([str(harness.WORKLOADS / "freed_memory"), "mixed", str(blocks)], tmp_path)
    assert worker["by_cause"][known] == pytest.approx(said["data"], rel=0.03, abs=150), worker["by_cause"]
    assert 0.9 * said["data"] <= worker["by_cause"]["malloc_reuse"] <= 1.05 * said["data"], worker["by_cause"]


def test_memory_that_a_worker_has_filled_is_data_for_its_own_child(tmp_path):
    said, report, _ = record([str(harness.WORKLOADS / "freed_memory"), "again"], tmp_path)
    counts = [(row["by_cause"]["malloc_reuse"], row["by_cause"]["data"]) for row in report["workers"]]
    for reused, data in counts:
        assert max(reused, data) == pytest.approx(said["pages"], rel=0.03) and min(reused, data) < 0.02 * said["pages"], counts
    assert sorted(reused > data for reused, data in counts) == [False, True]
