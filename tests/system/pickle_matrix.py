"""Compares `cowprof pickle` with the truth of really pickling, over pickle_kinds.py, for every CPython that is installed.

    python3 tests/system/pickle_matrix.py [VERSION ...]     as root: a row a version, and every kind that is wrong or unknown

right: the verdict is that of really pickling, and a failure's path is the one that was planted. unknown: it says so.
"""
import concurrent.futures
import json
import sys

import chroots
import harness
import planted

WORKLOAD = harness.REPOSITORY / "tests" / "system" / "workloads" / "pickle_kinds.py"
VERSIONS = tuple(f"3.{minor}" for minor in range(8, 15))
READY = 60 * harness.PATIENCE


class Missing(Exception):
    """This interpreter is not installed."""


def command_for(version, workload=WORKLOAD.name):
    python = planted.interpreters()[version]
    if python:
        return [python, WORKLOAD.parent / workload]
    if version != "3.14":
        raise Missing(f"Python {version}: it is not installed")
    chroot, why = chroots.chroot("sid")
    if not chroot:
        raise Missing(f"Debian sid: {why}")
    return chroot.python(f"workloads/{workload}")


def judge(pid, expression):
    """The row for spawn of what cowprof says of an object, checked against the schema."""
    done = harness.run_cowprof("pickle", pid, "--object", expression, "--json", "--no-time", seconds=60 * harness.PATIENCE)
    assert done.returncode == 0, (expression, done.returncode, done.stderr)
    document = json.loads(done.stdout)
    harness.validate(document, "pickle.schema.json")
    spawn, forkserver = document["start_methods"]
    assert {**spawn, "method": ""} == {**forkserver, "method": ""}
    return spawn


def compare(truth, said):
    """"right", "unknown", or what is wrong."""
    verdict = said["verdict"]
    if verdict == "unknown":
        return "unknown"
    if (verdict == "will-fail") != truth["fails"]:
        return f"WRONG: {verdict}, but {truth['error'] or 'it pickles'}"
    paths = [failure["path"] for failure in said["failures"]]
    if truth["path"] is not None and truth["path"] != paths[0]:
        return f"WRONG: path {paths} instead of {truth['path']}"
    return "right"


def matrix(version, each=1):
    """{kind: (truth, what cowprof says, comparison)}, of each kind or each so many."""
    process = harness.Process(command_for(version))
    try:
        process.await_line("event", "ready", READY)
        truths = [line for line in process.lines if "kind" in line][::each]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            rows = pool.map(lambda truth: judge(process.pid, f"holders['{truth['kind']}']"), truths)
            return {truth["kind"]: (truth, said, compare(truth, said)) for truth, said in zip(truths, rows)}
    finally:
        process.stop()


def main():
    wrong = 0
    for version in sys.argv[1:] or VERSIONS:
        try:
            found = matrix(version)
        except Missing as missing:
            print(f"{version:6} skipped: {missing}")
            continue
        counts = {"fails": {}, "pickles": {}, "traps that fail": {}, "traps that pickle": {}}
        for truth, said, _ in found.values():
            row = counts[("traps that fail" if truth["trap"] else "fails") if truth["fails"] else
                         ("traps that pickle" if truth["trap"] else "pickles")]
            row[said["verdict"]] = row.get(said["verdict"], 0) + 1
        bad = {kind: row for kind, row in found.items() if row[2].startswith("WRONG")}
        wrong += len(bad)
        print(f"{version:6} {len(found)} kinds: {sum(row[2] == 'right' for row in found.values())} right, {len(bad)} wrong, "
              f"{sum(row[2] == 'unknown' for row in found.values())} unknown; {counts}")
        for kind, (truth, said, comparison) in found.items():
            if comparison != "right":
                runs = [unknown["runs"] for unknown in said["unknowns"]]
                print(f"         {kind}: {comparison} {runs or said['why_unknown'] or ''} ({truth['error'] or 'pickles'})")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
