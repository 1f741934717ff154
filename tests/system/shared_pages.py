"""Drives the workload shared_pages as an ordinary user, and reads reports while it is being recorded."""
import json

import harness

PAGES = 8192  # 32 MiB, in whole huge pages
STRAY = 80  # pages that a process copies on its own: stack, libc, stdio


class Pages:
    """The workload shared_pages, run as an ordinary user."""

    def __init__(self, start_workload, mode, workers=1, pages=PAGES, **options):
        self.process = start_workload("shared_pages", f"--mode={mode}", f"--pages={pages}", f"--workers={workers}",
                                      **{**harness.AS_NOBODY, **options})
        self.process.await_line("role", "ready")
        self.pid, self.workers = self.process.pid, workers

    def _pids(self, role):
        return [line["pid"] for line in self.process.lines if line["role"] == role]

    def step(self, role, count):
        """Takes one step; returns the pids of all that printed `role`, once there are `count` of them."""
        self.process.go()
        harness.wait_until(lambda: len(self._pids(role)) >= count, f"{count} lines of role {role}")
        return self._pids(role)

    def fork(self, generation=1):
        return self.step("worker", generation * self.workers)[-self.workers:]

    def act(self, generation=1):
        self.step("acted", generation * (self.workers + 1))


def row_now(recording, pid):
    """The process's row in a report made now; None if it has none yet."""
    result = harness.run_cowprof("report", recording.path, "--json")
    rows = harness.rows_of(json.loads(result.stdout), pid) if result.returncode == 0 else []
    return rows[0] if rows else None


def await_sweep(recording, pids):
    for pid in pids:
        harness.wait_until(lambda: (row_now(recording, pid) or {}).get("page_map") is not None, f"a sweep of {pid}", pause=0.05)


def has_copied(recording, pid):
    return ((row_now(recording, pid) or {}).get("copies") or 0) >= PAGES
