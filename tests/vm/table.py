"""Judges and prints the guests' results: the table of rungs and kernels, failed tests, and what was skipped and why.

A wrong count, a failed test, or a skip that is not in expected_skips.txt is a failure.
"""
import datetime
import fnmatch
import re
from dataclasses import dataclass, field
from pathlib import Path

EXPECTED_SKIPS = Path(__file__).with_name("expected_skips.txt")
TOLERANCE = 0.005
OWN_PAGES = 60  # what a process copies on its own: stack, libc, exit
HEAD = ("kernel", "rung", "exactness", "copies planted", "counted", "error", "copies counted where none was planted")


@dataclass
class Finding:
    """The results of one guest."""
    kernel: str  # as named for --kernel
    release: str = "?"
    seconds: float = 0
    problem: str | None = None
    rungs: list = field(default_factory=list)
    counts: list = field(default_factory=list)
    tests: list = field(default_factory=list)
    commands: list = field(default_factory=list)


def read_finding(kernel, lines, problem, seconds):
    finding = Finding(kernel, problem=problem, seconds=seconds)
    for line in lines:
        if "doctor" in line:
            finding.release, finding.rungs = line["kernel"], line["doctor"]["rungs"]
        elif "rung" in line:
            finding.counts.append(line)
        elif "test" in line:
            finding.tests.append(line)
        elif "command" in line:
            finding.commands.append(line)
    return finding


# ---- Judgement ----


def _wrong_count(count):
    """Why the count is wrong, or None if it is right."""
    if "error" in count:
        return count["error"]
    if count["used"] != count["rung"]:
        return f"the recording used the rung {count['used']}"
    if any(lost for name, lost in count["losses"].items() if name != "probes_skipped"):  # which is only a bound
        return f"losses: {count['losses']}"
    if count["exactness"] not in ("exact", "upper-bound"):
        return None
    if count["counted"] is None:
        return "a process is missing"
    bound = max(count["planted"] * TOLERANCE, OWN_PAGES * count["processes"])
    above = count["counted"] - count["planted"]
    wrong = above < -bound or (above > bound and count["exactness"] == "exact")
    return f"counted {count['counted']}, planted {count['planted']}" if wrong else None


def failures(finding):
    found = [f"{finding.kernel}: {finding.problem}"] if finding.problem else []
    for count in finding.counts:
        wrong = _wrong_count(count)
        found += [f"{finding.kernel}: {count['rung']}: {count['workload']}: {wrong}"] if wrong else []
    return found + [f"{finding.kernel}: {test['test']}\n{test['reason']}" for test in finding.tests if test["outcome"] == "failed"]


def skips(finding):
    """(what is matched against expected_skips.txt, reason) of each skip."""
    found = [(f"{finding.kernel} rung {rung['rung']}", rung["reason"]) for rung in finding.rungs if not rung["usable"]]
    return found + [(f"{finding.kernel} test {test['test']}", test["reason"].removeprefix("Skipped: "))
                    for test in finding.tests if test["outcome"] == "skipped"]


def _is_expected(what):
    lines = [line.split("#")[0].strip() for line in EXPECTED_SKIPS.read_text().splitlines()]
    return any(fnmatch.fnmatchcase(what, line) for line in lines if line)


# ---- Printing ----


def _row(finding, rung):
    counts = [count for count in finding.counts if count["rung"] == rung["rung"] and "error" not in count]
    if rung["usable"] and rung["exactness"] == "page-map":
        return (finding.release, rung["rung"], "page-map", "8,192 a worker", "by test_page_map_rung.py", "", "")
    if not rung["usable"] or not counts:
        return (finding.release, rung["rung"], "not usable" if not rung["usable"] else "not counted", "", "", "", "")
    planted = [count for count in counts if count["planted"]]
    if any(count["counted"] is None for count in planted):
        total, error = "not told", ""
    else:
        truth, counted = sum(count["planted"] for count in planted), sum(count["counted"] for count in planted)
        total, error = counted, f"{100 * (counted - truth) / truth:+.3f} %" if truth else ""
    nothing = [count["counted"] for count in counts if not count["planted"]]
    return (finding.release, rung["rung"], counts[0]["exactness"], sum(count["planted"] for count in planted), total, error,
            "not told" if None in nothing else sum(nothing))


def markdown(findings):
    rows = [HEAD, ("---",) * len(HEAD)]
    rows += [_row(finding, rung) for finding in findings for rung in finding.rungs if "copies" in rung["capabilities"]]
    return "\n".join("| " + " | ".join(str(cell) for cell in row) + " |" for row in rows)


def print_results(findings, missing):
    """`missing` is (kernel, reason) of those that could not be fetched. Returns the exit status."""
    for finding in findings:
        for command in finding.commands:
            print(f"{finding.kernel}$ {command['command']}\n{command['output']}")
    print(markdown(findings))
    for finding in findings:
        passed = sum(test["outcome"] == "passed" for test in finding.tests)
        print(f"{finding.kernel}: {finding.release}, {passed} tests passed, {finding.seconds:.0f} s")
        for test in finding.tests:
            if test["outcome"] == "passed" and test["again"]:
                print(f"unsteady: {finding.kernel}: {test['test']} passed the second time")
    skipped = [(f"{kernel} kernel", reason) for kernel, reason in missing] + [skip for finding in findings for skip in skips(finding)]
    for what, reason in skipped:
        print(f"skipped: {what}: {reason}")
    failed = [failure for finding in findings for failure in failures(finding)]
    failed += [f"UNEXPECTED SKIP, not in {EXPECTED_SKIPS.name}: {what}: {reason}" for what, reason in skipped if not _is_expected(what)]
    for failure in failed:
        print(f"FAILED: {failure}")
    passed = sum(test["outcome"] == "passed" for finding in findings for test in finding.tests)
    passed += sum(_wrong_count(count) is None for finding in findings for count in finding.counts)
    print(f"{passed} passed, {len(failed)} failed, {len(skipped)} skipped")
    return 1 if failed else 0


def write_docs(findings, path, machine):
    """Replaces the table between the two marks in the document."""
    text = f"<!-- table -->\n{datetime.date.today()}, {machine}:\n\n{markdown(findings)}\n<!-- end -->"
    path.write_text(re.sub(r"<!-- table -->.*<!-- end -->", lambda _: text, path.read_text(), flags=re.S))
