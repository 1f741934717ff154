"""Runs planted_python.py under cowprof and compares the report with what was planted: causes, types, lines and copies.

    python3 tests/system/planted.py --matrix [VERSION-OR-SCENARIO ...]     as root: every interpreter x every scenario, a table
    python3 tests/system/planted.py --truth [VERSION-OR-SCENARIO ...]      the truth, against addresses that perf records

Interpreters are the distribution's, those of pyenv (PYENV_ROOT or ~/.pyenv), and those in COWPROF_PYTHONS (colon-separated). A
comparison returns deviations as text, so that the matrix continues where a test would stop.
"""
import argparse
import collections
import functools
import json
import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import harness

WORKLOAD = harness.REPOSITORY / "tests" / "system" / "workloads" / "planted_python.py"
VERSIONS = tuple(f"3.{minor}" for minor in range(6, 15))
DEBIAN = "system"  # the tests' name for the distribution's interpreter
CAUSES = ("refcount", "gc_header", "allocator", "bytecode", "hash", "data", "free", "kernel", "unknown", "native_refcount", "malloc_reuse")
DIAGNOSES = {"refcount": "cow-refcount", "gc_header": "cow-gc-header", "data": "cow-data"}

SHARE = 0.02  # share of a worker's copies by which a cause may differ from what was planted
UNKNOWN = 0.01
COUNT = 0.005  # copies against page frames, including the last pages of an exiting worker
OWN_PAGES = 60
WITH_LINE = 0.97
SAMPLED_SHARE = 0.05  # share of all copies that types and lines of the interpreter itself may account for
FAST_SAMPLES, SLOW_SAMPLES = 60, 400  # least samples of a run: types and lines are sampled at about 1000 copy sites a second


# ---- Interpreters ----


@functools.lru_cache(maxsize=None)
def version_of(python):
    """Such as (3, 11, 2); None if it does not run."""
    program = "import sys; print(*sys.version_info[:3])"
    try:
        said = subprocess.run([python, "-c", program], capture_output=True, text=True, timeout=harness.DEADLINE, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return tuple(map(int, said.stdout.split()))


def found_pythons():
    root = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    named = [path for path in os.environ.get("COWPROF_PYTHONS", "").split(":") if path]
    return named + [str(path) for path in sorted(root.glob("versions/3.*/bin/python"))]


@functools.lru_cache(maxsize=None)
def interpreters():
    """{"3.6": path, ...}, with the distribution's under DEBIAN. The path is None where an interpreter is not installed."""
    paths = dict.fromkeys(VERSIONS)
    for python in found_pythons():
        version = version_of(python)
        name = version and "{}.{}".format(*version)
        if name in paths and not paths[name]:
            paths[name] = python
    return {**paths, DEBIAN: harness.PYTHON}


def scenarios(workload=WORKLOAD):
    listed = subprocess.run([harness.PYTHON, workload, "--list"], capture_output=True, text=True, check=True)
    return listed.stdout.split()


# ---- One run ----


class Skipped(Exception):
    """The interpreter can't plant the scenario."""


# `worker` is the workload's line about its worker, which is the truth.
Run = collections.namedtuple("Run", "worker report path")


def attach_and_go(process, folder, *options):
    """Attaches to a workload that is ready, releases it, waits for both. Returns the recording."""
    recording = harness.attach(process.pid, folder / "planted.json", "--interval", "200ms", *options)
    try:
        recording.await_sample()
        process.go()
        status = recording.wait()
        assert status == 0, recording.stderr
    finally:
        recording.stop()
    return recording


# Seconds that a worker lives on after the planted access. Names are read while the process lives, so some that appear just before
# its exit are lost. In `bytecode` every copy has its own stack, so it needs longer.
LINGER, LINGER_LONG = 0.2, {"bytecode": 0.4}


def run(python, scenario, folder, workload=WORKLOAD, options=(), linger=0, environment=()):
    linger = linger or LINGER_LONG.get(scenario, LINGER)
    process = harness.Process(["env", *environment, python, workload, scenario, *([f"--linger={linger}"] if linger else [])])
    try:
        harness.wait_until(lambda: process.lines or process.popen.poll(), f"{scenario} to be ready")
        assert process.lines, f"{python} {scenario} ended with {process.popen.returncode}"
        if process.lines[0]["role"] == "skipped":
            raise Skipped(process.lines[0]["reason"])
        recording = attach_and_go(process, folder, *options)
        lines = process.finish()
        assert process.popen.returncode == 0, f"the workload ended with {process.popen.returncode}"
    finally:
        process.stop()
    recording.timeline()
    worker = next((line for line in lines if line["role"] == "worker"), None)
    return Run(worker, recording.report(), recording.path)


# ---- Comparisons: each returns deviations ----


def share(part, whole):
    return part / whole if whole else 0.0


def check_truth(worker):
    """The workload's own account: the planned pages have moved, and few others."""
    if worker["missed"] > 0.005 * worker["planted_copies"]:
        yield f"{worker['missed']} planned pages have not moved"
    if worker["planted_copies"] and worker["unplanned"] > SHARE * worker["pagemap_copies"] + OWN_PAGES:
        yield f"{worker['unplanned']} of {worker['pagemap_copies']} copies were not planned"


def check_count(worker, row):
    moved, copies = worker["pagemap_copies"], row["copies"]
    if abs(copies - moved) > COUNT * moved + OWN_PAGES:
        yield f"{copies} copies, {moved} pages have moved"


def check_causes(worker, row):
    found, copies, planted = row.get("by_cause"), row["copies"], worker["planted_copies"]
    if not found or any(found.get(cause) is None for cause in CAUSES):
        yield f"by_cause of the worker is {found}"
        return
    if sum(found.values()) != copies:
        yield f"causes sum to {sum(found.values())} of {copies} copies"
    if not planted:
        return
    if found["unknown"] > UNKNOWN * copies:
        yield f"{found['unknown'] / copies:.1%} of unknown cause"
    for cause in CAUSES:
        truth = share(worker["by_cause"].get(cause, 0), planted)
        if abs(share(found[cause], copies) - truth) > SHARE:
            yield f"{cause} {share(found[cause], copies):.1%}, planted {truth:.1%}"


def bare(name):
    """Strips the module that types of builtin modules have in their name."""
    return name.rpartition(".")[2]


def types_of(report):
    found = collections.Counter()
    for row in report["by_type"]:
        found[bare(row["type"])] += row["copies"]
    return found


def check_types(worker, report):
    planted = sum(worker["by_type"].values())
    if not planted or planted < 0.5 * worker["planted_copies"]:
        return
    found = types_of(report)
    if not found:
        yield "by_type is empty"
        return
    first, best = bare(report["by_type"][0]["type"]), share(max(worker["by_type"].values()), planted)
    if share(worker["by_type"].get(first, 0), planted) < best - tolerance_of(best, worker):
        yield f"type {first} comes first"
    for name, copies in worker["by_type"].items():
        truth, seen = share(copies, worker["planted_copies"]), share(found[name], report["totals"]["copies"])
        if truth > SAMPLED_SHARE and abs(seen - truth) > tolerance_of(truth, worker, report["by_type"]):
            yield f"type {name} {seen:.1%}, planted {truth:.1%}"


def tolerance_of(truth, worker, rows=()):
    """A mixture has a sampling error (three deviations); a uniform run differs only by the interpreter's own copies. A busy machine
    samples fewer copies, and then the report states the uncertainty of `rows` (two deviations)."""
    samples = SLOW_SAMPLES if worker["scenario"].startswith("mixture") else FAST_SAMPLES
    return SAMPLED_SHARE + max(3 * math.sqrt(truth * (1 - truth) / samples), max((row.get("share_uncertainty", 0) for row in rows), default=0))


def is_place(row, place):
    return all(row[key] == place[key] for key in ("file", "function", "line"))


def copies_on(report, place):
    return sum(row["copies"] for row in report["by_line"] if is_place(row, place))


def check_lines(worker, report):
    planted, copies, total = worker["by_line"], report["totals"]["copies"], worker["planted_copies"]
    if not planted:
        return
    if not report["by_line"]:
        yield "by_line is empty"
        return
    with_line = sum(row["copies"] for row in report["by_line"])
    if with_line < WITH_LINE * copies:
        yield f"{share(with_line, copies):.1%} of the copies have a line"
    if not is_place(report["by_line"][0], planted[0]):
        first = report["by_line"][0]
        yield "line {file}:{line} in {function} comes first".format(**first)
    for place in planted:
        truth, seen = share(place["copies"], total), share(copies_on(report, place), total)
        if abs(seen - truth) > tolerance_of(truth, worker, report["by_line"]):
            yield f"line {place['line']} {seen:.1%}, planted {truth:.1%}"


def check_diagnoses(worker, report):
    found = {diagnosis["id"] for diagnosis in report["diagnoses"]}
    expected = {DIAGNOSES[cause] for cause, copies in worker["by_cause"].items()
                if cause in DIAGNOSES and copies > 0.2 * worker["planted_copies"]}
    if not expected <= found:
        yield f"no diagnosis {', '.join(sorted(expected - found))}"
    allowed = {"cow-data"} if worker["by_cause"].get("kernel") else set()  # the kernel wrote on the program's behalf
    wrong = (found & set(DIAGNOSES.values())) - expected - allowed
    if wrong:
        yield f"diagnosis {', '.join(sorted(wrong))}"


def check_target(worker, report):
    if report["target"]["python"] != worker["python"]:
        yield f"Python {report['target']['python']}, expected {worker['python']}"


def deviations(run):
    """Every difference between the report and the truth."""
    worker, report = run.worker, run.report
    row = harness.row_of(report, worker["pid"])
    return [*check_truth(worker), *check_target(worker, report), *check_count(worker, row), *check_causes(worker, row),
            *check_types(worker, report), *check_lines(worker, report), *check_diagnoses(worker, report)]


# ---- The matrix ----


def shares_in_words(counts, whole):
    largest = sorted(counts.items(), key=lambda item: -(item[1] or 0))[:3]
    return " ".join(f"{name} {share(copies or 0, whole):.1%}" for name, copies in largest if share(copies or 0, whole) >= 0.005)


def cells_of(run):
    worker, report = run.worker, run.report
    row = harness.row_of(report, worker["pid"])
    on_lines = sum(copies_on(report, place) for place in worker["by_line"])
    return [
        f"{worker['planted_copies']:,} / {worker['pagemap_copies']:,} / {row['copies']:,}",
        f"{shares_in_words(worker['by_cause'], worker['planted_copies']) or 'clean'}",
        f"{shares_in_words(row.get('by_cause') or {}, row['copies'])}",
        f"{shares_in_words(worker['by_type'], worker['planted_copies'])}",
        f"{shares_in_words(types_of(report), report['totals']['copies'])}",
        f"{share(on_lines, report['totals']['copies']):.1%}" if worker["by_line"] else "",
        "; ".join(deviations(run)) or "ok",
    ]


HEADINGS = ["Python", "scenario", "copies: planted / moved / counted", "causes planted", "causes found", "types planted",
            "types found", "on the planted lines", "deviations"]


def print_row(cells):
    print("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |", flush=True)


def matrix_row(python, scenario):
    """The cells of one run, even if it fails, and whether it is as planted."""
    with tempfile.TemporaryDirectory(prefix="cowprof-matrix-") as folder:
        try:
            cells = cells_of(run(python, scenario, Path(folder)))
        except Skipped:
            return None, True
        except Exception as error:  # the next run may still pass
            first_line = (str(error).splitlines() or [""])[0]
            return ["", "", "", "", "", "", f"{type(error).__name__}: {first_line}"], False
    return cells, cells[-1] == "ok"


def combinations(wanted):
    """(version, scenario) pairs of those named; where none is named, of all."""
    names = set(interpreters())
    for name, python in interpreters().items():
        for scenario in scenarios():
            if python and (not wanted & names or name in wanted) and (not wanted - names or scenario in wanted):
                yield python, scenario


def print_matrix(wanted):
    """Prints the matrix; returns something true if a run deviates, or if there was none."""
    print_row(HEADINGS)
    print_row(["---"] * len(HEADINGS))
    deviating = runs = 0
    for python, scenario in combinations(wanted):
        cells, as_planted = matrix_row(python, scenario)
        if not cells:
            continue
        runs += 1
        deviating += not as_planted
        print_row([".".join(map(str, version_of(python))), scenario, *cells])
    missing = [name for name, python in interpreters().items() if not python]
    print(f"\n{runs - deviating} of {runs} runs are as planted. Not installed: {', '.join(missing) or 'none'}.")
    return deviating or not runs


# ---- The truth, checked against perf's record of every page fault with its address ----


def faults_of(pid, perf_data):
    """{page: address of its first fault} in one process. After a fork pages are mapped, so the first fault is the first write."""
    script = ["perf", "script", "-i", perf_data, "-F", "pid,addr"]
    first = {}
    for line in subprocess.run(script, capture_output=True, text=True, check=True).stdout.splitlines():
        who, address = line.split()[:2]
        if int(who) == pid:
            first.setdefault(int(address, 16) >> 12, int(address, 16))
    return first


def witness(python, scenario, folder):
    """(planned pages, faults at the planned address, elsewhere on the page, none), or None if the scenario does not run."""
    perf = ["perf", "record", "-q", "-o", folder / "perf.data", "-e", "page-faults", "-c", "1", "-d", "-m", "4096", "--"]
    done = subprocess.run([*perf, python, WORKLOAD, scenario, "--planned", folder / "planned"], input="\n", capture_output=True,
                          text=True, check=True)
    worker = next((json.loads(line) for line in done.stdout.splitlines() if '"worker"' in line), None)
    if not worker:
        return None
    faults = faults_of(worker["pid"], folder / "perf.data")
    planned = harness.load_json(folder / "planned")
    found = [faults.get(address >> 12) for address, _ in planned]
    exact = sum(fault == address for fault, (address, _) in zip(found, planned))
    return len(planned), exact, sum(fault is not None for fault in found) - exact, found.count(None)


def print_truth(wanted):
    print_row(["Python", "scenario", "planned pages", "first write at the planned address", "elsewhere on the page", "none"])
    print_row(["---"] * 6)
    for python, scenario in combinations(wanted):
        with tempfile.TemporaryDirectory(prefix="cowprof-truth-") as folder:
            figures = witness(python, scenario, Path(folder))
        if figures and figures[0]:
            print_row([".".join(map(str, version_of(python))), scenario, *map("{:,}".format, figures)])
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    kind = parser.add_mutually_exclusive_group(required=True)
    kind.add_argument("--matrix", action="store_const", dest="printer", const=print_matrix, help="print what was planted and what was found")
    kind.add_argument("--truth", action="store_const", dest="printer", const=print_truth, help="compare what was planned with what perf saw")
    parser.add_argument("wanted", nargs="*", help="only these versions (3.6, ..., system) and scenarios")
    arguments = parser.parse_args()
    unknown = set(arguments.wanted) - set(interpreters()) - set(scenarios())
    if unknown:
        parser.error(f"no such version or scenario: {', '.join(sorted(unknown))}; versions: {', '.join(interpreters())}; scenarios: {', '.join(scenarios())}")
    sys.exit(1 if arguments.printer(set(arguments.wanted)) else 0)


if __name__ == "__main__":
    main()
