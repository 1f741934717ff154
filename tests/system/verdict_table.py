#!/usr/bin/python3
"""The table of docs/verdict.md: real programs, the first sentence that cowprof says, and what is true.

    tests/system/verdict_table.py [--write] [--only TEXT] [--at-once N] [--texts FOLDER] [--fail]

Plays the programs of verdict_cases.py as root and prints a line for each; with --write, puts the table into docs/verdict.md.
`--texts`: keeps each whole report there. `--fail`: exits with 1 if a program that is not `known` deviates.
"""
import argparse
import concurrent.futures
import datetime
import os
import platform
import re
import sys
import tempfile
from pathlib import Path

import harness
import verdict_cases
import verdict_run

PAGE = harness.REPOSITORY / "docs" / "verdict.md"
MARK = "<!-- tests/system/verdict_table.py --write replaces what follows -->"


def cell(text):
    return re.sub(r"\s+", " ", text.replace(f"{harness.REPOSITORY}/", "")).replace("|", "\\|")


def play(case, texts):
    """(the row, whether it deviates although nobody knows why)"""
    with tempfile.TemporaryDirectory(prefix="cowprof-verdict-") as folder:
        try:
            result = verdict_run.run(case, folder)
        except verdict_run.Missing as missing:
            return f"| {case.name} | not run: {': '.join(missing.args)} | | |", False
        except Exception as error:  # the next program may still run
            kept = (str(error).splitlines() or [""])[0][:300]
            return f"| {case.name} | not run: {type(error).__name__}: {cell(kept)} | | no |", True
    if texts:
        name = re.sub(r"\W+", "-", case.name)
        Path(texts, f"{name}.txt").write_text(result.text)
    deviates = bool(result.deviations)
    right = "yes" if not deviates else "no: " + "; ".join(result.deviations)
    if case.known:
        right += f" (known: {case.known})"
    return f"| {case.name} | {cell(result.sentence)} | {cell(result.truth)} | {cell(right)} |", deviates and not case.known


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="programs whose name or row matches this expression")
    parser.add_argument("--texts", help="a folder for whole reports")
    parser.add_argument("--at-once", type=int, default=1)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--fail", action="store_true")
    arguments = parser.parse_args()
    cases = [case for case in verdict_cases.CASES if re.search(arguments.only, f"{case.name} {case.row}")]
    if arguments.texts:
        Path(arguments.texts).mkdir(parents=True, exist_ok=True)
    lines = []

    def say(text):
        lines.append(text)
        print(text, flush=True)

    say(f"{datetime.date.today():%d %b %Y}, {os.cpu_count()} CPUs, Linux {platform.release().split('-')[0]}, {platform.machine()}.\n")
    say("| program | first sentence | truth | right |\n| --- | --- | --- | --- |")
    wrong = 0
    with concurrent.futures.ThreadPoolExecutor(arguments.at_once) as pool:
        for row, deviates in pool.map(lambda case: play(case, arguments.texts), cases):
            say(row)
            wrong += deviates
    if arguments.write:
        text = PAGE.read_text()
        PAGE.write_text(text[: text.index(MARK) + len(MARK)] + "\n\n" + "\n".join(lines) + "\n")
    sys.exit(1 if wrong and arguments.fail else 0)


if __name__ == "__main__":
    main()
