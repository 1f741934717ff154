#!/usr/bin/env python3
"""Runs the security tests that THREATS.md refers to as S1 to S7 and prints a line for each: name, requirement, result.

    tests/system/security_rows.py [S1 S5 ...]

Run as root; the exit status is 1 if one fails. A row is a selection of tests from this folder, or of the page in a browser
(tests/web).
"""
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
BUILD = Path(os.environ.get("COWPROF_BUILD", REPOSITORY / "build")).resolve()

ROWS = {
    "S1": ("output under sudo: record and view refuse what the user could not write; a race gains nothing",
           ["test_output_file.py", "-k", "sudo or another_users"]),
    "S2": ("hostile names in five places: valid JSON, no escape in the terminal, no script in the page",
           ["test_hostile_names.py", "test_hostile_python.py", "-k", "test_hostile_names or names_do_no_harm"], ["hostile", "robust"]),
    "S3": ("the page, offline under its content policy: no request, no violation", None, ["page", "robust"]),
    "S4": ("alert hook: no shell, data only, killed, rate-limited, refused if others can write it, runs as the invoking user",
           ["test_alerts.py", "-k", "hook"]),
    "S5": ("after the attach: capabilities, identity, no_new_privs, seccomp", ["test_privileges.py"]),
    "S6": ("no message echoes the content of a file", ["test_secrets.py"]),
    "S7": ("nothing listens by default; a served page: loopback, token, host, GET, an unprivileged process", ["test_serve.py"]),
}


def run_pytest(words):
    tests = [str(HERE / word) if word.endswith(".py") else word for word in words]
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider", *tests], capture_output=True,
                          text=True, check=False, cwd=REPOSITORY)
    return done.returncode == 0, done.stdout.strip().splitlines()[-1], done.stdout


def record_hostile_page(folder):
    """The environment variables that tests/web/hostile.test.mjs needs."""
    program, page, names = HERE / "workloads" / "hostile_names.py", folder / "hostile.html", folder / "hostile.names"
    names.write_text(subprocess.run([sys.executable, program, "--list"], capture_output=True, text=True, check=True).stdout)
    subprocess.run([BUILD / "cowprof", "--quiet", "--every-copy", "--output", folder / "hostile.json", "--", sys.executable, program,
                    json.loads(names.read_text())[0]],
                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True)
    subprocess.run([BUILD / "cowprof", "view", folder / "hostile.json", "-o", page], capture_output=True, check=True)
    return {"COWPROF_HOSTILE_PAGE": str(page), "COWPROF_HOSTILE_NAMES": str(names)}


def run_web(names):
    with tempfile.TemporaryDirectory() as folder:
        variables = record_hostile_page(Path(folder)) if "hostile" in names else {}
        done = subprocess.run(["node", "--test", *(str(REPOSITORY / "tests" / "web" / f"{name}.test.mjs") for name in names)],
                              capture_output=True, text=True, check=False, cwd=REPOSITORY / "web", env={**os.environ, **variables})
    counts = dict(re.findall(r"^\S* ?(pass|fail|skipped) (\d+)$", done.stdout, re.M))
    return done.returncode == 0, "in the browser " + json.dumps(counts), done.stdout


def main(wanted):
    failed = False
    for row, (asks, words, *pages) in ROWS.items():
        if wanted and row not in wanted:
            continue
        results = ([run_pytest(words)] if words else []) + [run_web(names) for names in pages]
        good = all(result[0] for result in results)
        print(f"{row}  {'ok    ' if good else 'FAILED'}  {asks}: {'; '.join(result[1] for result in results)}", flush=True)
        if not good:
            failed = True
            print("\n".join(result[2] for result in results if not result[0]))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
