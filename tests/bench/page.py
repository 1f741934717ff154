"""What the benchmarks that write into docs/measurements.md share: the machine, means with their errors, and the parts between their marks."""
import datetime
import os
import platform
import re
import statistics
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = REPOSITORY / "docs" / "measurements.md"
IMAGES = REPOSITORY / "docs" / "images"


def machine():
    """One sentence: day, kernel, processors, memory, and how busy it was."""
    cpu = re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text())
    gib = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    today = datetime.date.today()
    return (f"{today.day} {today:%b %Y}, Linux {platform.release().split('-')[0]}, {os.cpu_count()} × {cpu[1] if cpu else platform.machine()}, "
            f"{gib:.0f} GiB, load average {os.getloadavg()[2]:.1f} at the end.")


def mean_and_error(values):
    error = statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0.0
    return statistics.fmean(values), error


def digits_of(value):
    return 0 if value >= 100 else 1 if value >= 10 else 2 if value >= 0.1 else 3


def rounded(value):
    return f"{value:,.{digits_of(value)}f}"


def with_error(mean, error):
    return f"{rounded(mean)} ± {error:.{digits_of(mean)}f}"


def folded(title, text):
    """Text that a reader opens if he wants it."""
    return f"<details>\n<summary>{title}</summary>\n\n{text}\n\n</details>"


def write_part(mark, text):
    """Replaces what docs/measurements.md has between <!-- begin MARK --> and <!-- end MARK -->."""
    page = PAGE.read_text(encoding="utf-8")
    begin, end = f"<!-- begin {mark} -->\n", f"<!-- end {mark} -->\n"
    before, found, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    assert found and closed, f"{PAGE} has no part {mark}"
    PAGE.write_text(f"{before}{begin}{text.rstrip()}\n{end}{after}", encoding="utf-8")
