#!/usr/bin/python3
"""Makes the recordings of a job, and their page: fleet.py COWPROF FOLDER [RANKS].

Programs of a few seconds are really recorded, one of them with a worker that is killed. Each rank is a copy of one, with the
identity, the clock and the process of its own; a node has eight.
"""
import datetime
import json
import shutil
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import os, signal, sys, time
rows, killed, workers = [str(i) for i in range(int(sys.argv[1]))], sys.argv[2] == "killed", []
for worker in range(2):
    workers.append(os.fork())
    if workers[-1] == 0:
        for first in range(0, len(rows), len(rows) // 15):
            sum(map(len, rows[first:first + len(rows) // 15]))
            time.sleep(.1)
        os._exit(0)
if killed:
    time.sleep(1.2)
    os.kill(workers[1], signal.SIGKILL)
for worker in workers:
    os.waitpid(worker, 0)
sys.exit(killed)
"""
KINDS = {"small": ["120000", "lives"], "usual": ["240000", "lives"], "large": ["500000", "lives"], "killed": ["240000", "killed"]}


def record(cowprof, folder):
    """One document of each kind; recorded at the same time."""
    running = [subprocess.Popen([cowprof, "--quiet", "--interval", "50ms", "--output", folder / f"{kind}.json", "--",
                                 "/usr/bin/python3", "-c", PROGRAM, *arguments]) for kind, arguments in KINDS.items()]
    for process in running:
        process.wait()
    documents = {kind: json.loads((folder / f"{kind}.json").read_text()) for kind in KINDS}
    for kind in KINDS:
        (folder / f"{kind}.json").unlink()
    return documents


def as_rank(document, rank, ranks):
    """The recording as one of another rank, which began some milliseconds later."""
    document = json.loads(json.dumps(document))
    header = document["header"]
    header["identity"].update(rank=rank, world_size=ranks, job_id="job-7", source="torch", host=f"node-{rank // 8}",
                              boot_id=f"boot of node-{rank // 8}")
    next(record for record in document["records"] if record.get("index") == 0 and "pid" in record)["pid"] += 100 * rank
    later = rank * 37 % 400 / 1000  # seconds, by the wall clock and since the boot
    started = datetime.datetime.fromisoformat(header["started"][:26] + "+00:00")
    header["started"] = (started + datetime.timedelta(seconds=later)).isoformat()
    header["target"]["age_seconds"] += later
    return document


def main():
    cowprof, folder, ranks = sys.argv[1], Path(sys.argv[2]), int((sys.argv[3:] or ["64"])[0])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    documents = record(cowprof, folder)
    for rank in range(ranks):
        kind = {13: "killed", 40: "killed", 37: "large"}.get(rank, "small" if rank % 8 == 5 else "usual")
        (folder / f"rank-{rank}.json").write_text(json.dumps(as_rank(documents[kind], rank, ranks)))
    (folder / "notes.json").write_text("{}")
    subprocess.run([cowprof, "view", folder, "-o", f"{folder}.html"], check=True, stdout=subprocess.DEVNULL)
    report = subprocess.run([cowprof, "report", folder, "--json"], check=True, stdout=subprocess.PIPE, text=True)
    Path(f"{folder}.report.json").write_text(report.stdout)


if __name__ == "__main__":
    main()
