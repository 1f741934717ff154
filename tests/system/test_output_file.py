"""The recording as a file: whose it is, what happens when the disk fills up, and how much of it survives being cut off."""
import json
import os
import stat
import subprocess

import jsonschema
import pytest

import harness

NOBODY = 65534


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A healthy recording of children that come and go."""
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


def test_the_projects_report_schema_is_the_contracts(recorded):
    """What the contract requires of a report; the project's schema may only add to it."""
    schema = harness.load_json(harness.REPOSITORY / "schema" / "report.schema.json")
    required = {"schema", "target", "duration_seconds", "samples", "exactness", "parent", "workers", "totals", "by_type",
                "by_line", "by_region", "limits", "forecast", "diagnoses", "verify", "losses"}
    assert required <= set(schema["required"])


def test_report_in_words_names_workers_and_copies(recorded):
    result = harness.run_cowprof("report", recorded)
    assert (result.returncode, result.stderr) == (0, "")
    assert "cop" in result.stdout and "\x1b" not in result.stdout


def cut_offsets(text):
    """Every kind of place: in the header, at and around each end of a record, anywhere."""
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
    assert samples == sorted(samples), "a longer file lost samples"
    assert samples[-1] >= 10


def read_whole(path):
    """The text of a file that grows. A read may fall into a write: then the next one finds it whole."""
    for _ in range(3):
        text = path.read_text()
        assert text, "the file is there, and empty"
        try:
            json.loads(text)
            return text
        except json.JSONDecodeError:
            continue
    raise AssertionError(f"no JSON three times in a row: {text[-300:]!r}")


def test_the_file_is_valid_at_every_moment(start_workload, start_recording):
    """Read as fast as it goes, from its first moment on: never empty, never half a record."""
    tree = start_workload("attach_tree", "--branches=1")
    recording = start_recording(tree.pid, "--interval", "20ms", "--duration", "1500ms")
    sizes = set()
    while recording.popen.poll() is None:
        if recording.path.exists():
            sizes.add(len(read_whole(recording.path)))
    assert recording.wait() == 0, recording.stderr
    assert len(sizes) > 20


@pytest.mark.parametrize("layout", [{"indent": 1}, {"separators": (",", ":")}], ids=["indented", "one line"])
def test_a_recording_is_json_whatever_its_layout(recorded, layout, tmp_path):
    """Other tools may have rewritten it: the same document gives the same report."""
    path = tmp_path / "again.json"
    path.write_text(json.dumps(harness.load_json(recorded), **layout))
    result = harness.run_cowprof("report", path, "--json")
    assert result.returncode == 0, result.stderr
    assert result.stdout == harness.run_cowprof("report", recorded, "--json").stdout


# ---- Under sudo ----

@pytest.fixture
def sudo_folder(open_folder):
    os.chown(open_folder, NOBODY, NOBODY)
    return open_folder


def test_output_under_sudo_belongs_to_the_invoking_user(sudo_folder, start_workload):
    target = start_workload("fork_copies", "--pages=10", "--wait")
    target.await_line("role", "ready")
    environment = {**os.environ, "SUDO_UID": str(NOBODY), "SUDO_GID": str(NOBODY), "SUDO_USER": "nobody"}
    recording = harness.attach(target.pid, sudo_folder / "out.json", "--duration", "300ms", env=environment)
    assert recording.wait() == 0, recording.stderr
    status = (sudo_folder / "out.json").stat()
    assert (status.st_uid, status.st_gid) == (NOBODY, NOBODY)
    assert stat.S_IMODE(status.st_mode) & 0o022 == 0
    recording.report()


def test_under_sudo_nobody_elses_file_is_written(sudo_folder, tmp_path, start_workload):
    """A symbolic link that the invoking user planted must not lead root to a file of root's."""
    target = start_workload("fork_copies", "--pages=10", "--wait")
    target.await_line("role", "ready")
    victim = tmp_path / "victim"
    victim.write_text("precious\n")
    (sudo_folder / "out.json").symlink_to(victim)
    environment = {**os.environ, "SUDO_UID": str(NOBODY), "SUDO_GID": str(NOBODY), "SUDO_USER": "nobody"}
    path = sudo_folder / "out.json"
    harness.run_cowprof("--attach", target.pid, "--output", path, "--duration", "300ms", env=environment)
    assert victim.read_text() == "precious\n"


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
    recording = harness.attach(tree.pid, small_disk / "out.json", "--interval", "50ms", "--duration", "3s")
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
