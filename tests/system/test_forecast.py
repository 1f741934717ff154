"""Forecasts of real processes with planted growth: plateaus, leaks, restarted workers, and idle workers.

The shapes are recorded side by side, once for all tests. tests/system/forecast_error.py prints the errors over time.
"""
import concurrent.futures
import contextlib
import json
import re
import statistics

import pytest

import forecast_error
import harness
import truth
import verdict_cases
import verdict_run

TOLERANCE = 0.15  # of the plateau
SHAPES = {
    "shuffled": ["--workers=2", "--epoch-seconds=16"],
    "in-order": ["--order=sequential", "--workers=2", "--epoch-seconds=14"],
    "restarted": ["--workers=2", "--restart", "--epoch-seconds=5", "--epochs=3"],
    "flat": ["--workers=2", "--flat", "--epoch-seconds=14", "--items=40000"],
    "leaking": ["--workers=2", "--flat", "--leak=8", "--epoch-seconds=12", "--items=40000"],
}


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    """{shape: path of its recording}, and {shape: output lines of its processes}."""
    folder = tmp_path_factory.mktemp("forecast")
    paths = {shape: folder / f"{shape}.json" for shape in SHAPES}
    with concurrent.futures.ThreadPoolExecutor() as pool:
        said = pool.map(lambda shape: forecast_error.record(SHAPES[shape], paths[shape]), SHAPES)
        return paths, dict(zip(SHAPES, said))


def forecasts(path, least=0.0):
    """Rows of forecast_error.errors() that have a forecast, from the fraction `least` of the truth on."""
    truth, rows = forecast_error.errors(path)
    return [row for row in rows if row[1] >= least and row[2] is not None]


def while_all_live(path, least=0.0, most=3600.0):
    """(t, private, forecast) at moments when the youngest worker has lived `least` seconds and the oldest not yet `most`.

    Workers are paced, so what they do at a given age holds on a loaded machine, too.
    """
    workers = [worker for worker in harness.report_of(path)["workers"] if worker["role"] == "worker"]
    started = [worker["started_at"] for worker in workers]
    return [moment for moment in forecast_error.moments(path) if max(started) + least <= moment[0] < min(started) + most]


def told(moments):
    """The forecasts over time for assertion messages, short enough not to be truncated."""
    return "".join(f"\n{t:.2f} s, {private / 2**20:.1f} MiB: {forecast['shape']}, {forecast['sentence'].split(';')[0]}"
                   for t, private, forecast in moments)


@pytest.mark.parametrize("shape", ["shuffled", "in-order"])
def test_the_plateau_is_known_long_before_it_is_reached(recordings, shape):
    rows = forecasts(recordings[0][shape], least=0.45)
    assert rows, "there was no forecast"
    wrong = [f"{t:.2f} s, {reached:.2f} reached: {error:+.2f}" for t, reached, error, _ in rows if abs(error) > TOLERANCE]
    assert not wrong, wrong
    assert sum(inside for *_, inside in rows) >= 0.8 * len(rows), rows


TIMED = ("random-1-large", "sequential-1-small", "sequential-2-small", "sequential-2-large")


@pytest.mark.slow
def test_the_time_to_the_plateau_is_within_its_interval_at_nine_moments_of_ten(tmp_path):
    """Over shapes for which a time is given at most moments; docs/forecast.md has all of them."""
    counts = {}
    for shape in TIMED:
        arguments, workload = forecast_error.SHAPES[shape]
        path = tmp_path / f"{shape}.json"
        forecast_error.record(arguments, path, workload)
        counts[shape] = forecast_error.coverage(forecast_error.time_errors(path), 0.9)
    inside, given, seen = (sum(row[number] for row in counts.values()) for number in range(3))
    assert given >= seen / 2 and given >= 30, counts
    assert inside >= 0.9 * given, counts


def test_the_peak_agrees_with_smaps(recordings):
    paths, said = recordings
    report = harness.report_of(paths["shuffled"])
    last = [line for line in said["shuffled"] if line.get("event") == "epoch"]
    owned = sum(line["private_kib"] for line in last) * 1024
    # smaps also counts private pages of files.
    assert report["totals"]["peak_workers_private_bytes"] == pytest.approx(owned, rel=0.1)


def test_restarted_workers_are_forecast_from_earlier_ones(recordings):
    truth = harness.report_of(recordings[0]["restarted"])["totals"]["peak_workers_private_bytes"]
    again = [moment for moment in forecast_error.moments(recordings[0]["restarted"])
             if moment[2]["sawtooth"] and not moment[2]["ended"]]
    assert len(again) >= 3, told(again)
    wrong = [moment for moment in again if moment[2]["unbounded_bytes_per_second"] or not moment[2]["plateau_bytes"] or
             moment[2]["plateau_bytes"]["best"] != pytest.approx(truth, rel=TOLERANCE)]
    assert not wrong, told(wrong)


def test_idle_workers_are_flat(recordings):
    # The copies of start-up are long over, and those of exit have not begun.
    quiet = while_all_live(recordings[0]["flat"], least=9, most=13.8)
    assert quiet, "no moment matched"
    wrong = [moment for moment in quiet if moment[2]["shape"] != "flat" or moment[2]["unbounded_bytes_per_second"]]
    assert not wrong, told(wrong)


def test_new_memory_is_unbounded_growth(recordings):
    leaking = while_all_live(recordings[0]["leaking"], least=4, most=11.8)
    assert len(leaking) >= 2, told(leaking)
    wrong = [moment for moment in leaking if moment[2]["shape"] != "unbounded"]
    assert not wrong, told(wrong)
    # On a loaded machine the leak stalls and catches up.
    paces = [forecast["unbounded_bytes_per_second"] for _, _, forecast in leaking]
    assert statistics.median(paces) == pytest.approx(2 * 8 * 2**20, rel=0.3), paces


def test_a_finished_run_reports_its_peak(recordings):
    report = harness.report_of(recordings[0]["shuffled"])
    harness.validate(report, "report.schema.json")
    forecast, peak = report["forecast"], report["totals"]["peak_workers_private_bytes"]
    assert forecast["ended"] and forecast["shape"] == "bounded"
    assert forecast["plateau_bytes"] == {"low": peak, "best": peak, "high": peak}
    text = harness.run_cowprof("report", recordings[0]["shuffled"]).stdout
    assert report["forecast"]["sentence"].startswith("the workers reached ") and "Forecast:" not in text


def test_data_loaded_after_the_attach_is_known_when_copied(tmp_path):
    """Arenas are rescanned at each fork: a scan from before the data was loaded says nothing about its pages."""
    path = tmp_path / "early.json"
    process = harness.Process([harness.PYTHON, forecast_error.WORKLOAD, "--items=600000", "--workers=1",
                               "--epoch-seconds=20", "--seconds=4"])
    recording = harness.attach(process.pid, path, "--interval", "100ms")
    try:
        recording.await_sample()
        process.await_line("event", "ready", 60)
        process.go()
        process.await_line("event", "end", 60)
        process.finish()
        assert recording.wait() == 0, recording.stderr
    finally:
        recording.stop()
        process.stop()
    arenas, pages = [], []
    for record in json.loads(path.read_text())["records"]:
        arenas += [(start // harness.PAGE, (start + size) // harness.PAGE)
                   for _, _, kind, _, start, size in record.get("new_regions", []) if kind == "pymalloc-arena"]
        for index, _, first, runs in record.get("pages", []):
            if index == 0:
                continue
            for number, length in enumerate(runs):
                pages += range(first, first + length) if number % 2 == 0 else []
                first += length
        if len(pages) >= 500:
            break
    known = sum(any(first <= page < end for first, end in arenas) for page in pages)
    assert known >= 0.8 * len(pages) >= 400, (known, len(pages), len(arenas))


def test_pages_with_headers_of_large_objects_are_counted(tmp_path):
    path = tmp_path / "large.json"
    said = forecast_error.record(["--item=large", "--items=12000", "--workers=1", "--seconds=1"], path)
    document = harness.load_json(path)
    harness.validate(document, "timeline.schema.json")
    regions = {row[0]: row for record in document["records"] for row in record.get("new_regions", [])}
    looks = {row[0]: row for record in document["records"] for row in record.get("heads", [])}
    counted = sum(regions[region][5] / harness.PAGE * with_heads / pages for region, pages, with_heads, _ in looks.values())
    assert counted == pytest.approx(said[0]["head_pages"], rel=0.15), looks


# ---- cowprof doctor PID --workers N ----


@pytest.fixture
def waiting(start_workload):
    process = harness.Process([harness.PYTHON, forecast_error.WORKLOAD, "--items=20000"])
    process.await_line("event", "ready")
    yield process
    process.stop()


def anonymous_bytes(pid):
    status = (harness.Path("/proc") / str(pid) / "status").read_text()
    return sum(int(kib) * 1024 for kib in re.findall(r"(?:RssAnon|VmSwap):\s+(\d+) kB", status))


def test_doctor_says_what_workers_will_cost_at_most(waiting):
    result = harness.run_cowprof("doctor", "--json", waiting.pid, "--workers", 8)
    assert result.returncode == 0, result.stderr
    document, anonymous = json.loads(result.stdout), anonymous_bytes(waiting.pid)
    harness.validate(document, "doctor.schema.json")
    workers = document["workers"]
    assert (workers["count"], workers["bytes_each_at_most"]) == (8, anonymous)
    assert workers["ceiling_bytes"] == 8 * anonymous
    host = next(limit for limit in workers["limits"] if limit["kind"] == "host")
    assert host["used_at_most"] == host["used"] + 8 * anonymous
    assert host["verdict"] == ("will-exceed" if host["used_at_most"] >= host["limit"] else
                               "tight" if host["used_at_most"] >= 0.95 * host["limit"] else "safe")
    text = harness.run_cowprof("doctor", waiting.pid, "--workers=100000").stderr
    assert "--workers" in text
    text = harness.run_cowprof("doctor", waiting.pid, "--workers=60000").stdout
    assert "60,000 workers: at most" in text and "could exceed" in text


@pytest.mark.parametrize("arguments", [["--workers=0"], ["--workers=-3"], ["--workers=many"], ["--workers="]])
def test_an_invalid_number_of_workers_is_refused(arguments):
    result = harness.run_cowprof("doctor", 1, *arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert "--workers" in result.stderr and result.stderr.count("\n") == 1


def test_workers_without_a_pid_are_refused():
    result = harness.run_cowprof("doctor", "--workers=2")
    assert result.returncode == 2 and "PID" in result.stderr


def test_ceilings_and_the_forecast_hold_after_a_late_attach(tmp_path):
    """Workers that have copied three fifths of what they read before anybody looked, and then copy the rest."""
    with contextlib.ExitStack() as stack:
        one = verdict_run.Run(tmp_path, stack)
        one.python(verdict_cases.POOL, "workers_read_twice")
        verdict_cases.work(one)
        before = {pid: truth.private_bytes(pid) for pid in one.workers()}
        one.attach(one.process.pid)
        one.rest(3)
        early = forecast_error.moments(one.path)[-1][2]
        verdict_cases.work(one)
        one.rest(2)
        after = {pid: truth.private_bytes(pid) for pid in one.workers()}
        whole = {pid: truth.anonymous_bytes(pid) for pid in truth.tree(one.process.pid)}  # the parent copies, too
        one.finish()
    # At the attach nothing grew, and what could still come was known.
    assert early["verdict"] != "will-exceed" and early["shape"] != "unbounded", early
    assert sum(after.values()) * 0.95 <= early["ceiling_bytes"] <= sum(whole.values()) * 1.1, (early, after, whole)
    report = harness.report_of(one.path)
    for pid in before:
        row = harness.row_of(report, pid)
        assert abs(row["before_attach_bytes"] - before[pid]) < 0.05 * before[pid] + (1 << 20)
        assert abs(row["private_bytes"] - after[pid]) < 0.05 * after[pid] + (1 << 20)
        assert row["private_bytes"] <= row["ceiling_bytes"] <= whole[pid] * 1.05 + (1 << 20)
    assert report["forecast"]["verdict"] != "will-exceed", report["forecast"]
    split = report["peak"]["split"]
    assert sum(split.values()) == report["peak"]["bytes"]
    assert abs(split["before_attach"] - sum(before.values())) < 0.05 * sum(before.values()) + (3 << 20), split
