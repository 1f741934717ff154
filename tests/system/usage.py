"""What a process costs, read from /proc without cowprof: resident memory, CPU time, descriptors, and BPF map memory."""
import os
import re
import time
from pathlib import Path

KIB, MIB = 2**10, 2**20


def resident_bytes(pid):
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"^VmRSS:\s+(\d+) kB", status, re.M).group(1)) * KIB



def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


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
