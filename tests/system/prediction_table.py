#!/usr/bin/python3
"""What cowprof predicts that a remedy saves against what it saves: each pair is recorded, then compared by `cowprof diff`.

usage, as root: prediction_table.py [--write]      --write: into docs/remedies.md. Prints, and is no test: test_compare.py asserts.
"""
import datetime
import json
import platform
import sys
import tempfile
from pathlib import Path

import harness

ROWS = harness.REPOSITORY / "tests" / "system" / "workloads" / "remedied_rows.py"
DOCUMENT = harness.REPOSITORY / "docs" / "remedies.md"
MARK = "<!-- prediction_table.py -->"
VERSIONS = Path.home() / ".pyenv" / "versions"
# name of the pair: interpreter, arguments before, arguments after, remedy, verdict
PAIRS = {
    "dicts in one pickled buffer": ("system", ["dicts-kept"], ["buffer"], "serialise", "better"),
    "dicts in a numpy array": ("system", ["dicts-kept"], ["numpy"], "serialise", "better"),
    "gc.freeze()": ("system", ["dicts"], ["frozen"], "gc-freeze", "better"),
    "many tensors in one": ("system", ["tensors"], ["stacked"], "stack-tensors", "better"),
    "forkserver instead of fork": ("3.13", ["dicts"], ["dicts", "forkserver"], "spawn", "worse"),
    "spawn instead of fork": ("3.11", ["dicts"], ["dicts", "spawn"], "spawn", "worse"),
}


def python(version):
    """The interpreter, or None."""
    if version == "system":
        return harness.PYTHON
    return next((str(path / "bin" / "python3") for path in sorted(VERSIONS.glob(f"{version}.*"))), None)


def record(path, interpreter, arguments):
    done = harness.run_cowprof("--quiet", "--output", path, "--", interpreter, ROWS, *arguments)
    assert done.returncode == 0, done.stderr
    return path


def compare(*paths):
    """The exit status and the document of `cowprof diff`."""
    done = harness.run_cowprof("diff", *paths, "--json")
    return done.returncode, json.loads(done.stdout)


def pair(name, folder):
    interpreter = python(PAIRS[name][0])
    paths = [record(Path(folder) / f"{side}.json", interpreter, arguments) for side, arguments in zip("ab", PAIRS[name][1:3])]
    return compare(*paths)


def row(name, folder):
    status, diff = pair(name, folder)
    prediction = diff["prediction"]
    if status != 0 or prediction is None:
        return f"| {name} | {diff['sentence']} | | | |"
    low, best, high = (prediction["predicted_bytes"][key] / 2**20 for key in ("low", "best", "high"))
    measured = prediction["measured_bytes"] / 2**20
    inside = "yes" if prediction["inside"] else "**no**"
    return (f"| {name} | {prediction['remedy']} | {low:.1f} to {high:.1f}, best {best:.1f} | {measured:.1f} | "
            f"{best - measured:+.1f} | {inside} | {diff['verdict']} |")


def main():
    lines = [f"`tests/system/prediction_table.py --write`, {datetime.date.today()}, Linux {platform.release()}, "
             f"{len(__import__('os').sched_getaffinity(0))} CPUs. MiB of the workers' private memory at its peak.", "",
             "| change | remedy | predicted to save | saved | error of the best estimate | inside | verdict |",
             "| --- | --- | --- | --- | --- | --- | --- |"]
    for name in PAIRS:
        if python(PAIRS[name][0]) is None:
            print(f"left out, no Python {PAIRS[name][0]}: {name}", file=sys.stderr)
            continue
        with tempfile.TemporaryDirectory() as folder:
            lines.append(row(name, folder))
            print(lines[-1], flush=True)
    if "--write" in sys.argv[1:]:
        text = DOCUMENT.read_text()
        head, _, rest = text.partition(MARK)
        _, _, tail = rest.partition(MARK)
        DOCUMENT.write_text(f"{head}{MARK}\n{chr(10).join(lines)}\n{MARK}{tail}")


if __name__ == "__main__":
    main()
