#!/usr/bin/python3
"""Makes a timeline of a million process samples from a real one, for the benchmarks of the page.

    million.py OUT.json [--recording FILE] [--processes 64] [--ticks 15625] [--epochs 2] [--pages 8000]

--recording is a cowprof recording of a DataLoader; without it one is made (needs root and torch). Every row is drawn with
replacement from the rows of a recorded worker: the increments of its counters between two ticks, and its levels relative to their
median. So a series has the steps, jitter and joint distribution of the real one, and compression can't profit from repetition.
Copies decrease with the remaining pages. Types, lines, causes and gaps between pages are the recorded ones, too.
"""
import argparse
import bisect
import itertools
import json
import random
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "system"))

COUNTERS = ["faults", "kernel_faults", "write_protect_faults", "copies", "kernel_copies", "zero_upgrades", "zero_fill_pages",
            "file_copies", "shm_pages", "swap_ins", "cpu_ms"]
LEVELS = ["file_pages", "shmem_pages", "swap_pages", "virtual_pages", "descriptors", "threads"]
SWEEP_EVERY = 300   # ticks between two sweeps of a worker
PLACE_WEIGHT = 16   # copies per sample of a copy site, about as recorded
SATURATION = 3.0    # an epoch leaves exp(-3) = 5 % of the pages uncopied


# ---- The recording from which everything is drawn ----

class Recorded:
    """Increments, levels, causes, copy sites and pages of the workers of a recording, and its header and names unchanged."""

    def __init__(self, path):
        lines = Path(path).read_text(encoding="utf-8").splitlines()
        self.header = json.loads(lines[0] + "]}")["header"]
        records = [json.loads(line.strip(",")) for line in lines[1:] if line not in ("]}", "")]
        samples = [record for record in records if record["type"] == "sample"]
        self.columns = self.header["columns"]["processes"]
        self.causes = len(self.header["columns"]["causes"]) - 1  # beside the index
        self.events = [record for record in records if record["type"] == "event"]
        self.names = {key: [row for sample in samples for row in sample.get(key, [])]
                      for key in ("new_limits", "frames", "new_places", "new_regions")}
        self.rollups = [row for sample in samples for row in sample.get("rollups", []) if row[0] == 0][:1]
        self.limits = [row for sample in samples for row in sample.get("limits", [])]
        self._read_rows(samples)
        self._read_places(samples)
        self._read_pages(samples)

    def _read_rows(self, samples):
        """The increments between consecutive rows of a process and its levels then, separately for target and workers."""
        rows, causes = defaultdict(list), defaultdict(list)
        for sample in samples:
            told = {row[0]: row[1:] for row in sample.get("causes", [])}
            for row in sample.get("processes", []):
                figures = dict(zip(self.columns, row))
                if figures["anon_pages"] is None:
                    continue
                rows[row[0]].append(figures)
                causes[row[0]].append(told.get(row[0]) or (causes[row[0]][-1] if causes[row[0]] else [0] * self.causes))
        self.steps = {0: [], 1: []}  # of the target; of workers
        self.firsts = {0: rows[0][0], 1: next(rows[index][0] for index in sorted(rows) if index > 0)}
        for index, figures in rows.items():
            middles = {name: sorted(row[name] for row in figures)[len(figures) // 2] for name in LEVELS}
            for at in range(1, len(figures)):
                rises = {name: figures[at][name] - figures[at - 1][name] for name in COUNTERS}
                levels = {name: figures[at][name] - middles[name] for name in LEVELS}
                by_cause = [now - then for now, then in zip(causes[index][at], causes[index][at - 1])]
                if min(rises.values()) >= 0 and min(by_cause) >= 0:
                    self.steps[min(index, 1)].append((rises, levels, by_cause))
        self.middles = middles

    def _read_places(self, samples):
        """Copy sites, weighted by their copies."""
        last = {}
        for sample in samples:
            for index, place, copies, _samples, _squares in sample.get("places", []):
                if index > 0:
                    last[index, place] = copies
        weights = Counter()
        for (_index, place), copies in last.items():
            weights[place] += copies
        self.places = list(weights)
        self.place_weights = list(itertools.accumulate(weights.values()))

    def _read_pages(self, samples):
        """The copied pages of each worker as (page, cause), unordered."""
        self.pages = defaultdict(dict)
        for sample in samples:
            for index, cause, page, lengths in sample.get("pages", []):
                for at, length in enumerate(lengths):
                    if index > 0 and at % 2 == 0:
                        self.pages[index].update((number, cause) for number in range(page, page + length))
                    page += length


# ---- One process of the new recording ----

class Process:
    """The cumulative counters of a process and the pages it has yet to copy."""

    def __init__(self, recorded, index, pages, rng):
        self.recorded, self.index, self.rng = recorded, index, rng
        self.kind = min(index, 1)
        self.counters = dict.fromkeys(COUNTERS, 0)
        self.causes = [0] * recorded.causes
        self.anon = recorded.firsts[self.kind]["anon_pages"]
        self.places = {}
        self.pages = pages  # [(page, cause)], shuffled
        self.all_pages = len(pages)
        self.unplaced = 0
        self.touched = Counter()  # region -> pages copied in it

    def tick(self, copying):
        """Draws a recorded step and returns the pages copied in it. `copying` is a share of the remaining pages."""
        rises, levels, by_cause = self.rng.choice(self.recorded.steps[self.kind])
        due = min(len(self.pages), int(copying * len(self.pages) * 2 * self.rng.random() + self.rng.random()))
        taken, self.pages = self.pages[:due], self.pages[due:]
        keep = due / max(1, sum(by_cause)) if self.kind else 1.0
        causes = [self._part(count * keep) for count in by_cause]
        copies = sum(causes)
        for at, count in enumerate(causes):
            self.causes[at] += count
        thinned = copies / max(1, rises["copies"]) if self.kind else 1.0
        for name in COUNTERS:
            followers = name in ("faults", "write_protect_faults", "copies", "kernel_copies")
            self.counters[name] += self._part(rises[name] * thinned) if followers else rises[name]
        self.counters["copies"] = sum(self.causes)
        self.unplaced += copies
        self.levels = levels
        return taken

    def _part(self, value):
        return int(value + self.rng.random())

    def row(self):
        middles = self.recorded.middles
        figures = {**self.counters, "anon_pages": self.anon + self.counters["zero_fill_pages"] % 97,
                   **{name: max(0, middles[name] + self.levels[name]) for name in LEVELS}}
        return [self.index, *(figures[name] for name in self.recorded.columns[1:])]

    def new_places(self):
        """Rows of copy sites for the copies since the last call, at the sampling rate."""
        rows = {}
        while self.unplaced >= PLACE_WEIGHT:
            recorded = self.recorded
            place = recorded.places[bisect.bisect(recorded.place_weights, self.rng.random() * recorded.place_weights[-1])]
            weight = self.rng.randrange(1, 2 * PLACE_WEIGHT)
            copies, samples, squares = self.places.get(place, (0, 0, 0))
            self.places[place] = (copies + weight, samples + 1, squares + weight * weight)
            rows[place] = [self.index, place, *self.places[place]]
            self.unplaced -= weight
        return list(rows.values())


def spread_pages(recorded, count, rng):
    """`count` pages to copy: those of a recorded worker, repeated at shifted addresses as often as necessary."""
    pages = list(recorded.pages[rng.choice(list(recorded.pages))].items())
    span = 1 << 17  # 512 MiB
    grown = [(page + nth * span, cause) for nth in range(-(-count // len(pages))) for page, cause in pages]
    rng.shuffle(grown)
    return grown[:count]


# ---- The timeline ----

def encode_pages(index, taken):
    """The timeline's encoding: [index, cause, first page, [pages, gap, pages, ...]]."""
    by_cause = defaultdict(list)
    for page, cause in taken:
        by_cause[cause].append(page)
    for cause, pages in by_cause.items():
        pages.sort()
        lengths = [1]
        for before, page in zip(pages, pages[1:]):
            if page == before + 1:
                lengths[-1] += 1
            elif page > before:
                lengths += [page - before - 1, 1]
        yield [index, cause, pages[0], lengths]


def dump(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


class Writer:
    """Writes records in a timeline's layout."""

    def __init__(self, out, header):
        self.out, self.first = out, True
        out.write('{"schema":"cowprof.timeline/1","header":' + dump(header) + ',"records":[')

    def add(self, record):
        self.out.write(("\n" if self.first else "\n,") + dump(record))
        self.first = False

    def close(self):
        self.out.write("\n]}\n")


def process_event(t, index, template, pid):
    event = {"t": round(t, 6), "type": "event", "event": "process", "index": index, "pid": pid,
             "start_ns": template["start_ns"] + int(t * 1e9), "parent": -1 if index == 0 else 0}
    event.update({"space": 0} if index else {}, origin="fork" if index else "target", comm=template["comm"],
                 command=template["command"])
    return event


def region_rows(process, regions):
    """The regions that a sweep finds changed: those with copies since the last one."""
    for region, copied in sorted(process.touched.items()):
        pages = regions[region][5] // 4096
        yield [process.index, region, min(copied, pages), max(0, pages - copied), min(copied, pages), max(0, pages - copied), 0]


def write_timeline(recorded, out, arguments):
    rng = random.Random(arguments.seed)
    writer = Writer(out, {**recorded.header, "interval_seconds": 1.0})
    template = next(event for event in recorded.events if event["event"] == "process")
    starts = sorted((row[4], number) for number, row in enumerate(recorded.names["new_regions"]))
    target = Process(recorded, 0, [], rng)
    epoch_ticks = -(-arguments.ticks // arguments.epochs)
    writer.add(process_event(0, 0, template, 4000))
    workers, next_index, rows_written = [], 1, 0
    next_pages = next_places = 0.0
    copied = defaultdict(list)  # index -> pages not yet in a record
    for tick in range(arguments.ticks):
        t = tick + rng.gauss(0.002, 0.001)
        if tick % epoch_ticks == 0:
            for worker in workers:
                writer.add({"t": round(t, 6), "type": "event", "event": "exit", "index": worker.index, "status": 0})
            ended, workers, forked = workers, [], tick
            for _ in range(arguments.processes - 1):
                workers.append(Process(recorded, next_index, spread_pages(recorded, arguments.pages, rng), rng))
                writer.add(process_event(t, next_index, template, 4000 + next_index))
                next_index += 1
        sample = {"t": round(t, 6), "type": "sample", "processes": [], "causes": []}
        sample.update({**recorded.names, "rollups": recorded.rollups} if tick == 0 else {})
        places, regions = [], []
        # The final counts of a process are in the sample with its exit.
        for process in (target, *(ended if tick % epoch_ticks == 0 else ()), *workers):
            taken = process.tick(SATURATION / epoch_ticks)
            sample["processes"].append(process.row())
            if taken or tick == 0:  # only rows that changed
                sample["causes"].append([process.index, *process.causes])
            if t >= next_places:
                places += process.new_places()
            copied[process.index] += taken
            for page, _cause in taken:
                at = bisect.bisect(starts, (page * 4096, len(starts))) - 1
                process.touched[starts[at][1]] += 1
            if process.index and (tick + process.index) % SWEEP_EVERY == 0:
                regions += region_rows(process, recorded.names["new_regions"])
                process.touched = Counter()
        # Pages and copy sites are written as rarely as by the recorder (userspace/recorder/collector.cc).
        pages = []
        if t >= next_pages:
            pages = [row for index, taken in copied.items() for row in encode_pages(index, taken)]
            copied.clear()
            next_pages = t + min(max((t - forked) / 20, 0.1), 30)
        if t >= next_places:
            next_places = t + min(max(t / 20, 0.5), 30)
        rows_written += len(sample["processes"])
        sample["limits"] = [rng.choice(recorded.limits)]
        sample.update({key: value for key, value in (("places", places), ("regions", regions), ("pages", pages)) if value})
        writer.add(sample)
    writer.add({"t": float(arguments.ticks), "type": "end", "reason": "target ended"})
    writer.close()
    return rows_written


def record_dataloader(path):
    """Records tests/system/dataloader.py with four workers."""
    import harness  # needs a build
    script = Path(__file__).resolve().parents[1] / "system" / "dataloader.py"
    command = ["--interval", "200ms", "--quiet", "--output", str(path), "--", harness.PYTHON, str(script), "--items=100000",
               "--workers=4", "--epochs=3", "--seconds=20"]
    subprocess.run([str(harness.COWPROF), *command], check=True, stdout=subprocess.DEVNULL)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("output")
    parser.add_argument("--recording", help="recording of a DataLoader (default: make one)")
    parser.add_argument("--processes", type=int, default=64, help="number of processes that live at a time")
    parser.add_argument("--ticks", type=int, default=15_625)
    parser.add_argument("--epochs", type=int, default=2, help="number of generations of workers")
    parser.add_argument("--pages", type=int, default=8000, help="pages that a worker can copy; about 8000 of each are recorded")
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def main():
    arguments = parse_arguments()
    with tempfile.TemporaryDirectory() as folder:
        path = arguments.recording or Path(folder) / "recording.json"
        if not arguments.recording:
            record_dataloader(path)
        recorded = Recorded(path)
    with open(arguments.output, "w", encoding="utf-8") as out:
        rows = write_timeline(recorded, out, arguments)
    print(f"{arguments.output}: {rows} process samples")


if __name__ == "__main__":
    main()
