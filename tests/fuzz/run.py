#!/usr/bin/env python3
"""Runs the fuzz targets of a build by tests/fuzz/build.sh and prints what came of it; exits with 1 if there was a finding.

    tests/fuzz/run.py [--seconds 60] [--jobs 2] [--target NAME]...

What was found before (tests/fuzz/regressions) is replayed first. The corpus stays in the build directory and grows from run to run."""

import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
TARGETS = sorted(path.name.removesuffix("_fuzz.cc") for path in HERE.glob("*_fuzz.cc"))
# Small inputs, so that a parser that takes seconds or a gigabyte for one is at fault and not the input.
MOST_BYTES = {"timeline": 16384, "records": 16384, "elf": 8192, "procfs": 8192}
LIMITS = ["-rss_limit_mb=1024"]
MOST_SECONDS = 10  # for one input
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

    def call(self, *arguments, timeout=MOST_SECONDS):
        """Exit status, and CPU time."""
        command = [self.binary, f"-artifact_prefix={self.findings}/{self.name}-", *LIMITS, f"-timeout={timeout}", *arguments]
        with self.log.open("ab") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
            _, process.returncode, usage = os.wait4(process.pid, 0)
        return process.returncode, usage.ru_utime + usage.ru_stime

    def fuzz(self, seconds):
        """True if there was a finding. libFuzzer's limit is of the clock, ours of the CPU: on a busy host an input that took
        long is tried once more."""
        end = time.monotonic() + seconds
        folders = [self.corpus, self.seeds, *([self.regressions] if any(self.regressions.glob("*")) else [])]
        while (left := end - time.monotonic()) >= 1:
            status, _ = self.call(f"-max_total_time={int(left)}", f"-max_len={MOST_BYTES.get(self.name, 4096)}",
                                  "-print_final_stats=1", *folders)
            late = list(self.findings.glob(f"{self.name}-timeout-*"))
            for path in late:
                again, cpu_seconds = self.call(path, timeout=60 * MOST_SECONDS)
                if again == 0 and cpu_seconds < MOST_SECONDS:
                    path.unlink()
            if any(path.exists() for path in late) or (status != 0 and not late):
                return True
        return False

    def run(self, seconds):
        """Executions, executions a second, edges, features, findings."""
        self.log.write_bytes(b"")
        failed = [path for path in sorted(self.regressions.glob("*")) if self.call(path)[0] != 0]
        found = self.fuzz(seconds)
        text = self.log.read_text(errors="replace")
        runs = sum(int(count) for count in re.findall(r"stat::number_of_executed_units:\s*(\d+)", text))
        state = re.findall(r"cov: (\d+) ft: (\d+)", text) or [("0", "0")]
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
    if absent := [target for target in targets if not target.binary.exists()]:
        names = ", ".join(target.name for target in absent)
        if options.target:
            sys.exit(f"run.py: {build} does not have {names}; tests/fuzz/build.sh builds all targets, with --slice only some")
        print(f"not in this build: {names}")
        targets = [target for target in targets if target not in absent]
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
