"""`cowprof export`: each format is read back by what it is made for, and what that sums up is what the report says."""
import collections
import glob
import json
import re
import shutil
import subprocess
from pathlib import Path

import jsonschema
import pytest

import harness
from conftest import needs

CONSUMERS = Path(__file__).with_name("consumers")
PACKAGES = harness.BUILD / "consumers"
WORKLOADS = Path(__file__).with_name("workloads")
PROGRAMS = {"rows": [harness.PYTHON, WORKLOADS / "remedied_rows.py", "dicts-kept"],
            "hostile": [harness.PYTHON, WORKLOADS / "hostile_names.py", "<a>;b"]}
Recording = collections.namedtuple("Recording", "path report")


@pytest.fixture(scope="module", params=PROGRAMS)
def recording(request, tmp_path_factory):
    path = tmp_path_factory.mktemp(request.param) / "run.json"
    done = harness.run_cowprof("--quiet", "--output", path, "--", *PROGRAMS[request.param])
    assert done.returncode == 0, done.stderr
    return Recording(path, harness.report_of(path))


@pytest.fixture(scope="session")
def packages():
    """The folder with speedscope and DuckDB, from npm."""
    needs("npm", shutil.which("npm"), "install nodejs and npm")
    PACKAGES.mkdir(exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(CONSUMERS / name, PACKAGES)
    done = subprocess.run(["npm", "ci", "--prefer-offline", "--no-audit", "--no-fund"], cwd=PACKAGES, capture_output=True,
                          text=True)
    needs("npm", done.returncode == 0, "its registry can't be reached")
    return PACKAGES


def export(form, path, *options):
    """The path of the file."""
    done = harness.run_cowprof("export", form, path, *options)
    assert (done.returncode, done.stderr) == (0, "")
    return Path(done.stdout.strip())


def consumer(script, packages, *arguments):
    """The lines of JSON that a script of tests/system/consumers prints."""
    done = subprocess.run(["node", CONSUMERS / script, packages, *map(str, arguments)], capture_output=True, text=True,
                          timeout=harness.DEADLINE)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.split("\n") if line]


def test_a_recording_without_copies_is_said_to_have_no_stacks(recording, tmp_path):
    document = harness.load_json(recording.path)
    document["records"] = [record for record in document["records"] if record["type"] != "sample"]
    path = tmp_path / "run.json"
    path.write_text(json.dumps(document))
    for form, said in {"pprof": True, "speedscope": True, "folded": True, "csv": False}.items():
        done = harness.run_cowprof("export", form, path)
        assert done.returncode == 0 and done.stderr == (f"cowprof: no copies were counted in {path}: the export has no stacks\n" if said else ""), (form, done)


def of_types(report):
    """Copies by type, as far as the report names one."""
    return {row["type"]: row["copies"] for row in report["by_type"]}


# ---- pprof ----

def pprof(*arguments):
    tools = [shutil.which("pprof"), *glob.glob("/usr/lib/go-*/pkg/tool/*/pprof")]
    tool = next(filter(None, tools), None)
    needs("pprof", tool, "install golang-go, or google's pprof")
    # A folder named like one in the path of a source, such as build/tests, makes it look for the source there.
    done = subprocess.run([tool, *map(str, arguments)], capture_output=True, text=True, timeout=harness.DEADLINE, cwd="/")
    assert done.returncode == 0, done.stderr
    return done.stdout


def tags(path, key):
    """What pprof prints of a label: copies by value."""
    text = pprof("-sample_index=copies", "-tags", path)
    block = re.search(rf"^ *{key}: Total .*\n((?: +[\d.]+ \(.*\n)*)", text, re.M)
    rows = re.findall(r"^ +([\d.]+) \([^)]*\): (.*)$", block[1] if block else "", re.M)
    return {name: int(float(copies)) for copies, name in rows}


def test_pprof_counts_what_the_report_counts(recording):
    path = export("pprof", recording.path)
    assert path == recording.path.with_suffix(".pb.gz")
    totals = recording.report["totals"]
    assert f"of {totals['copies']} total" in pprof("-sample_index=copies", "-top", path)
    assert f"of {totals['copied_bytes']}B total" in pprof("-unit=B", "-top", path)
    assert sum(tags(path, "cause").values()) == totals["copies"]
    assert {int(re.search(r"\((\d+)\)$", name)[1]): copies for name, copies in tags(path, "process").items()} == {
        process["pid"]: process["copies"]
        for process in [recording.report["parent"], *recording.report["workers"]] if process["copies"]}


def test_pprof_tells_types_and_shows_the_line(recording):
    path = export("pprof", recording.path)
    types, told = of_types(recording.report), tags(path, "type")
    assert sorted(told.values()) == sorted(types.values())  # names with control characters are escaped here
    assert all(told[name] == copies for name, copies in types.items() if name.isidentifier())
    line = recording.report["by_line"][0]
    if not Path(line["file"]).is_file():
        return
    shown = pprof("-unit=B", "-list", f"^{re.escape(line['function'])}$", path)
    [flat] = re.findall(rf"^ +(\d+)B +\d+B +{line['line']}:", shown, re.M)
    assert int(flat) <= line["bytes"]  # the line also has what a library copied that it called
    if not line["via"]:
        assert int(flat) == line["bytes"]


# ---- perfetto ----

def decoded(path):
    """The packets of a trace, as protoc prints them."""
    needs("protoc", shutil.which("protoc"), "install protobuf-compiler")
    done = subprocess.run(["protoc", f"--proto_path={CONSUMERS}", "--decode=perfetto.protos.Trace", "perfetto.proto"],
                          stdin=path.open("rb"), capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    return re.findall(r"^packet \{\n(.*?)^\}", done.stdout, re.M | re.S)


def field(packet, name):
    found = re.search(rf"^ +{name}: (.*)$", packet, re.M)
    return found and found[1].strip('"')


def test_perfetto_has_the_tracks_and_marks_of_each_process(recording):
    packets = decoded(export("perfetto", recording.path))
    assert not [packet for packet in packets if re.search(r"^ +\d+[: ]", packet, re.M)], "a field that Perfetto doesn't know"
    tracks = {field(packet, "uuid"): packet for packet in packets if "track_descriptor {" in packet}
    last, marks = {}, collections.Counter()
    for packet in packets:
        if "TYPE_COUNTER" in packet:
            assert "counter {" in tracks[field(packet, "track_uuid")]
            last[field(packet, "track_uuid")] = int(field(packet, "counter_value"))
        elif "TYPE_INSTANT" in packet:
            assert field(packet, "track_uuid") in tracks
            marks[field(packet, "categories")] += 1
    copied = {int(field(tracks[field(tracks[uuid], "parent_uuid")], "pid")): value for uuid, value in last.items()
              if field(tracks[uuid], "name") == "copied"}
    processes = [recording.report["parent"], *recording.report["workers"]]
    assert copied == {process["pid"]: process["copied_bytes"] for process in processes}
    assert sum(copied.values()) == recording.report["totals"]["copied_bytes"]
    assert marks["process"] == marks["exit"] + marks["killed"] == len(processes)
    assert sum(field(packet, "name").endswith(": used") for packet in tracks.values()) == len(recording.report["limits"])


# ---- speedscope and folded stacks ----

def test_speedscope_takes_its_format(recording, packages):
    path = export("speedscope", recording.path)
    document = harness.load_json(path)
    jsonschema.validate(document, harness.load_json(packages / "node_modules/speedscope/dist/release/file-format-schema.json"))
    totals = recording.report["totals"]
    assert sum(document["profiles"][0]["weights"]) == totals["copied_bytes"]
    assert sum(sum(profile["weights"]) for profile in document["profiles"][1:]) == totals["copied_bytes"]


def shown(path, packages):
    """What speedscope shows: bytes or text of the frames' own weight, by name."""
    needs("chromium", shutil.which("chromium-headless-shell") or shutil.which("chromium"), "install chromium-headless-shell")
    [rows] = consumer("speedscope.mjs", packages, path)
    return [(re.sub(r" \(.*", "", own), name) for _, own, name in rows]


def test_speedscope_shows_both(recording, packages):
    names = {name for own, name in shown(export("speedscope", recording.path), packages) if own != "0 B"}
    folded = export("folded", recording.path)
    of_frames = {name: int(own.replace(",", "")) for own, name in shown(folded, packages) if own != "0"}
    assert sum(of_frames.values()) == recording.report["totals"]["copied_bytes"]
    assert {name.replace(';', ':') for name in names} == set(of_frames)
    page = recording.report["totals"]["copied_bytes"] // recording.report["totals"]["copies"]
    for kind, copies in of_types(recording.report).items():
        if kind.isidentifier():
            assert sum(size for name, size in of_frames.items() if name.startswith(f"{kind}: ")) == copies * page


# ---- tables ----

def test_csv_ends_with_the_figures_of_the_report(recording):
    pandas = pytest.importorskip("pandas", reason="pandas: install python3-pandas")
    table = pandas.read_csv(export("csv", recording.path))
    last = table.groupby("index").last()
    totals = recording.report["totals"]
    assert last["copies"].sum() == totals["copies"]
    assert last["copied_bytes"].sum() == totals["copied_bytes"]
    for cause, copies in totals["by_cause"].items():
        assert last[f"{cause}_copies"].sum() == copies
    processes = {process["index"]: process for process in [recording.report["parent"], *recording.report["workers"]]}
    for index, row in last.iterrows():
        assert (row["pid"], row["role"]) == (processes[index]["pid"], processes[index]["role"])


def test_duckdb_reads_a_folder(recording, packages, tmp_path):
    shutil.copy(recording.path, tmp_path / "whole.json")
    (tmp_path / "cut.json").write_bytes(recording.path.read_bytes()[:-700])
    (tmp_path / "other.json").write_text('{"schema": "something else", "records": [\n{"t":1,"type":"sample"}\n]}')
    totals = recording.report["totals"]
    whole = "WHERE recording LIKE '%whole.json'"
    recordings, sums, causes, copies = consumer(
        "duckdb.mjs", packages, tmp_path / "*.json",
        "SELECT recording FROM cowprof_recordings ORDER BY ALL",
        f"SELECT sum(copies) AS copies, sum(copied_bytes) AS bytes, count(*) AS processes FROM cowprof_processes {whole}",
        "SELECT cause, sum(copies) AS copies FROM "
        f"(SELECT index, cause, max(copies) AS copies FROM cowprof_causes {whole} GROUP BY ALL) GROUP BY cause",
        f"SELECT type, sum(copies) AS copies FROM cowprof_copies {whole} GROUP BY type")
    assert [Path(row["recording"]).name for row in recordings] == ["cut.json", "whole.json"]
    assert int(sums[0]["copies"]) == totals["copies"] and int(sums[0]["bytes"]) == totals["copied_bytes"]
    assert int(sums[0]["processes"]) == 1 + len(recording.report["workers"])
    assert {row["cause"]: int(row["copies"]) for row in causes} == totals["by_cause"]
    told = {row["type"]: row["copies"] for row in copies if row["copies"]}
    for kind, count in of_types(recording.report).items():
        assert abs(told.get(kind, 0) - count) <= 1 + len(recording.report["workers"])  # the report's copies are whole


# ---- the command ----

def test_output_and_refusals(tmp_path):
    path = tmp_path / "run.json"
    assert harness.run_cowprof("--quiet", "--output", path, "--", "true").returncode == 0
    assert harness.run_cowprof("export", "csv", path, "-o", "-").stdout == export("csv", path).read_text()
    named = export("folded", path, "--output", tmp_path / "a")
    assert named == tmp_path / "a" and named.exists()
    for arguments, status in ([("export", "svg", path), 2], [("export", "csv"), 2], [("export", "csv", tmp_path / "none"), 2],
                              [("export", "csv", named), 2], [("export", "csv", path, "-o", tmp_path / "no/such"), 6]):
        done = harness.run_cowprof(*arguments)
        assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (status, "", 1), arguments
