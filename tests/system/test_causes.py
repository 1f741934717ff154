"""Causes, types and lines of copies that Python planted, against the report.

By default the distribution's Python plants every scenario and the other versions four; with --slow every version plants all.
`python3 tests/system/planted.py --matrix` prints the same as a table.
"""
import json
import math

import pytest

import harness
import planted
from conftest import needs

STARTED = planted.WORKLOAD.with_name("started_python.py")
CORE = ("str_list", "attributes", "gc_collect", "mixture_lines")


def combinations():
    for version in planted.interpreters():
        for scenario in planted.scenarios():
            usual = version == planted.DEBIAN or scenario in CORE
            yield pytest.param(version, scenario, id=f"{version}-{scenario}", marks=[] if usual else pytest.mark.slow)


@pytest.mark.parametrize("version, scenario", list(combinations()))
def test_the_report_says_what_was_planted(version, scenario, tmp_path):
    python = planted.interpreters()[version]
    needs(f"Python {version}", python, "neither pyenv nor COWPROF_PYTHONS has it")
    try:
        run = planted.run(python, scenario, tmp_path)
    except planted.Skipped as reason:
        needs(f"scenario {scenario}", False, f"Python {version}: {reason}")
    assert not planted.deviations(run)


@pytest.mark.parametrize("way", ["direct", "shell", "spawn"])
@pytest.mark.parametrize("version", planted.interpreters())
def test_a_python_started_later_is_known_before_it_copies(version, way, tmp_path):
    """When exec returns, the interpreter is not mapped yet; cowprof must find it before its workers copy."""
    python = planted.interpreters()[version]
    needs(f"Python {version}", python, "neither pyenv nor COWPROF_PYTHONS has it")
    command = [python, str(STARTED), "spawn" if way == "spawn" else "fork"]
    if way == "shell":
        command = ["sh", "-c", f"{' '.join(command)}; exit 0"]
    recording = harness.Recording(tmp_path / "started.json", ["--output", tmp_path / "started.json", "--", *command])
    recording.wait()
    report = recording.report()
    reader = max(report["workers"], key=lambda worker: worker["copies"])
    assert reader["copies"] > 4000
    assert reader["by_cause"]["refcount"] > 0.9 * reader["copies"], reader["by_cause"]
    assert (report["by_line"][0]["file"], report["by_line"][0]["function"]) == (str(STARTED), "read")
    if way == "direct":
        assert report["target"]["python"] == "{}.{}.{}".format(*planted.version_of(python))


def test_totals_are_the_sum_of_the_processes(tmp_path):
    report = planted.run(planted.interpreters()[planted.DEBIAN], "mixture_causes", tmp_path).report
    rows = [report["parent"], *report["workers"]]
    for cause, copies in report["totals"]["by_cause"].items():
        assert copies == sum(row["by_cause"][cause] for row in rows), cause
    assert sum(report["totals"]["by_cause"].values()) == report["totals"]["copies"]


def test_rows_are_sorted_and_bounded_by_the_total(tmp_path):
    """Largest first; bytes are whole pages; no list attributes more than the total."""
    report = planted.run(planted.interpreters()[planted.DEBIAN], "mixture_types", tmp_path).report
    for rows in (report["by_type"], report["by_line"]):
        counts = [row["copies"] for row in rows]
        assert counts == sorted(counts, reverse=True)
        assert sum(counts) <= report["totals"]["copies"]
        for row in rows:
            assert row["bytes"] == 4096 * row["copies"]
            assert row["share"] == pytest.approx(row["copies"] / report["totals"]["copies"], abs=0.002)


def test_every_copy_option_samples_every_copy(tmp_path):
    report = planted.run(planted.interpreters()[planted.DEBIAN], "mixture_types", tmp_path, options=["--every-copy"]).report
    copies, stacks = report["totals"]["copies"], report["exactness"]["stacks"]
    assert not stacks["estimated"] and 0.999 * copies <= stacks["samples"] <= copies
    assert report["exactness"]["causes"]["contradicted"] == 0
    assert not any("estimated" in row for row in report["by_type"] + report["by_line"])


def test_without_causes_copies_are_counted_but_not_attributed(tmp_path):
    report = planted.run(planted.interpreters()[planted.DEBIAN], "str_list", tmp_path, options=["--without=causes"]).report
    causes = report["totals"]["by_cause"]
    assert causes["unknown"] + causes["kernel"] == report["totals"]["copies"] > 10000
    assert report["by_type"] == [] == report["by_line"]


@pytest.mark.parametrize("allocator", ["malloc", "debug", "pymalloc_debug", "malloc_debug"])
def test_objects_of_another_allocator_are_recognised(allocator, tmp_path):
    run = planted.run(planted.interpreters()[planted.DEBIAN], "str_list", tmp_path, environment=[f"PYTHONMALLOC={allocator}"])
    assert not list(planted.check_causes(run.worker, run.report["workers"][0]))
    assert run.report["by_type"][0]["type"] == "str"


@pytest.mark.parametrize("scenario", ["str_list", "gc_collect", "array_write", "mixture_causes"])
def test_bytes_and_probes_agree(scenario, tmp_path):
    """The share of `data` from the probes agrees with an independent byte comparison, within 3 points and two deviations."""
    run = planted.run(planted.interpreters()[planted.DEBIAN], scenario, tmp_path, options=["--verify"], linger=2.5)
    verified, causes = run.report["verify"], run.report["workers"][0]["by_cause"]
    assert verified["pages"] >= 200
    assert sum(verified.values()) == 2 * verified["pages"]
    probed = causes["data"] / sum(causes.values())
    tolerance = 0.03 + 2 * math.sqrt(probed * (1 - probed) / verified["pages"])
    assert abs(verified["data"] / verified["pages"] - probed) <= tolerance


def test_regions_are_arenas_and_sum_to_the_copied_pages(tmp_path):
    run = planted.run(planted.interpreters()[planted.DEBIAN], "str_list", tmp_path, linger=1)
    arenas = [row for row in run.report["by_region"] if row["kind"] == "pymalloc-arena"]
    copied = sum(row["copied_pages"] for row in run.report["by_region"])
    assert abs(copied - run.report["totals"]["copies"]) <= 0.02 * copied
    assert sum(row["copied_pages"] for row in arenas) >= 0.9 * copied
    assert len(arenas) > 10 and all(row["copied_pages"] <= 260 and row["pages"] <= 256 for row in arenas[:10])


def test_copies_in_a_heap_that_grew_after_the_first_look_lie_in_it(tmp_path):
    path = tmp_path / "run.json"
    harness.run_cowprof("--output", path, "--quiet", "--", harness.PYTHON, planted.WORKLOAD.with_name("growing_heap.py"))
    report = json.loads(harness.run_cowprof("report", path, "--json").stdout)
    heap, = [row for row in report["by_region"] if row["kind"] == "heap"]
    assert heap["bytes"] >= 150 << 20
    half = 300_000 * 634 // 4096 // 2  # pages that the worker read, with malloc's heads
    assert 0.8 * half <= heap["copied_pages"] <= 1.3 * half
    assert heap["share"] >= 0.9
