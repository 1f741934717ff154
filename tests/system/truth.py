"""The truth from /proc, read without cowprof: page frames, private memory, state, and the kernel objects that a process holds.

The tests compare cowprof's figures with these. Page frames need root.
"""
import array
import contextlib
import ctypes
import glob
import json
import mmap
import os
import re
import subprocess
from pathlib import Path

KERNEL = tuple(map(int, re.findall(r"\d+", os.uname().release)[:2]))
PRESENT = 1 << 63
FRAME = (1 << 55) - 1
FILE_OR_SHARED = 1 << 61


def private_bytes(pid):
    """Private_Clean + Private_Dirty + Private_Hugetlb of smaps_rollup."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return sum(int(kib) for kib in re.findall(r"^Private_\w+: +(\d+) kB", text, re.M)) * 1024


def private_clean_bytes(pid):
    """Private_Clean of smaps_rollup: mostly pages of files that no other process happens to map."""
    return int(re.search(r"^Private_Clean: +(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.M).group(1)) * 1024


def passing_bytes(pid):
    """What it had at its highest and has given back."""
    figures = dict(re.findall(r"^(VmHWM|VmRSS):\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.M))
    return (int(figures["VmHWM"]) - int(figures["VmRSS"])) * 1024


def anonymous_bytes(pid):
    """RssAnon: shared after a fork or not, of no file."""
    return int(re.search(r"^RssAnon:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.M).group(1)) * 1024


def shmem_bytes(pid):
    """RssShmem: of shared mappings without a file, memfd, System V, or a tmpfs."""
    return int(re.search(r"^RssShmem:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.M).group(1)) * 1024


def state(pid):
    """The state letter from /proc/PID/stat, or None if the process is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return None


def real_uid(pid):
    return int(re.search(r"^Uid:\s+(\d+)", Path(f"/proc/{pid}/status").read_text(), re.M).group(1))


def children(pid):
    """Direct child processes of all threads; processes and threads that exit meanwhile are skipped."""
    found = []
    for path in glob.glob(f"/proc/{pid}/task/*/children"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found += [int(child) for child in Path(path).read_text().split()]
    return found


def has_zero_page():
    """True if pages that were only read share one frame. Some kernels (a Firecracker guest's 6.18) give each its own."""
    with mmap.mmap(-1, 2 * mmap.PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as pages:
        assert pages[0] == pages[mmap.PAGESIZE] == 0
        held = ctypes.c_char.from_buffer(pages)
        first = ctypes.addressof(held) // mmap.PAGESIZE
        with open("/proc/self/pagemap", "rb", buffering=0) as pagemap:
            entries = array.array("Q", os.pread(pagemap.fileno(), 16, first * 8))
        del held
    return entries[0] & FRAME == entries[1] & FRAME


def tree(pid):
    return [pid] + [below for child in children(pid) for below in tree(child)]


def private_mappings(pid):
    """(begin, end) of each writable private mapping."""
    for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
        span, rights = line.split()[:2]
        if rights[1] == "w" and rights[3] == "p":
            begin, end = (int(number, 16) for number in span.split("-"))
            yield begin, end


def anonymous_frames(pid):
    """{page number: frame} of the anonymous pages in private mappings, except the zero page."""
    frames = {}
    zero = zero_frame()
    with open(f"/proc/{pid}/pagemap", "rb", buffering=0) as pagemap:
        for begin, end in private_mappings(pid):
            entries = array.array("Q", os.pread(pagemap.fileno(), (end - begin) // 4096 * 8, begin // 4096 * 8))
            for page, entry in enumerate(entries, begin // 4096):
                if entry & PRESENT and not entry & FILE_OR_SHARED and entry & FRAME != zero:
                    frames[page] = entry & FRAME
    return frames


def zero_frame():
    """The frame of the kernel's zero page, found by reading an untouched page."""
    import ctypes
    import mmap
    area = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    area[0]  # a read maps the zero page
    view = ctypes.c_char.from_buffer(area)
    with open("/proc/self/pagemap", "rb", buffering=0) as pagemap:
        entry = array.array("Q", os.pread(pagemap.fileno(), 8, ctypes.addressof(view) // 4096 * 8))[0]
    del view
    return entry & FRAME


def diverged(some_frames, other_frames):
    """Number of pages that both have in different frames: of a parent and its child, or of one process at two times."""
    return sum(1 for page, frame in other_frames.items() if some_frames.get(page, frame) != frame)


def kernel_objects(pid):
    """{(kind, id)} of the BPF programs, maps and links that a process holds open."""
    found = set()
    for info in Path(f"/proc/{pid}/fdinfo").iterdir():
        try:
            text = info.read_text()
        except FileNotFoundError:
            continue
        found |= {(kind, int(number)) for kind, number in re.findall(r"^(prog|map|link)_id:\s*(\d+)$", text, re.M)}
    return found


BPFTOOL = next((path for path in ("/usr/sbin/bpftool", "/sbin/bpftool", "/usr/bin/bpftool") if os.path.exists(path)), "bpftool")


def bpftool(*words):
    """The JSON that `bpftool --json WORDS` prints."""
    return json.loads(subprocess.run([BPFTOOL, "--json", *words], capture_output=True, text=True, check=True).stdout or "[]")


def living_kernel_objects():
    """{(kind, id)} of all BPF programs, maps and links on the machine."""
    return {(kind, thing["id"]) for kind in ("prog", "map", "link") for thing in bpftool(kind, "show")}


def probe_variables(pid):
    """{name: value} of the global variables of the probes loaded by process `pid`."""
    for kind, number in kernel_objects(pid):
        if kind == "map" and bpftool("map", "show", "id", str(number))["name"].endswith(".bss"):
            (dump,) = bpftool("map", "dump", "id", str(number))
            return {name: value for variable in dump["formatted"]["value"][".bss"] for name, value in variable.items()}
    return {}
