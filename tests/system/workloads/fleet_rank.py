#!/usr/bin/python3
"""A rank that trains with a real DataLoader of two forked workers: fleet_rank.py FOLDER FATAL_RANK ITEMS.

Writes its pid into FOLDER/rank-N, waits until FOLDER/go exists, and reads all records. The workers of FATAL_RANK join the
memory cgroup whose folder is in GROUP, which is too small for what they copy.
"""
import os
import sys
import time
from pathlib import Path

from torch.utils.data import DataLoader, Dataset

FOLDER, FATAL = Path(sys.argv[1]), int(sys.argv[2])
RANK = int(os.environ.get("RANK") or os.environ["SLURM_PROCID"])


class Records(Dataset):
    def __init__(self, items):
        self.rows = [{"id": i, "name": f"record {i} " + "x" * 100} for i in range(items)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return len(self.rows[index]["name"])


def join_group(_worker):
    if RANK == FATAL:
        Path(os.environ["GROUP"], "cgroup.procs").write_text(str(os.getpid()), encoding="ascii")


def main():
    loader = DataLoader(Records(int(sys.argv[3])), batch_size=500, num_workers=2, worker_init_fn=join_group, multiprocessing_context="fork")
    FOLDER.joinpath(f"rank-{RANK}.part").write_text(str(os.getpid()), encoding="ascii")
    FOLDER.joinpath(f"rank-{RANK}.part").rename(FOLDER / f"rank-{RANK}")
    while not (FOLDER / "go").exists():
        time.sleep(0.02)
    for _ in range(2):
        sum(int(batch.sum()) for batch in loader)


if __name__ == "__main__":
    main()
