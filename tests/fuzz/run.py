#!/usr/bin/env python3
"""Runs the fuzz targets of a build by tests/fuzz/build.sh and prints what came of it; exits with 1 if there was a finding.

    tests/fuzz/run.py [--seconds 60] [--jobs 2] [--target NAME]...

What was found before (tests/fuzz/regressions) is replayed first. The corpus stays in the build directory and grows from run to run."""

import argparse
import concurrent.futures
import pathlib
import re
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
TARGETS = sorted(path.name.removesuffix("_fuzz.cc") for path in HERE.glob("*_fuzz.cc"))
# Small inputs, so that a parser that takes seconds or a gigabyte for one is at fault and not the input.
MOST_BYTES = {"timeline": 16384, "elf": 8192, "procfs": 8192}
LIMITS = ["-rss_limit_mb=1024", "-timeout=10"]
ROW = "{:20} {:>12} {:>8} {:>8} {:>9} {:>9}"


class Target:
    def __init__(self, name, build):
        self.name = name
        self.binary = build / "tests/fuzz" / f"{name}_fuzz"
        folder = build / "fuzz"
        self.corpus, self.findings, self.seeds = folder / "corpus" / name, folder / "findings", folder / "seeds" / name
        self.regressions = HERE / "regressions" / name
        self.log = folder / f"{name}.log"
        for path in (self.corpus, self.findings):
            path.mkdir(parents=True, exist_ok=True)

    def call(self, *arguments):
        command = [self.binary, f"-artifact_prefix={self.findings}/{self.name}-", *LIMITS, *arguments]
        with self.log.open("ab") as log:
            return subprocess.run(command, stdout=log, stderr=log, check=False).returncode

    def run(self, seconds):
        """Executions, executions a second, edges, features, findings."""
        self.log.write_bytes(b"")
        known = sorted(self.regressions.glob("*"))
        failed = [path for path in known if self.call(path) != 0]
        folders = [self.corpus, self.seeds, *([self.regressions] if known else [])]
        found = self.call(f"-max_total_time={seconds}", f"-max_len={MOST_BYTES.get(self.name, 4096)}",
                          "-print_final_stats=1", *folders) != 0
        text = self.log.read_text(errors="replace")
        executed = re.findall(r"stat::number_of_executed_units:\s*(\d+)", text)
        state = re.findall(r"cov: (\d+) ft: (\d+)", text) or [("0", "0")]
        runs = int(executed[-1]) if executed else 0
        return runs, runs // max(seconds, 1), *state[-1], len(failed) + found

    def tell(self):
        text = self.log.read_text(errors="replace")
        blame = re.findall(r"^(?:==\d+==\s*ERROR.*|.*runtime error.*|broken promise.*|.*Assertion.*failed.*)$", text, re.MULTILINE)
        kept = re.findall(r"Test unit written to (\S+)", text)
        print(f"\n{self.name}: {blame[0] if blame else 'see the log'}\n  log: {self.log}")
        for path in kept or ["tests/fuzz/regressions/" + self.name + "/*"]:
            print(f"  replay: {self.binary} {path}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parent.parent / "build/fuzz")
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--jobs", type=int, default=2, help="targets at a time")
    parser.add_argument("--target", action="append", choices=TARGETS)
    options = parser.parse_args()
    build = options.build.resolve()
    if not (build / "tests/fuzz/make_seeds").exists():
        sys.exit(f"run.py: no fuzz targets in {build}; build them with tests/fuzz/build.sh")
    subprocess.run([build / "tests/fuzz/make_seeds", build / "fuzz/seeds"], check=True)

    targets = [Target(name, build) for name in options.target or TARGETS]
    print(ROW.format("target", "executions", "exec/s", "edges", "features", "findings"), flush=True)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        results = {pool.submit(target.run, options.seconds): target for target in targets}
        findings = []
        for done in concurrent.futures.as_completed(results):
            print(ROW.format(results[done].name, *done.result()), flush=True)
            if done.result()[-1] > 0:
                findings.append(results[done])
    for target in findings:
        target.tell()
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
