"""The recording as a file: its owner, a full disk, and what survives truncation."""
import contextlib
import json
import os
import re
import shutil
import signal
import stat
import subprocess
import tempfile
import threading
import time
from pathlib import Path

import jsonschema
import pytest

import harness

SUDO = {"SUDO_UID": str(harness.NOBODY), "SUDO_GID": str(harness.NOBODY), "SUDO_USER": "nobody"}
PRECIOUS = "precious\n"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A healthy recording of short-lived children."""
    path = tmp_path_factory.mktemp("recorded") / "recording.json"
    result = harness.run_cowprof("--output", path, "--interval", "50ms", "--quiet", "--", harness.WORKLOADS / "fork_storm",
                                 "--forks=200", "--rate=200")
    assert result.returncode == 0, result.stderr
    return path


def test_a_recording_fits_its_schema(recorded):
    document = harness.load_json(recorded)
    harness.validate(document, "timeline.schema.json")
    assert document["schema"] == "cowprof.timeline/1"
    assert document["records"][-1]["type"] == "end"
    assert {record["type"] for record in document["records"]} >= {"sample", "event", "end"}


@pytest.mark.parametrize("breach", [lambda d: d.pop("header"), lambda d: d["records"][0].pop("t"),
                                    lambda d: d.update(schema="cowprof.timeline/9"),
                                    lambda d: d["records"][0].update(type=7)])
def test_the_schema_can_fail(recorded, breach):
    document = harness.load_json(recorded)
    breach(document)
    with pytest.raises(jsonschema.ValidationError):
        harness.validate(document, "timeline.schema.json")


def test_the_report_schema_keeps_its_required_keys(recorded):
    """Report keys that other tools rely on; the schema may only add to them."""
    schema = harness.load_json(harness.REPOSITORY / "schema" / "report.schema.json")
    required = {"schema", "target", "duration_seconds", "samples", "exactness", "parent", "workers", "totals", "by_type",
                "by_line", "by_region", "limits", "forecast", "diagnoses", "verify", "losses"}
    assert required <= set(schema["required"])


def test_where_nothing_can_be_written_it_names_the_option():
    done = subprocess.run([harness.COWPROF, "--", "true"], cwd="/sys/kernel", capture_output=True, text=True, timeout=harness.DEADLINE, check=False)
    assert done.returncode == 6 and "; --output FILE writes the recording elsewhere" in done.stderr, done.stderr


def test_a_program_that_does_not_start_leaves_the_earlier_recording(recorded, tmp_path):
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")  # which only the exec finds out
    script.chmod(0o755)
    path = shutil.copy(recorded, tmp_path / "run.json")
    for program in (script, "no-such-program"):
        result = harness.run_cowprof("--quiet", "--output", path, "--", program)
        assert result.returncode == 127, result.stderr
        assert {file.name for file in tmp_path.iterdir()} == {"script", "run.json"}
        assert path.read_bytes() == recorded.read_bytes()
    older = tmp_path / "run.json.old"
    older.write_text("older")
    for program in (script, "no-such-program"):
        assert harness.run_cowprof("--quiet", "--output", path, "--", program).returncode == 127
        assert path.read_bytes() == recorded.read_bytes() and older.read_text() == "older"
        assert {file.name for file in tmp_path.iterdir()} == {"script", "run.json", "run.json.old"}
    assert harness.run_cowprof("--quiet", "--output", path, "--", "true").returncode == 0
    assert older.read_bytes() == recorded.read_bytes()
    assert {file.name for file in tmp_path.iterdir()} == {"script", "run.json", "run.json.old"}


def test_the_text_report_names_workers_and_copies(recorded):
    result = harness.run_cowprof("report", recorded)
    assert (result.returncode, result.stderr) == (0, "")
    pid = harness.report_of(recorded)["parent"]["pid"]
    assert re.search(rf"^ +pid +copies +copied .*\n +parent +{pid} +\d.*\n +worker +\d", result.stdout, re.M), result.stdout[:2000]
    assert "\x1b" not in result.stdout


def cut_offsets(text):
    """Offsets of every kind: in the header, at and around the end of each record, anywhere."""
    start = text.index('"records"')
    ends = [offset for offset in range(start, len(text)) if text[offset] in "}]"]
    around = [offset + shift for offset in ends[::max(1, len(ends) // 20)] for shift in (0, 1, 2)]
    return sorted({*range(0, start, max(1, start // 10)), *range(start, len(text), max(1, len(text) // 30)), *around})


def test_a_recording_cut_off_anywhere_still_opens(recorded, tmp_path):
    text = recorded.read_text()
    whole = text.index('"records":') + len('"records":[')
    samples = []
    for offset in cut_offsets(text):
        path = tmp_path / "cut.json"
        path.write_text(text[:offset])
        result = harness.run_cowprof("report", path, "--json")
        if offset < whole and result.returncode:
            assert result.returncode == 2 and len(result.stderr.splitlines()) == 1, (offset, result.stderr)
            continue
        assert result.returncode == 0, (offset, result.stderr)
        report = json.loads(result.stdout)
        harness.validate(report, "report.schema.json")
        samples.append(report["samples"])
    assert samples == sorted(samples), "a longer file has fewer samples"
    assert samples[-1] >= 10


def read_whole(path):
    """The text of a growing file. A read may coincide with a write; then it is repeated."""
    for _ in range(3):
        text = path.read_text()
        assert text, "the file exists but is empty"
        try:
            json.loads(text)
            return text
        except json.JSONDecodeError:
            continue
    raise AssertionError(f"not valid JSON three times in a row: {text[-300:]!r}")


def test_the_file_is_valid_at_every_moment(start_workload, start_recording):
    """Reads as fast as possible from the moment the file exists: it is never empty and never ends in half a record."""
    tree = start_workload("attach_tree", "--branches=1")
    recording = start_recording(tree.pid, "--interval", "20ms")
    sizes, interrupted, deadline = set(), False, time.monotonic() + harness.DEADLINE
    while recording.popen.poll() is None:
        if recording.path.exists():
            sizes.add(len(read_whole(recording.path)))
        assert time.monotonic() < deadline, f"only {len(sizes)} sizes were seen"
        if len(sizes) > 20 and not interrupted:
            recording.send(signal.SIGINT)
            interrupted = True
    assert recording.wait() == 0, recording.stderr


@pytest.mark.parametrize("layout", [{"indent": 1}, {"separators": (",", ":")}], ids=["indented", "one line"])
def test_a_reformatted_recording_gives_the_same_report(recorded, layout, tmp_path):
    """Other tools may have rewritten the file; the same document gives the same report."""
    path = tmp_path / "again.json"
    path.write_text(json.dumps(harness.load_json(recorded), **layout))
    result = harness.run_cowprof("report", path, "--json")
    assert result.returncode == 0, result.stderr
    assert result.stdout == harness.run_cowprof("report", recorded, "--json").stdout


def test_a_recording_that_still_runs_is_not_replaced(start_workload, start_recording, tmp_path):
    target = start_workload("fork_copies", "--pages=10", "--wait")
    target.await_line("role", "ready")
    recording = start_recording(target.pid)
    recording.await_sample()
    second = harness.run_cowprof("--attach", target.pid, "--output", recording.path, "--duration=1s")
    assert (second.returncode, second.stdout) == (6, ""), second
    assert f"create {recording.path}: another recording is being written to it" in second.stderr, second.stderr
    assert not [file.name for file in tmp_path.iterdir() if file.suffix not in (".json", ".said")]
    recording.stop()
    recording.report()


# ---- Under sudo ----

def test_output_under_sudo_belongs_to_the_invoking_user(nobodys_folder, start_workload):
    target = start_workload("fork_copies", "--pages=10", "--wait")
    target.await_line("role", "ready")
    recording = harness.attach(target.pid, nobodys_folder / "out.json", "--duration", "300ms", env={**os.environ, **SUDO})
    assert recording.wait() == 0, recording.stderr
    status = (nobodys_folder / "out.json").stat()
    assert (status.st_uid, status.st_gid) == (harness.NOBODY, harness.NOBODY)
    assert stat.S_IMODE(status.st_mode) == 0o600
    recording.report()


def refuse_symlink(path, victim):
    path.symlink_to(victim)


def refuse_dangling_symlink(path, victim):
    path.symlink_to(victim.with_name("new"))


def refuse_hard_link(path, victim):
    os.link(victim, path)


def refuse_fifo(path, victim):
    os.mkfifo(path)
    os.chown(path, harness.NOBODY, harness.NOBODY)


def refuse_directory(path, victim):
    path.mkdir()
    os.chown(path, harness.NOBODY, harness.NOBODY)


def refuse_file_of_another(path, victim):
    path.write_text(PRECIOUS)
    path.chmod(0o666)


def refuse_folder_of_another(path, victim):
    os.chown(path.parent, 0, 0)


REFUSED = [refuse_symlink, refuse_dangling_symlink, refuse_hard_link, refuse_fifo, refuse_directory, refuse_file_of_another,
           refuse_folder_of_another]


@pytest.fixture(scope="module")
def living():
    """A process to record."""
    process = harness.Process([harness.WORKLOADS / "fork_copies", "--pages=10", "--wait"])
    process.await_line("role", "ready")
    yield process.pid
    process.stop()


@pytest.fixture
def victim(open_folder):
    """A file that root owns on the same file system as what the user planted."""
    path = Path(tempfile.mkdtemp(dir=open_folder.parent)) / "victim"
    path.write_text(PRECIOUS)
    yield path
    shutil.rmtree(path.parent)


def write_output(command, path, pid, recorded):
    other = path.parent.with_name(path.parent.name + ".json")  # in /tmp, where the user may write
    words = {"view": ["view", recorded, "-o", path],
             "record": ["--attach", pid, "--output", path, "--duration", "100ms"],
             "metrics": ["--attach", pid, "--output", other, "--metrics-file", path, "--duration", "100ms"]}[command]
    return harness.run_cowprof(*words, env={**os.environ, **SUDO})


@pytest.mark.parametrize("command", ["record", "view", "metrics"])
@pytest.mark.parametrize("plant", REFUSED, ids=lambda plant: plant.__name__.removeprefix("refuse_"))
def test_under_sudo_what_the_user_could_not_write_is_refused(plant, command, nobodys_folder, victim, living, recorded):
    path = nobodys_folder / "out"
    plant(path, victim)
    before = sorted((entry.name, entry.lstat().st_mode, entry.lstat().st_uid) for entry in nobodys_folder.iterdir())
    result = write_output(command, path, living, recorded)
    assert result.returncode == 6 and len(result.stderr.splitlines()) == 1 and str(path) in result.stderr, result
    assert victim.read_text() == PRECIOUS and list(victim.parent.iterdir()) == [victim]
    assert before == sorted((entry.name, entry.lstat().st_mode, entry.lstat().st_uid) for entry in nobodys_folder.iterdir())


@pytest.mark.parametrize("command", ["record", "view"])
def test_under_sudo_a_race_gains_nothing(command, nobodys_folder, victim, living, recorded):
    """Links to root's file and to its folder appear and vanish as fast as possible where cowprof writes."""
    path = nobodys_folder / "folder" / "out"
    folder, away, root = path.parent, nobodys_folder / "away", victim.parent
    folder.mkdir()
    os.chown(folder, harness.NOBODY, harness.NOBODY)
    (root / "out").write_text(PRECIOUS)
    stop = threading.Event()

    def swap():
        while not stop.is_set():
            for link, target in (path, victim), (folder, root):
                if link == folder:
                    folder.rename(away)
                else:
                    link.unlink(missing_ok=True)
                with contextlib.suppress(FileExistsError):  # cowprof's file was faster
                    link.symlink_to(target)
                link.unlink()
            away.rename(folder)

    swapper = threading.Thread(target=swap)
    swapper.start()
    try:
        for _ in range(12):
            result = write_output(command, path, living, recorded)
            assert result.returncode in (0, 6), result.stderr
        assert swapper.is_alive(), "the links stopped changing"
    finally:
        stop.set()
        swapper.join()
    assert victim.read_text() == PRECIOUS and sorted(p.name for p in root.iterdir()) == ["out", "victim"]
    assert (root / "out").read_text() == PRECIOUS
    for file in folder.iterdir():
        assert file.is_symlink() or (file.stat().st_uid == harness.NOBODY and stat.S_IMODE(file.stat().st_mode) == 0o600)


def test_another_users_file_is_refused_to_root_too(open_folder, living):
    path = open_folder / "out.json"
    path.write_text(PRECIOUS)
    os.chown(path, harness.NOBODY, harness.NOBODY)
    result = harness.run_cowprof("--attach", living, "--output", path, "--duration", "100ms")
    assert result.returncode == 6 and f"belongs to user {harness.NOBODY}" in result.stderr
    assert path.read_text() == PRECIOUS


# ---- A full disk ----

@pytest.fixture
def small_disk(tmp_path):
    """A file system of 128 KiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=128k", "cowprof-test", folder], check=True)
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def fill(folder):
    with open(folder / "filler", "wb", buffering=0) as filler:
        try:
            while True:
                filler.write(b"x" * 4096)
        except OSError:
            pass


def test_a_disk_that_is_full_from_the_start(small_disk, start_workload):
    target = start_workload("fork_copies", "--pages=10", "--wait")
    target.await_line("role", "ready")
    fill(small_disk)
    result = harness.run_cowprof("--attach", target.pid, "--output", small_disk / "out.json", "--duration", "300ms")
    assert result.returncode == 6
    assert len(result.stderr.splitlines()) == 1
    assert "space" in result.stderr.lower() and "out.json" in result.stderr
    assert target.popen.poll() is None


def test_a_disk_that_fills_up_during_the_run(small_disk, start_workload):
    tree = start_workload("attach_tree", "--branches=1")
    recording = harness.attach(tree.pid, small_disk / "out.json", "--quiet", "--interval", "50ms", "--duration", "3s")
    try:
        recording.await_sample()
        fill(small_disk)
        status = recording.wait()
    finally:
        recording.stop()
    assert status in (0, 6), recording.stderr
    assert len(recording.stderr.splitlines()) == 1, recording.stderr
    assert "space" in recording.stderr.lower()
    json.loads((small_disk / "out.json").read_text())
    assert recording.report(healthy=False)["samples"] >= 1
    assert tree.finish()[-1]["bad_endings"] == 0
