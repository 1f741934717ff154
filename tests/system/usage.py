"""What a process costs, read from /proc without cowprof: resident memory, CPU time, descriptors, and BPF map memory."""
import contextlib
import os
import re
import time
from pathlib import Path

import truth

KIB, MIB = 2**10, 2**20


def resident_bytes(pid):
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"^VmRSS:\s+(\d+) kB", status, re.M).group(1)) * KIB



def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def tree_cpu_seconds(pid):
    """CPU seconds of a process and its children, to the microsecond; of those that it has reaped, to a tick."""
    seconds = 0.0
    for one in truth.tree(pid):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            tasks = Path(f"/proc/{one}/task").iterdir()
            seconds += sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9
            reaped = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()[13:15]
            seconds += sum(map(int, reaped)) / os.sysconf("SC_CLK_TCK")
    return seconds


def tree_resident_bytes(pid):
    """Pages that they share count for each of them."""
    return sum(resident_bytes(one) for one in truth.tree(pid))


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def map_bytes(pid):
    """Memory of the BPF maps that the process holds open, as the kernel accounts it."""
    found = {}
    for info in Path(f"/proc/{pid}/fdinfo").iterdir():
        try:
            text = info.read_text()
        except FileNotFoundError:
            continue
        number = re.search(r"^map_id:\s*(\d+)$", text, re.M)
        if number:
            found[number.group(1)] = int(re.search(r"^memlock:\s*(\d+)$", text, re.M).group(1))
    return sum(found.values())


class Meter:
    """CPU time of a process relative to wall time."""

    def __init__(self, pid):
        self.pid = pid
        self.start()

    def start(self):
        self.began, self.cpu = time.monotonic(), cpu_seconds(self.pid)

    def share(self):
        """Share of one core used since start()."""
        return (cpu_seconds(self.pid) - self.cpu) / max(time.monotonic() - self.began, 0.001)


def crowding():
    """The factor by which wall-time bounds are multiplied on a loaded machine."""
    return max(1.0, os.getloadavg()[0] / os.cpu_count())
