"""`cowprof view`: pages of odd recordings, and of two recordings compared."""
import base64
import gzip
import json
import os
import pty
import re
import signal
import subprocess
import time

import pytest

import harness

HEADER = {"tool": {"name": "cowprof", "version": "0.1.0"}, "host": {"page_bytes": 4096}, "interval_seconds": 1.0}


def process(index, parent=0, t=0.0):
    return {"t": t, "type": "event", "event": "process", "index": index, "pid": 4000 + index, "start_ns": 1,
            "parent": parent if index else -1, "origin": "fork" if index else "target", "comm": "python3", "command": "python3 a.py"}


def sample(t, *rows, **more):
    return {"t": t, "type": "sample", "processes": [list(row) for row in rows], **more}


def row(index, copies, anon=1000):
    return [index, copies, 0, copies, copies, 0, 0, 0, 0, 0, 0, anon, 100, 0, 0, 5000, 10, 20, 1]


def write_timeline(path, *records):
    lines = "\n,".join(json.dumps(record) for record in records)
    path.write_text('{"schema":"cowprof.timeline/1","header":' + json.dumps(HEADER) + ',"records":[\n' + lines + "\n]}\n")
    return path


def payloads(page):
    """The data of each recording in a page."""
    [data] = re.findall(r'<script id="?cowprof-data"?[^>]*>([^<]*)</script>', page.read_text())
    return [json.loads(gzip.decompress(base64.b64decode(line)).split(b"\n", 1)[0]) for line in data.split()]


COMPARED = "cowprof: two runs to compare; if they are ranks or nodes of one job, give --as job\n"


def view(*arguments, said="", **options):
    result = harness.run_cowprof("view", *arguments, **options)
    assert (result.returncode, result.stderr) == (0, said), result.stderr
    return result.stdout.strip()


def small(path, copies):
    return write_timeline(path, process(0), process(1), sample(1.0, row(0, 0), row(1, copies)),
                          {"t": 2.0, "type": "end", "reason": "target ended"})


def test_two_recordings_in_one_page(tmp_path):
    first, second = small(tmp_path / "before.json", 900), small(tmp_path / "after.json", 9)
    page = tmp_path / view(first, second, said=COMPARED, cwd=tmp_path)
    assert page == tmp_path / "before-vs-after.html"
    before, after = payloads(page)
    assert [before["report"]["totals"]["copies"], after["report"]["totals"]["copies"]] == [900, 9]
    assert before["report"] == harness.report_of(first)
    assert "comparisons" not in before
    for comparison, pair in zip(after["comparisons"], [(first, second), (second, first)], strict=True):
        lines = harness.run_cowprof("diff", *pair).stdout.splitlines()
        assert comparison["sentence"] == lines[0]
        assert [f"  Note: {note}" for note in comparison["notes"]] == [line for line in lines if line.startswith("  Note: ")]
        assert [f"  A  {run}" for run in comparison["a"]] == [line for line in lines if line.startswith("  A  ")]
    assert view(first, second, "--as", "compare", "-o", tmp_path / "x.html") == str(tmp_path / "x.html")


@pytest.mark.parametrize("words", [["view", "{}"], ["view", "other.json", "{}"], ["view", "{}", "other.json", "--as", "job"], ["view", "."],
                                   ["export", "csv", "{}"]])
def test_a_recording_is_not_replaced_by_what_is_made_of_it(words, tmp_path):
    path, _ = small(tmp_path / "run.json", 900), small(tmp_path / "other.json", 9)
    before = path.read_bytes()
    result = harness.run_cowprof(*(word.format("run.json") for word in words), "-o", "./run.json", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (2, "") and "it is a recording that is read" in result.stderr
    assert path.read_bytes() == before


@pytest.mark.parametrize("bad", ["first", "second"])
def test_the_unreadable_one_of_two_is_named_with_the_reason(bad, tmp_path):
    good, wrong = small(tmp_path / "good.json", 5), tmp_path / "wrong.json"
    wrong.write_text("no recording")
    pair = (wrong, good) if bad == "first" else (good, wrong)
    result = harness.run_cowprof("view", *pair, cwd=tmp_path)
    assert (result.returncode, result.stdout) == (2, "")
    [line] = result.stderr.splitlines()
    assert "wrong.json" in line and "not a cowprof recording" in line and "good.json" not in line
    assert sorted(path.name for path in tmp_path.iterdir()) == ["good.json", "wrong.json"]


def test_a_recording_cut_off_anywhere(tmp_path):
    whole = small(tmp_path / "whole.json", 5).read_text()
    for length in range(0, len(whole), max(1, len(whole) // 60)):
        cut = tmp_path / "cut.json"
        cut.write_text(whole[:length])
        result = harness.run_cowprof("view", cut, "-o", tmp_path / "cut.html")
        assert result.returncode in (0, 2), (length, result.stderr)
        if result.returncode == 0:
            [page] = payloads(tmp_path / "cut.html")
            assert page["run"]["complete"] is False or length > len(whole) - 4


ODD = {
    "nothing but a header": [],
    "a process in no sample": [process(0), process(1), sample(1.0, row(0, 5))],
    "a row of an unknown process": [process(0), sample(1.0, row(0, 5), row(77, 5))],
    "absurd numbers": [process(0), process(1), sample(-1e300, row(1, 2**64 - 1, -5)), sample(1e300, row(1, 1e300, 2**63)),
                       sample(5, [1] * 40, [], ["x"], pages=[[1, "refcount", 2**63, [2**63, -1]], [1, "data", 7, 3]])],
    "undefined copy sites": [process(0), sample(1.0, row(0, 5), places=[[0, 9, 5, 1, 1], [9, 0, 5, 1, 1]], new_places=[[0, 3, 4, 5, 6, [99]]])],
    "every value of another type": [process(0), sample("now", *[["a", None]], regions={}, pages="x", limits=[[0, {}]], shm=[])],
}


@pytest.mark.parametrize("records", ODD.values(), ids=ODD.keys())
def test_odd_recordings_make_a_page(records, tmp_path):
    view(write_timeline(tmp_path / "odd.json", *records), "-o", tmp_path / "odd.html")
    [page] = payloads(tmp_path / "odd.html")
    assert page["schema"] == "cowprof.page/2"


def test_thousands_of_processes(tmp_path):
    records = [process(0)]
    for index in range(1, 2001):
        records += [process(index, t=index / 10), sample(index / 10, row(0, index), row(index, 7)),
                    {"t": index / 10, "type": "event", "event": "exit", "index": index, "status": 9 if index % 500 == 0 else 0}]
    path = write_timeline(tmp_path / "many.json", *records, sample(600, row(0, 1)))
    view(path, "-o", tmp_path / "many.html", seconds=4 * harness.DEADLINE)
    [page] = payloads(tmp_path / "many.html")
    assert len(page["processes"]) == 2001
    assert sum(event["kind"] == "killed" for event in page["events"]) == 4
    assert (tmp_path / "many.html").stat().st_size < 2**20


@pytest.mark.parametrize("files", [1, 3])
def test_slow_reading_shows_its_progress(files, tmp_path):
    """A SIGSTOP makes it slow: progress appears after two seconds and is gone at the end. Several files have one line."""
    path = write_timeline(tmp_path / "long.json", process(0), *(sample(t, row(0, t)) for t in range(30000)))
    terminal, end = pty.openpty()
    with subprocess.Popen([harness.COWPROF, "view", *[path] * files, "-o", tmp_path / "long.html"], stdout=end, stderr=end) as child:
        os.close(end)
        harness.wait_until(lambda: harness.bytes_read(child.pid) > 100_000, "it to start reading")
        child.send_signal(signal.SIGSTOP)
        time.sleep(2.1)
        child.send_signal(signal.SIGCONT)
        said = b""
        while chunk := read_or_end(terminal):
            said += chunk
    os.close(terminal)
    assert child.returncode == 0
    what = b"3 files" if files == 3 else b".+"
    assert re.match(rb"\rcowprof: reading " + what + rb": [1-9]?\d %", said), said[:200]
    assert said.endswith(b"\r\x1b[K" + os.fsencode(tmp_path / "long.html") + b"\r\n"), said[-200:]


def read_or_end(terminal):
    try:
        return os.read(terminal, 4096)
    except OSError:  # the other side is closed
        return b""
