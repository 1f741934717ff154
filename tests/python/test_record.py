"""cowprof.record(): what it says of a process that records itself is what was planted; and what it says where it can't record."""
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import cowprof
import harness
import planted
from conftest import needs, nobodys_folder, open_folder  # pylint: disable=unused-import
from cowprof import _recording
from cowprof._timeline import LiveFigures

PACKAGE = harness.REPOSITORY / "python"
SCRIPT = Path(__file__).with_name("self_recording.py")
STRAY = 600  # pages that the interpreter itself copies
PYTHONS = planted.interpreters()
ENVIRONMENT = {**os.environ, "COWPROF": str(harness.COWPROF), "PYTHONPATH": str(PACKAGE)}
HEADER = {"host": {"page_bytes": 4096}, "plan": {"exactness": "exact"},
          "columns": {"processes": ["index", "zero_fill_pages", "file_copies", "copies", "anon_pages"], 
                      "sweeps": ["index", "private_pages", "begin", "end", "later_write_protect_faults", "later_new_pages", "anon_pages"]}}


@pytest.fixture(autouse=True)
def binary(monkeypatch):
    monkeypatch.setenv("COWPROF", str(harness.COWPROF))


def record_itself(python, folder, **options):
    done = subprocess.run([python, SCRIPT, folder / "run.json"], capture_output=True, text=True, check=False, env=ENVIRONMENT, timeout=harness.DEADLINE * 2,
                          stdin=subprocess.DEVNULL, **options)
    assert done.returncode == 0, done.stderr
    harness.validate(harness.load_json(folder / "run.json"), "timeline.schema.json")
    return json.loads(done.stdout)


def check(truth):
    planted_bytes = truth["pages"] * harness.PAGE
    assert planted_bytes <= truth["copied_bytes"] <= planted_bytes + STRAY * harness.PAGE
    assert planted_bytes <= truth["peak_private_bytes"] <= planted_bytes + 2 * STRAY * harness.PAGE
    assert truth["verdict"] == truth["report"]["headline"]["sentence"]
    # The recorder is not recorded, though it is a child.
    assert [row["pid"] for row in truth["report"]["workers"]] == [truth["worker"]]
    assert truth["report"]["identity"]["labels"] == {"run": "test"}
    live = truth["live"]
    assert abs(live["copied_bytes"] - truth["copied_bytes"]) <= 16 * harness.PAGE, (live, truth["copied_bytes"])
    assert abs(live["private_bytes"] - truth["peak_private_bytes"]) <= 64 * harness.PAGE, (live, truth["peak_private_bytes"])


@pytest.mark.parametrize("version", [planted.DEBIAN, *(pytest.param(version, marks=pytest.mark.slow) for version in ("3.8", "3.11", "3.13", "3.14"))])
def test_a_process_records_itself(version, tmp_path):
    needs(f"Python {version}", PYTHONS[version], "neither pyenv nor COWPROF_PYTHONS has it")
    truth = record_itself(PYTHONS[version], tmp_path)
    assert truth["exactness"] == "exact"
    check(truth)


def test_without_root_by_the_page_map(nobodys_folder):
    truth = record_itself(harness.PYTHON, nobodys_folder, **harness.AS_NOBODY)
    assert truth["exactness"] == "page-map"
    check(truth)


def test_an_old_recording_of_that_name_is_not_taken_for_the_new_one(tmp_path):
    path = tmp_path / "run.json"
    with cowprof.record(path) as first:
        pass
    before = path.stat().st_mtime_ns
    with cowprof.record(path, label={"run": "second"}) as second:
        assert path.stat().st_mtime_ns != before
    assert (first.report["identity"]["labels"], second.report["identity"]["labels"]) == ({"run": "second"}, {"run": "second"})
    assert harness.load_json(path)["records"][-1]["reason"] == "stopped by the target"


def test_a_recording_that_still_runs_is_neither_replaced_nor_taken_for_the_new_one(tmp_path):
    """As where all ranks of a job record to one path."""
    with cowprof.record(tmp_path / "run.json", interval="50ms") as recording:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                cowprof.record(recording.path).start()
            except cowprof.NotAttached as error:
                status = 0 if "another recording is being written to it" in str(error) and error.status == 6 else 2
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert [file.name for file in tmp_path.iterdir()] == ["run.json"]
    assert harness.load_json(recording.path)["records"][-1]["reason"] == "stopped by the target"


def test_a_forked_child_that_leaves_the_block_does_not_end_the_recording(tmp_path):
    recording = cowprof.record(tmp_path / "run.json").start()
    child = os.fork()
    if child == 0:
        recording.stop()
        os._exit(0)
    os.waitpid(child, 0)
    assert not any(record["type"] == "end" for record in harness.records_of(recording.path))
    recording.stop()
    assert recording.report["workers"][0]["pid"] == child


def test_the_block_ends_with_its_exception_and_a_complete_file(tmp_path):
    with pytest.raises(ZeroDivisionError), cowprof.record(tmp_path / "run.json") as recording:
        1 / 0
    assert harness.load_json(recording.path)["records"][-1]["type"] == "end"


def test_a_recorder_that_failed_is_a_warning_and_hides_no_exception(tmp_path):
    with pytest.warns(RuntimeWarning, match="status -9"), pytest.raises(ZeroDivisionError), cowprof.record(tmp_path / "run.json") as recording:
        recording._reader.kill()
        1 / 0
    recording.start()
    recording._reader.kill()
    with pytest.raises(cowprof.CowprofError, match="status -9"):
        recording.stop()


def test_what_cowprof_prints_can_be_read(tmp_path):
    with cowprof.record(tmp_path / "run.json", serve=True) as recording:
        assert "cowprof: live page at http://" in recording.said
    assert "cowprof: live page at http://" in recording.said


def test_what_cowprof_says_is_what_is_raised(tmp_path):
    with pytest.raises(cowprof.NotAttached, match="^create .*No such file or directory$"):
        cowprof.record(tmp_path / "none" / "run.json").start()
    with pytest.raises(cowprof.NotAttached, match="--bogus=1"):
        cowprof.record(tmp_path / "run.json", bogus=1).start()
    with pytest.raises(cowprof.CowprofError, match="is not there|No such file|read "):
        cowprof.Recording(tmp_path / "none.json").report  # pylint: disable=expression-not-assigned
    assert not list(tmp_path.iterdir())


def test_no_rights_are_said_in_cowprofs_words(nobodys_folder):
    """A process that changed its user may not be read by that user: its /proc files belong to root."""
    script = (f"import cowprof, os; os.setgid({harness.NOBODY}); os.setuid({harness.NOBODY})\n"
              f"try: cowprof.record('{nobodys_folder}/run.json').start()\n"
              "except cowprof.NotAttached as error: print(error)")
    done = subprocess.run([harness.PYTHON, "-c", script], capture_output=True, text=True, check=True, env=ENVIRONMENT, timeout=harness.DEADLINE)
    assert done.stdout.startswith("can't inspect process ") and "CAP_SYS_PTRACE" in done.stdout and done.stdout.count("\n") == 1


def test_a_missing_binary_is_said(monkeypatch, tmp_path):
    monkeypatch.setenv("COWPROF", str(tmp_path))
    with pytest.raises(cowprof.CowprofError, match="is not a program"):
        cowprof.record(tmp_path / "run.json").start()
    monkeypatch.delenv("COWPROF")
    monkeypatch.setenv("PATH", str(tmp_path))
    if _recording._program.installed() is None:
        with pytest.raises(cowprof.CowprofError, match="no cowprof beside this package, on PATH or in .COWPROF"):
            cowprof.record(tmp_path / "run.json").start()
    (tmp_path / "cowprof").symlink_to(harness.COWPROF)
    with cowprof.record(tmp_path / "run.json") as recording:
        assert recording.exactness == "exact"


@pytest.mark.parametrize("slots, copied, peak, expected", [
    (None, None, None, (0, 0)),  # no worker was seen
    ({"started": 2}, None, None, (None, None)),
    ({"started": 2}, 12345, {"bytes": 678}, (12345, 678)),
])
def test_figures_are_those_of_all_workers_and_none_where_they_are_unknown(slots, copied, peak, expected):
    recording = cowprof.Recording("run.json")
    recording._report = {"totals": {"workers_copied_bytes": copied}, "peak": peak, "worker_slots": slots, "workers": []}
    assert (recording.copied_bytes, recording.peak_private_bytes) == expected


def test_options_are_those_of_the_command_line():
    words = _recording.words_of({"every_copy": True, "verify": False, "without": ["stacks", "fentry"], "label": {"a": "b"}, "interval": "1s", "alert_at": None})
    assert words == ["--every-copy", "--without=stacks", "--without=fentry", "--label=a=b", "--interval=1s"]
    with pytest.raises(TypeError, match="output"):
        _recording.words_of({"output": "x"})


def test_where_yama_asks_the_process_and_its_workers_let_it_read(monkeypatch, tmp_path):
    """The permission itself can only be seen under Yama; here, that both ask for it: the process, and a worker after its fork."""
    asked = tmp_path / "asked"
    (tmp_path / "scope").write_text("1\n")
    monkeypatch.setattr(_recording, "_YAMA", str(tmp_path / "scope"))

    def prctl(*arguments):
        with open(asked, "a", encoding="ascii") as file:
            file.write(f"{os.getpid()} {arguments}\n")
        return 0

    os.register_at_fork(after_in_child=_recording._let_read)  # as the first real call does
    monkeypatch.setattr(_recording, "_prctl", prctl)
    with cowprof.record(tmp_path / "run.json"):
        child = os.fork()
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)
    call = f"({0x59616d61}, {os.getpid()}, 0, 0, 0)"
    withdrawn = f"({0x59616d61}, 0, 0, 0, 0)"
    assert asked.read_text().splitlines() == [f"{os.getpid()} {call}", f"{child} {call}", f"{os.getpid()} {withdrawn}"]
    before = asked.read_text()
    child = os.fork()  # after the recording nobody asks
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    assert asked.read_text() == before
    # Of two recordings the one that ends first withdraws nothing.
    with cowprof.record(tmp_path / "run.json"):
        with cowprof.record(tmp_path / "inner.json"):
            pass
        assert withdrawn not in asked.read_text()[len(before):]
    assert asked.read_text().splitlines()[-1] == f"{os.getpid()} {withdrawn}"
    # A start that fails withdraws it at once.
    asked.write_text("")
    monkeypatch.setattr(_recording._program, "find", lambda: str(tmp_path / "replaced meanwhile"))
    with pytest.raises(FileNotFoundError):
        cowprof.record(tmp_path / "run.json").start()
    assert asked.read_text().splitlines() == [f"{os.getpid()} {call}", f"{os.getpid()} {withdrawn}"]


# ---- The end of a growing file ----


def timeline(path, *records, closed=True):
    lines = [json.dumps({"schema": "cowprof.timeline/1", "header": HEADER, "records": []})[:-2]]
    lines += [("," if number else "") + json.dumps(record) for number, record in enumerate(records)]
    path.write_text("\n".join(lines) + ("\n]}\n" if closed else ""))


def process(index, origin="fork"):
    return {"t": 0, "type": "event", "event": "process", "index": index, "origin": origin}


def sample(t, processes=(), sweeps=()):
    return {"t": t, "type": "sample", "processes": list(processes), "sweeps": list(sweeps)}


def alert(t, eta, over=False, rule="eta"):
    return {"t": t, "type": "alert", "rule": rule, "kind": "host", "name": "m", "over": over, "eta_seconds": eta, "text": "soon full"}


def test_live_figures_follow_the_file(tmp_path):
    path = tmp_path / "run.json"
    figures = LiveFigures(str(path))
    assert figures.read() == (None, 0, None, [])  # there is no file yet
    records = [process(0, "target"), process(1), sample(1, [[0, 0, 0, 7, 900], [1, 10, 0, 100, 500]])]
    timeline(path, *records)
    # At the fork it had 490 pages, all shared: 100 are copied and 10 new since.
    assert figures.read() == (100 * 4096, 110 * 4096, None, [])
    records += [sample(2, [[1, 10, 0, 300, 500]], [[1, 320, 2, 2, 5, 0, 500]]), alert(2, 60.0), sample(12, [[1, 10, 0, 310, 510]])]
    timeline(path, *records)
    assert figures.read() == (310 * 4096, 335 * 4096, 50.0, ["soon full"])
    # One that ends has its last row in the next sample; its memory is gone, its copies stay.
    records += [{"t": 13, "type": "event", "event": "exit", "index": 1, "status": 0}, sample(13, [[1, 10, 0, 311, None]]), alert(13, None, over=True)]
    timeline(path, *records)
    assert figures.read() == (311 * 4096, 0, None, [])


def test_a_ratio_alert_tells_no_time(tmp_path):
    path = tmp_path / "run.json"
    # What was about to be full may stand still for hours, and the alert stands with it.
    timeline(path, process(1), sample(1, [[1, 10, 0, 100, 500]]), alert(1, 0.8, rule="ratio"), sample(9, [[1, 10, 0, 100, 500]]))
    live = LiveFigures(str(path)).read()
    assert (live.eta_seconds, live.alerts) == (None, ["soon full"])


@pytest.mark.parametrize("begin, seen, faults, fresh, anon, private", [
    (2.1, 700, 900, 0, 500, 110),  # copied after the counters were read
    (2.1, 700, 300, 20, 500, 380),  # more than that explains
    (2.1, 40, 0, 0, 490, 50),  # 10 pages were freed meanwhile
    (1.1, 40, 0, 0, 500, 110),  # it began before 80 pages were copied
    (2.1, 700, None, None, None, 700),
])
def test_a_sweep_corrects_what_nothing_around_it_explains(tmp_path, begin, seen, faults, fresh, anon, private):
    path = tmp_path / "run.json"
    timeline(path, process(1), sample(1, [[1, 10, 0, 20, 500]]), sample(2, [[1, 10, 0, 100, 500]], [[1, seen, begin, 2.5, faults, fresh, anon]]))
    assert LiveFigures(str(path)).read().private_bytes == private * 4096


def test_a_recording_by_an_older_tool_has_fewer_columns(tmp_path, monkeypatch):
    monkeypatch.setitem(HEADER, "columns", HEADER["columns"] | {"sweeps": HEADER["columns"]["sweeps"][:4]})
    path = tmp_path / "run.json"
    timeline(path, process(1), sample(1, [[1, 10, 0, 20, 500]]), sample(2, [[1, 10, 0, 100, 500]], [[1, 700, 2.1, 2.5]]))
    assert LiveFigures(str(path)).read().private_bytes == 700 * 4096


def test_a_spawned_python_counts_and_another_program_does_not(tmp_path):
    path = tmp_path / "run.json"
    executed = [process(1), {"t": 1, "type": "event", "event": "exec", "index": 1}, sample(2, [[1, 0, 0, 40, 50]], [[1, 45, 2, 2, 0, 0, 50]])]
    timeline(path, *executed)
    assert LiveFigures(str(path)).read() == (0, 0, None, [])
    timeline(path, *executed, {"t": 2, "type": "event", "event": "python", "index": 1, "python": "3.11.2", "text": ""})
    assert LiveFigures(str(path)).read() == (0, 45 * 4096, None, [])


def test_a_record_that_is_being_written_is_read_later(tmp_path):
    path = tmp_path / "run.json"
    timeline(path, process(1), sample(1, [[1, 0, 0, 5, 50]]), closed=False)
    text = path.read_text() + "\n]}\n"
    figures = LiveFigures(str(path))
    for cut in range(0, len(text), 7):
        path.write_text(text[:cut])
        assert figures.read().copied_bytes in (None, 0, 5 * 4096)
    path.write_text(text)
    assert figures.read().copied_bytes == 5 * 4096


@pytest.mark.slow
def test_types_are_complete():
    mypy = subprocess.run([sys.executable, "-m", "mypy", "--config-file", Path(__file__).with_name("mypy.ini"), "--cache-dir", os.devnull, PACKAGE / "cowprof"],
                          capture_output=True, text=True, check=False)
    needs("package mypy", "No module named mypy" not in mypy.stderr, "mypy is not installed")
    assert mypy.returncode == 0, mypy.stdout
