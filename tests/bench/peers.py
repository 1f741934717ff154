#!/usr/bin/python3
"""cowprof beside its peers on the same workload: what each costs it, takes for itself, and can say about it at the end.

    peers.py [--rounds 5] [--memray ROOT] [--dry] [--short]

Run as root. The workloads are paced_reads.py (work between 5,000 copies a second of each worker) and python_copies.py (CPU time of a copy).
Each round starts the workload anew, measures it bare and then watched: a pair. --memray is a root file system whose Python has memray, where
this one's has not. Peers that are not here are named with the reason. Unless --dry or --short the tables go into docs/measurements.md.
"""
import argparse
import contextlib
import functools
import re
import shutil
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import bench
import page
from bench import harness, truth  # which it has found
from turns import in_turns

HERE = Path(__file__).resolve().parent
RATE, WORKERS, TYPE = 5000, 2, "str"
SAID_LINES, SAID_WIDTH = 4, 400
SHORT = ("cowprof", "perf record -e page-faults -c 1 -g", "psutil loop, 10 Hz")
PSUTIL = """
import psutil, signal, sys, time
target, pause = psutil.Process(int(sys.argv[1])), 1 / float(sys.argv[2])
first, last = {}, {}
def end(*_):
    for pid, uss in last.items():
        print(f"pid {pid}: uss {uss / 2**20:.1f} MiB, {(uss - first[pid]) / 2**20:+.1f} MiB")
    sys.exit()
signal.signal(signal.SIGINT, end)
while True:
    for process in [target, *target.children(recursive=True)]:
        try:
            last[process.pid] = process.memory_full_info().uss
        except psutil.Error:
            continue
        if first.setdefault(process.pid, last[process.pid]) and len(first) == 1:
            print("ready", flush=True)
    time.sleep(pause)
"""
# An error code with bits 0 and 1 is a write to a page that is there. tracefs is mounted for bpftrace alone.
TRACEFS = 'mount -t tracefs tracefs /sys/kernel/tracing; exec "$@"'
BY_PID = 'tracepoint:exceptions:page_fault_user /(args->error_code & 3) == 3/ { @[pid, comm] = count(); } BEGIN { printf("ready\\n"); }'
WITH_STACK = BY_PID.replace("@[pid, comm]", "@[pid, ustack(3)]")
IN_ROOT = 'mount --bind "$1" "$2/mnt"; mount --bind "$3" "$2/tmp"; mount -t proc proc "$2/proc"; root=$2; shift 3; exec chroot "$root" "$@"'


# ---- The observers: each yields a dict that has own_figures() and what it said at the end ----

@contextlib.contextmanager
def watched_by_command(command):
    """A program that prints "ready" when it watches, and its findings after SIGINT."""
    own = {}
    with subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as program:
        try:
            line = next((line for line in program.stdout if "ready" in line), "")
            assert line, f"{command[0]} ended with {program.wait()}"
            yield own
            own.update(bench.own_figures(program.pid))
            program.send_signal(signal.SIGINT)
            own["said"] = program.stdout.read()
        finally:
            program.kill()


def psutil_at(hertz):
    return lambda pid, _folder: watched_by_command([harness.PYTHON, "-c", PSUTIL, pid, hertz])


def bpftrace_of(script):
    return lambda _pid, _folder: watched_by_command(["unshare", "--mount", "sh", "-c", TRACEFS, "sh", "bpftrace", "-e", script])


def told_by(watched, command):
    @contextlib.contextmanager
    def observer(pid, folder):
        with watched(pid, folder) as own:
            yield own
        words = [word.replace("FOLDER", str(folder)) for word in command]
        own["said"] = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    return observer


def counted(pattern, scale=1.0):
    """Sums the counts that a pattern finds beside the pids of workers."""
    return lambda said, pids: sum(float(one["count"].replace(",", "")) * scale
                                  for one in re.finditer(pattern, said, re.M) if int(one["pid"]) in pids)


@dataclass
class Peer:
    watched: object         # (pid, folder): a context in which the workload is watched
    counts: str             # what its count is a count of
    copies: object          # (what it said, pids) -> that count
    missing: object = bool  # () -> why it can't be had here
    last: bool = False      # it says the most important last


def lacks(program):
    return lambda: "" if shutil.which(program) else f"{program} is not installed"


def lacks_module(name):
    found = subprocess.run([harness.PYTHON, "-c", f"import {name}"], capture_output=True, check=False).returncode == 0
    return lambda: "" if found else f"python3-{name} is not installed"


COWPROF = [str(harness.COWPROF), "report", "FOLDER/recording.json"]
PERF = ["perf", "report", "--stdio", "--no-children", "-g", "none", "-n", "--sort", "pid,sym", "-i", "FOLDER/perf.data"]
USS = counted(r"^pid (?P<pid>\d+): .*, (?P<count>[-+][\d.]+) MiB$", 256)
WRITES = counted(r"^@\[(?P<pid>\d+),[^\]]*\]: (?P<count>\d+)")
PEERS = {
    "nothing": Peer(lambda _pid, _folder: contextlib.nullcontext({}), "", None),
    "cowprof": Peer(told_by(bench.watched_by_cowprof, COWPROF), "copies", counted(r"^  worker +(?P<pid>\d+) +(?P<count>[\d,]+) ")),
    "perf record -e page-faults -c 1 -g": Peer(told_by(bench.watched_by_perf, PERF), "page faults of all kinds",
                                               counted(r"^ +[\d.]+% +(?P<count>\d+) +(?P<pid>\d+):"), lacks("perf")),
    "psutil loop, 1 Hz": Peer(psutil_at(1), "growth of private memory, in pages", USS, lacks_module("psutil")),
    "psutil loop, 10 Hz": Peer(psutil_at(10), "growth of private memory, in pages", USS, lacks_module("psutil")),
    "bpftrace, by pid": Peer(bpftrace_of(BY_PID), "write faults on present pages", WRITES, lacks("bpftrace"), True),
    "bpftrace, by pid and stack": Peer(bpftrace_of(WITH_STACK), "write faults on present pages", WRITES, lacks("bpftrace"), True),
}
ABSENT = {"py-spy": "not measured: neither Debian 12, 13 nor sid has a package of it"}


# ---- The workloads ----

class Place:
    """A Python, and where it finds the benchmark's scripts: here, or in a root file system."""

    def __init__(self, folder, root=None):
        self.python, self.scripts, self.kept = [harness.PYTHON], HERE, folder
        if root:
            self.python = ["unshare", "--mount", "sh", "-c", IN_ROOT, "sh", HERE, root, folder, "/usr/bin/python3"]
            self.scripts, self.kept = "/mnt", "/tmp"

    @contextlib.contextmanager
    def running(self, script, *arguments, under=()):
        load = harness.Process([*self.python, *under, f"{self.scripts}/{script}", *arguments], stderr=subprocess.DEVNULL)
        try:
            yield load, load.await_line("role", "ready", seconds=120)
        finally:
            load.close_stdin()
            load.popen.wait(harness.DEADLINE)
            load.stop()

    def paced(self, options, under=()):
        pages = round(RATE * (3 * (options.settle + options.seconds) + 6))  # more than a worker copies in a round
        return self.running("paced_reads.py", f"--workers={WORKERS}", f"--rate={RATE}", f"--pages={pages}", "--spin", under=under)

    def saturated(self, options, under=()):
        return self.running("python_copies.py", options.pages, under=under)


def work_rate(load, seconds):
    """Units of work per second, and per second of the workload's CPU time."""
    before, cpu = bench.next_line(load), bench.usage.tree_cpu_seconds(load.pid)
    time.sleep(seconds)
    after, cpu = bench.next_line(load), bench.usage.tree_cpu_seconds(load.pid) - cpu
    units = after["units"] - before["units"]
    return {"wall": units / (after["seconds"] - before["seconds"]), "cpu": units / cpu}


def second_line(load, pause=0):
    """Nanoseconds of a copy; observers that learn do so in the first line."""
    bench.next_line(load)
    time.sleep(pause)
    return bench.next_line(load)["ns_per_page"]


def watched_round(peer, place, options, folder):
    with place.paced(options) as (load, ready):
        time.sleep(options.settle)
        figures = {f"bare_{key}": rate for key, rate in work_rate(load, options.seconds).items()}
        outside = bench.next_line(load)["reads"]
        with peer.watched(load.pid, folder) as own:
            began, inside = time.monotonic(), bench.next_line(load)["reads"]
            figures |= work_rate(load, options.seconds)
            pids, inside = truth.children(load.pid), bench.next_line(load)["reads"] - inside
            own["watched_seconds"] = time.monotonic() - began
        outside = bench.next_line(load)["reads"] - outside
    assert own.get("own_mib", 1), "the observer ended before its target"
    figures |= {**own, "planted": (inside, outside), "pids": pids, "line": ready["line"]}
    with place.saturated(options) as (load, _):
        figures["bare_ns"] = second_line(load)
        with peer.watched(load.pid, folder):
            figures["ns"] = second_line(load, options.settle)
    return figures


def memray_round(place, options, folder):
    """memray can't be attached without a debugger: the workload is started under it."""
    def under(name):
        return ["-m", "memray", "run", "--follow-fork", "-q", "-f", "-o", f"{place.kept}/{name}.bin"]
    for old in folder.glob("*.bin*"):
        old.unlink()
    figures, said = {}, ""
    for prefix, words in (("bare_", ()), ("", under("paced"))):
        with place.paced(options, words) as (load, ready):
            time.sleep(options.settle)
            figures |= {f"{prefix}{key}": rate for key, rate in work_rate(load, options.seconds).items()}
            pids, reads = truth.children(load.pid), load.lines[-1]["reads"]
    for key, words in (("bare_ns", ()), ("ns", under("saturated"))):
        with place.saturated(options, words) as (load, _):
            figures[key] = second_line(load)
    for path in sorted(folder.glob("paced.bin*")):
        command = [*place.python, "-m", "memray", "stats", f"{place.kept}/{path.name}"]
        said += f"{path.name}:\n" + subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return {**figures, "said": said, "planted": (reads, reads), "pids": pids, "line": ready["line"]}


# ---- The tables ----

def in_pairs(rounds, bare, watched, digits, unit):
    """Mean and standard error of the change, in the figure's unit and in percent."""
    if not all(one[bare] for one in rounds):
        return "too short to be measured"  # in ticks of the scheduler's clock
    change, error = page.mean_and_error([one[watched] - one[bare] for one in rounds])
    percent, error_percent = page.mean_and_error([(one[watched] / one[bare] - 1) * 100 for one in rounds])
    absolute = f"{change:+,.{digits}f} ± {error:.{digits}f} {unit}, " if unit else ""
    return f"{absolute}{percent:+.1f} ± {error_percent:.1f} %"


def cost_row(name, rounds):
    own = [f"{page.with_error(*page.mean_and_error([one[key] for one in rounds]))} {unit}" if key in rounds[0] else "in the target"
           for key, unit in (("own_cpu", "s"), ("own_tree_mib", "MiB"))] if name != "nothing" else ["", ""]
    work = [in_pairs(rounds, f"bare_{key}", key, 0, "") for key in ("wall", "cpu")]
    return f"| {name} | {' | '.join(work)} | {in_pairs(rounds, 'bare_ns', 'ns', 0, 'ns')} | {own[0]} | {own[1]} |"


def answers(name, peer, one):
    """What the text that it printed has of what was planted."""
    said, (least, most) = one["said"], one["planted"]
    count = "no count" if peer is None else f"{peer.copies(said, one['pids']):,.0f} {peer.counts}; {least:,} to {most:,} planted"
    forecast = re.search(r"Forecast: (.*?)\.(?: |$)", said, re.M)
    cells = [re.search(rf"\b{TYPE}\b", said), re.search(rf"paced_reads\.py:{one['line']}\b", said),
             peer is not None and all(str(pid) in said for pid in one["pids"])]
    return f"| {name} | {count} | {' | '.join('yes' if cell else 'no' for cell in cells)} | {forecast[1] if forecast else 'no'} |"


def excerpt(one, last):
    """The lines that name a worker, the script or what allocated, and the first one, which cowprof puts its verdict in."""
    said = re.sub(r"\[[^\]]*\]", lambda key: " ".join(key[0].split()), one["said"]).replace(f"{page.REPOSITORY}/", "")
    lines = [line.strip() for line in said.splitlines() if line.strip() and not line.startswith("#")]
    wanted = re.compile("|".join([*map(str, one["pids"]), "paced_reads", " -> "]))
    kept = [line for at, line in enumerate(lines) if wanted.search(line) or at == 0 and not last]
    return [line if len(line) <= SAID_WIDTH else f"{line[:SAID_WIDTH]} ..." for line in (kept[-SAID_LINES:] if last else kept[:SAID_LINES])]


def text_of(results, absent, options):
    seconds = page.mean_and_error([one["watched_seconds"] for name, rounds in results.items() if name != "memray" for one in rounds])[0]
    lines = [f"{WORKERS} forked Python workers on {bench.os.cpu_count()} CPUs each copy {RATE:,} pages a second by reading strings, and work in between; "
             "copies as fast as they come are measured beside it, in CPU time.",
             f"Changes are means of {options.rounds} pairs (bare, watched) with their standard error. The row \"nothing\" shows what they are worth: "
             "so much do pairs differ without any observer. Compare a copy, own CPU and own memory; in work a second most observers can't be told from none. "
             f"Own CPU is from the observer's start to {seconds:.0f} s after it was ready; "
             "own memory counts pages that it shares with its children twice.", "",
             "| watched by | work a second | work a second of CPU time | a copy | own CPU | own memory, peak |", "|" + " --- |" * 6]
    lines += [cost_row(name, rounds) for name, rounds in results.items()]
    lines += ["", "What the text that each printed at the end says about the same workload. Planted are at least the copies while it watched, at most "
              "those from before it was started until after it had ended:", "",
              "| | how many copies | of which type | from which line | in which worker | forecast |", "|" + " --- |" * 6]
    lines += [answers(name, PEERS.get(name), rounds[-1]) for name, rounds in results.items() if name != "nothing"]
    lines += ["", *(f"{name}: {why}.  " for name, why in absent.items()), ""]
    said = []
    for name, rounds in results.items():
        if name != "nothing":
            said += ["", f"{name}:", "", "```", *excerpt(rounds[-1], name in PEERS and PEERS[name].last), "```"]
    return "\n".join([*lines, page.folded("What each printed, shortened", "\n".join(said[1:])), "", f"`tests/bench/peers.py`. {page.machine()}"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--memray", metavar="ROOT", type=Path, help="a root file system with python3 and python3-memray")
    parser.add_argument("--dry", action="store_true", help="print, but leave docs as they are")
    parser.add_argument("--short", action="store_true", help="a round of some peers, to show that it runs; the figures mean nothing")
    options = parser.parse_args()
    options.settle, options.seconds, options.pages, options.rounds = (0.1, 0.4, 5000, 1) if options.short else (1.2, 5, 50000, options.rounds)
    peers = {name: peer for name, peer in PEERS.items() if not options.short or name in SHORT}
    absent = {**ABSENT, **{name: f"not measured: {peer.missing()}" for name, peer in peers.items() if peer.missing()}}
    rounds = {name: functools.partial(watched_round, peer) for name, peer in peers.items() if name not in absent}
    with tempfile.TemporaryDirectory(prefix="cowprof-bench-") as folder:
        here, there = Place(Path(folder)), Place(Path(folder), options.memray)
        if options.short or not options.memray and lacks_module("memray")():
            absent["memray"] = f"not measured: {'left out of --short' if options.short else lacks_module('memray')()}"
        results = {name: [] for name in [*rounds, *([] if "memray" in absent else ["memray"])]}
        for name, found in in_turns(options.rounds, results):
            found.append(rounds[name](here, options, Path(folder)) if name in rounds else memray_round(there, options, Path(folder)))
    text = text_of(results, absent, options)
    print(text)
    if not (options.dry or options.short):
        page.write_part("peers", text)


if __name__ == "__main__":
    main()
