"""Why, of what type and on which line: copies that Python planted, against what the report says of them.

By default every version plants four scenarios, and the distribution's Python all of them; with --slow, all plant everything.
`python3 tests/system/planted.py --matrix` prints the same as a table.
"""
import pytest

import planted
from conftest import needs

CORE = ("str_list", "attributes", "gc_collect", "mixture_lines")


def combinations():
    for version in planted.interpreters():
        for scenario in planted.scenarios():
            usual = version == planted.DEBIAN or scenario in CORE
            yield pytest.param(version, scenario, id=f"{version}-{scenario}", marks=[] if usual else pytest.mark.slow)


@pytest.mark.parametrize("version, scenario", combinations())
def test_the_report_says_what_was_planted(version, scenario, tmp_path):
    python = planted.interpreters()[version]
    needs(f"Python {version}", python, "neither pyenv nor COWPROF_PYTHONS has it")
    try:
        run = planted.run(python, scenario, tmp_path)
    except planted.Skipped as reason:
        needs(f"scenario {scenario}", False, f"Python {version}: {reason}")
    assert not planted.deviations(run)


def test_totals_are_the_sum_of_the_processes(tmp_path):
    report = planted.run(planted.interpreters()[planted.DEBIAN], "mixture_causes", tmp_path).report
    rows = [report["parent"], *report["workers"]]
    for cause, copies in report["totals"]["by_cause"].items():
        assert copies == sum(row["by_cause"][cause] for row in rows), cause
    assert sum(report["totals"]["by_cause"].values()) == report["totals"]["copies"]


def test_rows_are_ordered_and_share_what_they_have(tmp_path):
    """Largest first; bytes are pages; no list claims more than there is."""
    report = planted.run(planted.interpreters()[planted.DEBIAN], "mixture_types", tmp_path).report
    for rows in (report["by_type"], report["by_line"]):
        counts = [row["copies"] for row in rows]
        assert counts == sorted(counts, reverse=True)
        assert sum(counts) <= report["totals"]["copies"]
        for row in rows:
            assert row["bytes"] == 4096 * row["copies"]
            assert row["share"] == pytest.approx(row["copies"] / report["totals"]["copies"], abs=0.002)
