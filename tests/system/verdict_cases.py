"""The programs whose verdict is tried, and what is true of each: one list for test_verdict.py and verdict_table.py.

A case is a function that plays a program (see verdict_run.py), with what the verdict must be. Where cowprof is wrong today, `known`
says why; the test fails as soon as it is right. HARMLESS are the programs about which there is nothing to say.
"""
import os
import re
import signal
import subprocess
from pathlib import Path

import chroots
import harness
import truth
import verdict_servers as servers
from memory_groups import in_small_shm
from verdict_run import ANY, LOADING, MIB, WORKLOADS, Case, Missing, Truth, line_of, living, mib

CASES = []
LOADER, POOL, APP, MEMORY, SHARED = "verdict_loader.py", "verdict_pool.py", "verdict_app.py", "worker_memory.py", "verdict_shared.py"
PACKAGES = {
    "gunicorn": "/usr/bin/gunicorn", "python3-setproctitle": "/usr/lib/python3/dist-packages/setproctitle", "celery": "/usr/bin/celery",
    "uwsgi-plugin-python3": "/usr/lib/uwsgi/plugins/python3_plugin.so",
    "redis-server": "/usr/bin/redis-server", "postgresql": "/usr/lib/postgresql", "puma": "/usr/bin/puma",
    "python3-joblib": "/usr/lib/python3/dist-packages/joblib", "python3-pandas": "/usr/lib/python3/dist-packages/pandas",
    "python3-h5py": "/usr/lib/python3/dist-packages/h5py", "python3-lmdb": "/usr/lib/python3/dist-packages/lmdb",
    "nodejs": "/usr/bin/node", "r-base-core": "/usr/bin/Rscript", "php-cli": "/usr/bin/php", "pypy3": "/usr/bin/pypy3",
    "python3-torch": "/usr/lib/python3/dist-packages/torch",
}
TORCH = r"DataLoader|num_workers|persistent_workers|worker_init_fn|prefetch_factor|torch|trainer"
PYTHON = rf"[Pp]ython|numpy|pickle|\bgc\b|Arrow|multiprocessing|data set|{TORCH}"
NOTHING = r"^Nothing to do"
READING = r"^Reading Python objects duplicated "


def case(name, row, first, sentence, says="", never="", packages=(), known=""):
    """Adds a case. `row`: the kind of program, or "harmless". `never`: what the text must not contain."""
    def add(play):
        CASES.append(Case(name, row, play, first, sentence, says, never, {name: PACKAGES[name] for name in packages}, known))
        return play
    return add


def at(script, mark, function="", via="", kind=""):
    """What names a line as the culprit."""
    return (rf"(about )?(9\d|100|8\d|7\d) % of it at {re.escape(script)}:{line_of(script, mark)} in {function}"
            rf"{', via ' + via if via else ''}.*{re.escape(f'({kind})') if kind else ''}")


# ---- DataLoaders ----


# What a forked worker copies without any data to read, and what a forked interpreter does. A part of it would be copied with the
# data anyway, so it is the width of what may be said of these.
OF_TORCH, OF_PYTHON = 12 * MIB, 3 * MIB
# Parts of the copies of small tensors that have other causes: their Python objects, and what malloc keeps beside them.
MIXED = 0.45


def moved_text(workers, moved):
    return f"{len(workers)} workers: {mib(moved)} in other page frames than the parent's"


def loader(kind, *options, copies=True, other=0.0):
    """A case that attaches to a loader before its workers start. `copies`: what is said of them is compared by page frames."""
    def play(run):
        run.python(LOADER, kind, "--start=fork", f"--folder={run.folder}", *options)
        return played(run, copies, other)
    return play


def played(run, copies, other=0.0, own=OF_TORCH):
    run.attach(run.process.pid)
    run.go_and_rest()
    run.look_at_rest()
    workers = run.workers()
    moved, private = run.copied(run.process.pid, workers), run.private(workers)
    if own == OF_TORCH:
        run.framework = "dataloader"
    text = f"{moved_text(workers, moved)}, {mib(private)} private"
    return Truth(text, (moved - own * len(workers) - other * moved, moved) if copies else None)


def loader_in(suite, kind, *options, copies=True, other=0.0):
    def play(run):
        chroot, reason = chroots.chroot(suite)
        if not chroot:
            raise Missing(f"Debian {suite}", reason)
        ready = run.start(*chroot.python(f"workloads/{LOADER}", kind, "--folder=/tmp", *options)).lines[0]
        said = played(run, copies, other)
        return Truth(f"torch {ready['torch']}, Python {ready['python']}; {said.text}", said.bytes)
    return play


def each_torch(name, row, kind, other=0.0, **verdict):
    """The same program with torch 1.13 and Python 3.11, and with those of Debian's newer suites."""
    copies = verdict["first"] != "clean"
    case(name, row, packages=["python3-torch"], **verdict)(loader(kind, copies=copies, other=other))
    for suite in chroots.SUITES:
        case(f"{name}, {suite}", row, **verdict)(loader_in(suite, kind, "--start=fork", copies=copies, other=other))


OBJECTS = "lists of Python objects"
each_torch("DataLoader, list of dicts", OBJECTS, "records", first="cow-refcount",
           sentence=READING + r".* of the trainer's memory in 2 workers; " + at(LOADER, "records", "Records.__getitem__"),
           says="class Packed")
each_torch("DataLoader, list of small tensors", "small tensors", "tensors", MIXED, first="torch-refcount",
           # torch.stack reads them, which torch itself calls.
           sentence=r"^Reading many small torch tensors duplicated .* in 2 workers; .* in torch's collate_tensor_fn "
           r"\(collate.py:\d+\) \(c10::\w+\), on what your Dataset returned",
           says=r"torch\.(stack|cat)", never=r"/= 255|really write")
each_torch("DataLoader, list of pickle.dumps()", "pickled bytes", "pickled", first="cow-refcount",
           sentence=READING + r".* in 2 workers; " + at(LOADER, "pickled", "Pickled.__getitem__", kind="bytes"),
           never="really write|[Ww]riting to memory")
each_torch("DataLoader, one tensor that workers really write", "small tensors (near miss)", "normalised", first="cow-data",
           sentence=r"^Writing to memory that the workers inherited duplicated .* in 2 workers; "
           + at(LOADER, "normalised", "Normalised.__getitem__"))
each_torch("DataLoader, one tensor", "harmless", "stacked", first="clean", sentence=NOTHING)
each_torch("DataLoader, one numpy array", "harmless", "array", first="clean", sentence=NOTHING)

case("DataLoader, DataFrame with a column of str", "pandas", "cow-refcount",
     READING + ".*; " + at(LOADER, "frame", "Frame.__getitem__", via="pandas"), says=r"class Rows",
     packages=["python3-torch", "python3-pandas"])(loader("frame"))
case("DataLoader, numpy array with dtype=object", "object array", "cow-refcount",
     READING + ".*; " + at(LOADER, "objects", "Objects.__getitem__"), says="dtype=object is an array of references",
     packages=["python3-torch"])(loader("objects"))
# HDF5 counts and caches in C structures of each handle, which do not count objects.
case("DataLoader, 12,000 h5py handles opened before the fork", "h5py", "cow-data",
     r"^Writing to memory that the workers inherited duplicated .*; " + at(LOADER, "handles", "Handles.__getitem__", via="h5py"),
     says=r"each worker opens it",
     packages=["python3-torch", "python3-h5py"])(loader("handles", copies=False))
case("DataLoader, nested items as COCO has them", OBJECTS, "cow-refcount",
     READING + ".*; " + at(LOADER, "annotations", "Annotations.__getitem__"), says="one dict per item(.*\n)*.*class Packed",
     packages=["python3-torch"])(loader("annotations"))

HARMLESS_LOADERS = [
    ("memmap in each worker", "memmap", [], ()), ("lmdb in each worker", "lmdb", [], ["python3-lmdb"]),
    ("h5py in each worker", "hdf5", [], ["python3-h5py"]), ("DataFrame of numbers", "numbers", [], ["python3-pandas"]),
    ("items made on the fly", "images", [], ()), ("nothing", "nothing", [], ()),
    ("one numpy array, 4 epochs of new workers", "array", ["--epochs=4"], ()),
]
for title, its_kind, its_options, its_packages in HARMLESS_LOADERS:
    case(f"DataLoader, {title}", "harmless", "file-backed" if its_kind in ("memmap", "lmdb") else "clean", NOTHING,
         packages=["python3-torch", *its_packages])(loader(its_kind, *its_options, copies=False))


@case("DataLoader, nothing, forkserver (Python 3.14's default)", "harmless", "clean", NOTHING)
def forkserver_nothing(run):
    return loader_in("sid", "nothing", "--start=default", copies=False)(run)


@case("DataLoader, list of dicts, forkserver (Python 3.14's default)", "forkserver", "private-by-spawn",
      r"^The forkserver start method gave each worker its own copy of what was pickled.* in 2 workers",
      never=r"importlib._bootstrap")
def forkserver_records(run):
    return loader_in("sid", "records", "--start=default", "--items=250000", copies=False)(run)


@case("DataLoader, list of dicts, forkserver, 3 epochs of new workers", "forkserver", "private-by-spawn",
      r"^The forkserver start method gave each worker its own copy of what was pickled.* in 6 workers, 2 at a time")
def forkserver_epochs(run):
    return loader_in("sid", "records", "--start=default", "--items=120000", "--epochs=3", copies=False)(run)


@case("trainer that leaks, and its healthy workers", "leak in the trainer", "trainer-growth",
      r"^The trainer itself keeps growing by new memory, unlike its workers: it allocated .* MiB per second", packages=["python3-torch"])
def trainer_leaks(run):
    run.python(LOADER, "array", "--start=fork", "--leak=10")
    run.attach(run.process.pid)
    before = truth.anonymous_bytes(run.process.pid)
    run.go_and_rest(seconds=0.2)
    run.framework = "dataloader"
    return Truth(f"the trainer's anonymous memory rose by {mib(truth.anonymous_bytes(run.process.pid) - before)} in 15 s")


# ---- Ranks, launchers, shims ----


@case("a launcher, 2 ranks with 2 workers each, 2 epochs", "ranks", "cow-refcount",
      READING + r".*(2 ranks.*2 (workers )?(at a time|each)|2 workers.*(in each|of each|a rank).*)", packages=["python3-torch"])
def launched(run):
    done = run.record(harness.PYTHON, WORKLOADS / "verdict_launcher.py", 2, WORKLOADS / LOADER, "records", "--epochs=2", "--no-wait",
                      "--items=60000", "--seconds=1")
    assert done.returncode == 0, done.stderr
    run.framework = "dataloader"
    return Truth("planted: a launcher, 2 ranks; each has 2 workers at a time, and 4 in all")


@case("a shell script that starts others before it starts Python", "shim", "cow-refcount", READING + ".*in 2 workers",
      packages=["python3-torch"])
def shim(run):
    script = run.folder / "train.sh"
    script.write_text("#!/bin/bash\nfor i in $(seq 20); do x=$(echo $i | cat); (true); done\n"
                      f"{harness.PYTHON} {WORKLOADS / LOADER} records --no-wait --seconds=2\nexit $?\n")
    run.record("bash", script)
    run.framework = "dataloader"
    return Truth("planted: 2 workers; 60 short-lived subshells and cats")


@case("a shell that becomes Python after it has run others", "shim", "cow-refcount", READING + ".*in 2 workers",
      packages=["python3-torch"])
def becomes_python(run):
    script = run.folder / "train.sh"
    script.write_text(f"#!/bin/bash\nx=$(echo 1 | cat)\nexec {harness.PYTHON} {WORKLOADS / LOADER} records --no-wait --seconds=2\n")
    run.record("bash", script)
    run.framework, run.workers_started = "dataloader", 2
    return Truth("planted: 2 workers; 1 subshell and 1 cat before them")


@case("a shim like that of pyenv", "shim", "cow-refcount", READING + ".*in 2 workers", packages=["python3-torch"])
def pyenv(run):
    shim, tool = run.folder / "python3", run.folder / "pyenv"
    shim.write_text(f"#!/usr/bin/env bash\nset -e\nprogram=\"${{0##*/}}\"\nexec {tool} exec \"$program\" \"$@\"\n")
    tool.write_text("#!/usr/bin/env bash\nset -e\nversion() { echo \"$(echo 3 | cat)\"; }\n"
                    "for i in 1 2 3 4; do x=\"$(version)\"; (cd / && pwd) >/dev/null; done\nshift 2\n"
                    f"exec {harness.PYTHON} \"$@\"\n")
    for script in shim, tool:
        script.chmod(0o755)
    run.record(shim, WORKLOADS / LOADER, "records", "--no-wait", "--seconds=2")
    run.framework, run.workers_started = "dataloader", 2
    return Truth("planted: 2 workers; 12 subshells and 4 cats before them")


# ---- Workers that end badly, leaks ----


def worker_memory(shape, method, text):
    def play(run):
        run.record(harness.PYTHON, WORKLOADS / MEMORY, shape, method, run.folder)
        return Truth(text)
    return play


case("leak in workers", "leak", "new-memory-growth", r"(?i)leak in the workers.*MiB per second", never=TORCH)(
    worker_memory("leak", "fork", "planted: 40 MiB in each of 2 workers, in 4 s"))
TOUCHED = r".*; about \d+ % of it first touched at worker_memory\.py:\d+ in touched; no lasting growth"
case("cache that fills", "harmless", "clean", NOTHING + TOUCHED)(
    worker_memory("cache_that_fills", "fork", "planted: 48 MiB at most in each of 2 workers, reached ever more slowly"))
case("workers that allocate and free (sawtooth)", "harmless", "clean", NOTHING)(
    worker_memory("allocates_and_frees", "fork", "planted: 8 MiB allocated and freed, 10 times a second"))
case("workers that allocate at their start (step)", "harmless", "clean", NOTHING + TOUCHED)(
    worker_memory("start_up", "fork", "planted: 50 MiB at once in each of 2 workers"))
case("workers that read a numpy.memmap", "harmless", "file-backed", NOTHING)(
    worker_memory("memmap_read", "fork", "planted: 96 MiB of a mapped file in each of 2 workers"))
case("workers that change a numpy.memmap(mode=\"c\")", "mapped files", "cow-data",
     r"^Writing to private mappings of files .* copied .* of their pages in 2 workers; .* worker_memory\.py:\d+ in \S*step",
     never="inherited|leak|the parent's memory")(
    worker_memory("memmap_changed_privately", "fork", "planted: 96 MiB of a mapped file in each of 2 workers"))


# What three workers hold of the arguments: texts() of verdict_pool.py, in pymalloc's blocks, and the list. While they are
# unpickled, their pickle is there, too.
SENT, PICKLE = 3 * 250_000 * (256 + 8), 3 * 250_000 * 203


def pool(kind, copies=False, sent=False):
    def play(run):
        run.python(POOL, kind)
        name = kind.partition("_")[0]
        run.framework = name if name in ("pool", "executor", "joblib") else None
        said = played(run, copies, own=OF_PYTHON)
        # What was received is told from some forty samples of stacks a worker.
        return Truth(f"planted: {mib(SENT)} in 3 workers at once; {said.text}", (0.9 * SENT, SENT + PICKLE)) if sent else said
    return play


@case("leak in workers after their copies have ended", "leak after copies", "new-memory-growth",
      r"(?i)leak in the workers.*MiB per second; .* full in (about )?\d+", never=TORCH)
def leak_after_copies(run):
    run.python(POOL, "leak_after_copies")
    run.attach(run.process.pid)
    run.process.go()
    run.process.await_line("event", "read", LOADING)
    harness.wait_until(lambda: sum(line.get("event") == "worked" for line in run.process.lines) == 2, "the end of the leaks", LOADING)
    return Truth(f"{mib(run.private(run.workers()))} private to 2 workers; planted: 1.2 GiB leaked by each at up to 100 MiB/s, after copies")


@case("bounded cache after copies", "leak after copies (near miss)", "cow-refcount", READING, never=rf"(?i)leak|{TORCH}")
def bounded_after_copies(run):
    run.python(POOL, "bounded_cache_after_copies")
    run.attach(run.process.pid)
    run.process.go()
    harness.wait_until(lambda: sum(line.get("event") == "worked" for line in run.process.lines) == 2, "full caches", LOADING)
    run.rest()
    return Truth(f"{mib(run.copied(run.process.pid, run.workers()))} in other frames; planted: caches that end at 48 MiB")


def slow_leak(kind):
    def play(run):
        run.python(POOL, kind)
        run.attach(run.process.pid)
        run.process.go()
        harness.wait_until(lambda: sum(line.get("event") == "worked" for line in run.process.lines) == 2, "the end of the leaks", LOADING)
        workers = run.workers()
        moved, private = run.copied(run.process.pid, workers), run.private(workers)
        return Truth(f"{mib(private)} private to 2 workers, {mib(moved)} of it in other frames than the parent's; planted: 72 MiB leaked")
    return play


case("slow leak in workers, which owns more of the peak than their copies", "leak after copies", "new-memory-growth",
     r"(?i)leak in the workers.*MiB per second", never=TORCH)(slow_leak("leak_above_copies"))
case("slow leak in workers, which owns less of the peak than their copies", "leak after copies (near miss)", "cow-refcount", READING,
     says="new-memory-growth: A leak in the workers", never=TORCH)(slow_leak("leak_below_copies"))

ENDED = r"^11 of 34 workers ended badly: worker \d+ was killed by SIGSEGV"
for its_kind, words in ("ends_badly", ""), ("ends_badly_and_copies", ", after all have copied"):
    @case(f"34 workers, 11 end badly{words}", "deaths first", ANY, ENDED)
    def ends_badly(run, which=its_kind):
        run.python(POOL, which)
        run.attach(run.process.pid)
        run.go_and_rest()
        return Truth("planted: 6 ends by SIGSEGV, 5 by status 3, of 34")


@case("the whole run is killed, batches in /dev/shm (file_system)", "leaked segments", ANY,
      r"^The trainer \d+ was killed by SIGKILL from |that no living process maps or holds", packages=["python3-torch"])
def killed(run):
    command = in_small_shm([harness.PYTHON, WORKLOADS / LOADER, "images", "--sharing=file_system", "--batch-size=256",
                            "--workers=4", "--items=60000", "--epochs=9"], megabytes=1024)
    run.start(*command)
    run.attach(run.process.pid)
    run.process.go()
    mount = harness.inside(run.process.pid, "dev/shm")
    used = lambda: (os.statvfs(mount).f_blocks - os.statvfs(mount).f_bfree) * os.statvfs(mount).f_bsize  # noqa: E731
    harness.wait_until(lambda: used() > 10 * MIB, "a batch in shared memory", LOADING)
    os.kill(run.process.pid, signal.SIGSTOP)  # the workers fill what they may prefetch
    harness.wait_until(lambda: used() > 120 * MIB, "batches in shared memory", LOADING)
    # A process of the same mount namespace keeps the mount, and the view of it.
    keeper = subprocess.Popen(["nsenter", "-m", "-t", str(run.process.pid), "sleep", "60"])
    run.stack.callback(keeper.kill)
    mount = harness.inside(keeper.pid, "dev/shm")
    harness.wait_until(lambda: Path(f"/proc/{keeper.pid}/comm").read_text() == "sleep\n", "the keeper")
    for pid in truth.tree(run.process.pid):
        os.kill(pid, signal.SIGSTOP)
    for pid in truth.tree(run.process.pid):
        os.kill(pid, signal.SIGKILL)
    for folder in Path("/proc").glob("[0-9]*"):  # torch's own, which would remove them
        try:
            if (folder / "comm").read_text() == "torch_shm_manag\n" and os.readlink(folder / "ns/mnt") == os.readlink(
                    f"/proc/{keeper.pid}/ns/mnt"):
                os.kill(int(folder.name), signal.SIGKILL)
        except OSError:
            pass
    run.recording.wait()
    left = used()
    run.framework = "dataloader"
    # A segment may be too small to rule out that an unreadable process of the host has it.
    figures = "|".join(f"{tenth / 10:.1f}" for tenth in range(int(9 * left / MIB), int(10 * left / MIB) + 2))
    run.says = rf"({figures}) MiB of /dev/shm is taken by \d+ segments that no living process maps or holds"
    return Truth(f"{left / MIB:.1f} MiB are left in /dev/shm by nobody")


# ---- Pools ----

UNSEEN = rf"no worker was forked|{TORCH}"
ARGUMENTS = r"(?i)^.*pickled.*to .*3 workers"
case("multiprocessing.Pool with 50 MiB of arguments", "pool arguments", "pickled-arguments", ARGUMENTS, says="work_on",
     never=rf"{TORCH}|leave the data set alone")(pool("pool_arguments", sent=True))
case("ProcessPoolExecutor with 50 MiB of arguments", "pool arguments", "pickled-arguments", ARGUMENTS, says="ProcessPoolExecutor",
     never=rf"{TORCH}|leave the data set alone")(pool("executor_arguments", sent=True))
case("joblib with 50 MiB of arguments", "joblib", "pickled-arguments", ARGUMENTS, says=r"joblib\.dump", never=TORCH,
     packages=["python3-joblib"])(pool("joblib_objects", sent=True))
case("multiprocessing.Pool that is sent indices, over a list of str", "pool arguments (near miss)", "cow-refcount",
     READING + r".*in 3 workers; " + at(POOL, "read", "", kind="str"), says="class Packed", never=TORCH)(pool("pool_indices", True))
case("joblib with arrays, which it maps", "harmless", "clean", NOTHING, packages=["python3-joblib"], never=UNSEEN)(pool("joblib_arrays"))
for its_kind, title in [("pool_nothing", "multiprocessing.Pool over nothing"), ("executor_nothing", "ProcessPoolExecutor over nothing"),
                        ("pool_array", "multiprocessing.Pool over a numpy array"), ("step", "one process, 100 MiB at once"),
                        ("sawtooth", "one process, 60 MiB up and down"), ("commands", "one process that runs other programs")]:
    case(title, "harmless", "clean", NOTHING, never=TORCH)(pool(its_kind))
case("joblib over nothing", "harmless", "clean", NOTHING, packages=["python3-joblib"], never=UNSEEN)(pool("joblib_nothing"))


# ---- Attached late ----


@case("attach after 3 workers have copied", "late attach", "before-attach",
      r"^Before cowprof attached, 3 workers already had \d", says=r"cowprof (\S+ )*-- |[Rr]ecord from the (start|first)", never=TORCH)
def attached_late(run):
    run.python(POOL, "workers_read")
    run.process.popen.stdin.write("work\n")
    run.process.popen.stdin.flush()
    harness.wait_until(lambda: sum(line.get("event") == "worked" for line in run.process.lines) == 3, "the reads", LOADING)
    run.attach(run.process.pid)
    run.rest(3)
    private = run.private(run.workers())
    return Truth(f"{mib(private)} private to 3 workers at the attach and after", (private, private))


def work(run):
    """Lets the workers read, and waits until all have."""
    reads = len(run.process.lines) + 3
    run.process.popen.stdin.write("work\n")
    run.process.popen.stdin.flush()
    harness.wait_until(lambda: len(run.process.lines) == reads, "the reads", LOADING)


@case("attach after 3 workers have copied, which then go on", "late attach", "before-attach",
      r"^Before cowprof attached, 3 workers already had \d.*; since then reading Python objects duplicated .*in 3 workers; "
      + at(POOL, "workers_read_twice", kind="str"), says=r"class Packed", never=TORCH)
def attached_between(run):
    run.python(POOL, "workers_read_twice")
    work(run)
    private = run.private(run.workers())
    run.attach(run.process.pid)
    run.rest()
    work(run)
    run.rest()
    return Truth(f"{mib(private)} private to 3 workers at the attach, {mib(run.private(run.workers()))} at the end", (private, private))


def started(kind, method):
    def play(run):
        run.python(POOL, kind)
        run.attach(run.process.pid)
        run.rest(3)
        holders = [line["pid"] for line in run.process.lines if line.get("event") == "holds"]
        private = run.private(holders)
        return Truth(f"{mib(private)} private to 2 workers at the attach; planted: {method}, 50 MiB sent to each")
    return play


for its_kind, method in ("spawned", "spawn"), ("served", "forkserver"):
    case(f"attach to 2 workers that {method} has started", "late attach", "private-by-spawn",
         rf"^The {method} start method shares none of the program's memory: when cowprof attached, 2 workers already had [5-9]\d\.\d MiB each",
         never="can't be (told|said)|DataLoader")(started(its_kind, method))


@case("attach before 3 workers copy, which were there already", "late attach (near miss)", "cow-refcount",
      READING + ".*in 3 workers; " + at(POOL, "workers_read", kind="str"), never=TORCH)
def attached_before(run):
    run.python(POOL, "workers_read")
    run.attach(run.process.pid)
    run.rest()
    run.process.popen.stdin.write("work\n")
    run.process.popen.stdin.flush()
    harness.wait_until(lambda: sum(line.get("event") == "worked" for line in run.process.lines) == 3, "the reads", LOADING)
    run.rest()
    moved = run.copied(run.process.pid, run.workers())
    return Truth(f"{mib(moved)} in other page frames than the parent's", (moved - 3 * OF_PYTHON, moved))


@case("attach to idle workers that share what they should", "harmless", "clean", NOTHING, never=TORCH)
def attached_idle(run):
    run.python(POOL, "workers_read")
    run.attach(run.process.pid)
    run.rest(3)
    return Truth(f"{mib(run.private(run.workers()))} private to 3 workers")


# ---- Not the process that was meant ----

BELOW = r" Python runs below it: \d+ \(\S*python3 \S*verdict_pool\.py idle\), \d+ \(\S*python3 \S*verdict_pool\.py idle\)\.$"


def above_idle(*command):
    """Attaches to what started two idle Python scripts."""
    def play(run):
        run.start(*command)
        harness.wait_until(lambda: len(run.process.lines) == 2, "both scripts", LOADING)
        run.attach(run.process.pid)
        run.rest(3)
        return Truth("planted: two Python scripts below it, idle")
    return play


IDLE = f"{harness.PYTHON} {WORKLOADS / POOL} idle"
case("attach to a shell above two Python scripts", "harmless", "clean", rf"{NOTHING}.* It is bash, not Python\.{BELOW}", never=TORCH)(
    above_idle("bash", "-c", f"{IDLE} < <(sleep 600) & {IDLE} < <(sleep 600) & wait"))
case("attach to node above two Python scripts", "harmless", "clean", rf"{NOTHING}.* It is \S+, not Python\.{BELOW}", never=TORCH,
     packages=["nodejs"])(
    above_idle("node", "-e", "for (let i = 0; i < 2; i++) require('child_process').spawn(process.argv[1], process.argv.slice(2), "
               "{stdio: ['pipe', 'inherit', 'ignore']})", *IDLE.split()))
case("attach to a Python launcher above two Python scripts", "harmless", "clean", rf"{NOTHING}.* s\.{BELOW}", never=TORCH)(
    above_idle(harness.PYTHON, WORKLOADS / POOL, "launcher"))


# ---- Servers ----

SERVER = ["gunicorn", "python3-setproctitle"]
OF_SERVER = 6 * MIB  # copied by a worker that only answers


def server(start, work, parts, says_figure=True):
    """Attaches to a server that is up, and lets its workers work."""
    def play(run):
        pid, ask = start(run, parts)
        workers = truth.children(pid)
        run.attach(pid)
        run.rest()
        ask(work)
        run.rest()
        workers = living(workers)
        moved = run.copied(pid, workers)
        run.framework = {servers.gunicorn: "gunicorn", servers.celery: "celery", servers.puma: "native"}.get(start)
        run.configured = servers.WORKERS if start in (servers.gunicorn, servers.celery) else None
        return Truth(moved_text(workers, moved), (moved - OF_SERVER * len(workers), moved) if says_figure and abs(parts) > 10_000 else None)
    return play


case("gunicorn with setproctitle, attach to the running server", "prefork servers", "cow-refcount",
     READING + ".*in 3 workers; " + at(APP, "app", kind="str"), says="class Packed", never=TORCH, packages=SERVER)(
         server(servers.gunicorn, "/read", 250_000))
COLLECTOR = r"^Python's cycle collector ran in the workers, wrote to the headers .*in 3 workers; "
case("gunicorn, the collector runs in the workers", "prefork servers", "cow-gc-header", COLLECTOR + at(APP, "collect", "app"),
     says="def when_ready", never=TORCH, packages=SERVER)(server(servers.gunicorn, "/collect", -600_000))
case("Celery, the collector runs in the workers", "prefork servers", "cow-gc-header", COLLECTOR + at(APP, "task", "work"),
     says="worker_init.connect", never=TORCH, packages=["celery"])(server(servers.celery, "/collect", -600_000))
case("gunicorn with setproctitle, workers that only answer", "harmless", "clean", NOTHING, never=TORCH, packages=SERVER)(
    server(servers.gunicorn, "/", 100))
case("Celery prefork with setproctitle, attach to the running worker", "prefork servers", "cow-refcount",
     READING + ".*in 3 workers; " + at(APP, "app", kind="str"), says="class Packed", never=TORCH,
     packages=["celery", "python3-setproctitle"])(server(servers.celery, "/read", 250_000))
case("Celery prefork, tasks that do nothing", "harmless", "clean", NOTHING, never=TORCH, packages=["celery"])(
    server(servers.celery, "/", 100))
case("uWSGI, attach to the running server", "prefork servers", "cow-refcount",
     READING + ".*in 3 workers; " + at(APP, "app", kind="str"), says="class Packed", never=TORCH, packages=["uwsgi-plugin-python3"])(
         server(servers.uwsgi, "/read", 250_000))
case("uWSGI, the collector runs in the workers", "prefork servers", "cow-gc-header", COLLECTOR + at(APP, "collect", "app"),
     says="gc.freeze", never=rf"{TORCH}|when_ready|worker_init", packages=["uwsgi-plugin-python3"])(
         server(servers.uwsgi, "/collect", -600_000))
case("uWSGI, workers that only answer", "harmless", "clean", NOTHING, never=TORCH, packages=["uwsgi-plugin-python3"])(
    server(servers.uwsgi, "/", 100))
case("puma, attach to the running cluster, Ruby's collector in 2 workers", "prefork servers", "cow-data",
     r"^Writing to memory that the workers inherited duplicated .*in 2 workers; (about )?(9\d|100) % of it in Ruby's own code "
     r"\(\S+\); why they copied another \d+\.\d MiB is unknown\.$", says="what to do\n +> Ruby's garbage collector writes",
     never=PYTHON, packages=["puma"])(
         server(servers.puma, "/collect", 600_000))
case("puma, Ruby's collector in 2 workers, after it ran four times in the parent", "harmless", "clean", NOTHING, never=PYTHON,
     packages=["puma"])(server(servers.puma, "/collect", -600_000, says_figure=False))
case("puma, workers that only answer", "harmless", "clean", NOTHING, never=PYTHON, packages=["puma"])(server(servers.puma, "/", 100))


@case("redis-server, BGSAVE while clients write", "redis, postgres", "parent-unshare",
      r"^(?!.*trainer).*(parent|redis-server).* itself duplicated ", never=PYTHON, packages=["redis-server"])
def redis_writes(run):
    one = servers.Redis(run, values=100_000, size=1000)
    run.framework = "native"
    run.attach(one.pid)
    child = one.save_slowly()
    one.send(*([b"SETRANGE", b"key:%d" % i, b"0", b"y"] for i in range(0, one.values, 2)))
    run.rest(1)
    moved = run.copied(one.pid, [child])
    one.await_saved()
    run.rest()
    return Truth(f"{mib(moved)} in other page frames than the child's while it saved", (moved, moved))


@case("redis-server, BGSAVE while nobody writes", "harmless", "clean", NOTHING, never=PYTHON, packages=["redis-server"])
def redis_quiet(run):
    one = servers.Redis(run, values=100_000, size=1000)
    run.framework = "native"
    run.attach(one.pid)
    one.save_slowly()
    one.await_saved()
    run.rest()
    return Truth("nothing was written while the child saved")


@case("PostgreSQL, a backend that sorts in memory and gives it back", "redis, postgres", "clean",
      NOTHING + r".* at most \d+\.\d MiB of new memory of their own; no lasting growth of it was seen", never=PYTHON, packages=["postgresql"])
def postgres_sorts(run):
    one = servers.Postgres(run)
    run.framework = "native"
    run.attach(one.pid)
    run.rest(1)
    most, last = one.large_sort()
    run.rest()
    return Truth(f"one backend had {mib(most)} of anonymous memory, {mib(last)} at its end", (0.85 * most, most))  # it is looked at every 200 ms


@case("PostgreSQL, small queries", "harmless", "clean", NOTHING, never=PYTHON, packages=["postgresql"])
def postgres_quiet(run):
    one = servers.Postgres(run)
    run.framework = "native"
    run.attach(one.pid)
    for _ in range(10):
        one.query("SELECT 1")
    run.rest()
    return Truth("10 backends that ran a query")


# ---- Other languages, whose runtimes write to what is only read ----


def runtime(*command, ends=False, says_figure=True):
    """A program that forks 4 workers, each of which prints "worked". `ends`: and which end then."""
    def play(run):
        run.start(*command)
        run.framework = "native"
        run.attach(run.process.pid)
        run.process.go()
        harness.wait_until(lambda: sum(line.get("event") == "worked" for line in run.process.lines) == 4, "the reads", LOADING)
        if ends:
            harness.wait_until(lambda: not run.workers(), "the workers' end", LOADING)
        run.rest()
        if ends:
            return Truth("4 workers have ended")
        workers = run.workers()
        moved = run.copied(run.process.pid, workers)
        return Truth(moved_text(workers, moved), (moved, moved) if says_figure else None)
    return play


def wrote(name, code):
    return rf"^Writing to memory that the workers inherited duplicated .* in 4 workers; (about )?([5-9]\d|100) % of it in {name}'s own code \({code}\)\.$"


PERL, R, PHP = (["/usr/bin/perl", WORKLOADS / "verdict_runtime.pl"], ["/usr/bin/Rscript", WORKLOADS / "verdict_runtime.R"],
                ["/usr/bin/php", WORKLOADS / "verdict_runtime.php"])


# The nursery's default is half of the last-level cache, and workers copy the one that they inherit.
def pypy(nursery):
    return ["/usr/bin/env", f"PYPY_GC_NURSERY={nursery}", "/usr/bin/pypy3", WORKLOADS / "verdict_pypy.py"]


RUNTIMES = "other languages"
case("Perl, 4 forked workers use texts as numbers", RUNTIMES, "cow-data", wrote("Perl", r"Perl_sv_\w+"),
     says=r"what to do\n +> Perl keeps the number in a string that is used as one", never=PYTHON)(runtime(*PERL, "reads"))
case("Perl, 4 forked workers end with exit", RUNTIMES, "cow-data", wrote("Perl", r"\w+"),
     says=r"> A worker that ends with exit", never=PYTHON)(runtime(*PERL, "exits", ends=True))
case("Perl, the parent has used the texts as numbers", "harmless", "clean", NOTHING, never=PYTHON)(
    runtime(*PERL, "used", says_figure=False))
case("Perl, so it has, and its workers end with POSIX::_exit", "harmless", "clean", NOTHING, never=PYTHON)(
    runtime(*PERL, "leaves", ends=True))
case("R, mcparallel over a list of lists", RUNTIMES, "cow-data", wrote("R", r"libR\.so"), says="what to do\n +> R's garbage collector marks",
     never=rf"[Pp]ython|numpy|pickle|{TORCH}", packages=["r-base-core"])(runtime(*R, "lists"))
case("R, mcparallel over numbers", RUNTIMES, "cow-data", wrote("R", r"libR\.so"), packages=["r-base-core"])(runtime(*R, "numbers"))
case("PHP, 4 forked workers read arrays", RUNTIMES, "cow-data", wrote("PHP", r"\S+"), says="what to do\n +> PHP counts references",
     never=PYTHON, packages=["php-cli"])(runtime(*PHP, "arrays"))
case("PHP, the rows are one text", "harmless", "clean", NOTHING, never=PYTHON, packages=["php-cli"])(
    runtime(*PHP, "text", says_figure=False))
case("PyPy, 4 forked workers collect garbage", RUNTIMES, "cow-data", wrote("PyPy", r"libpypy\S+"),
     says="what to do\n +> PyPy marks each object", never=rf"numpy|pickle|{TORCH}", packages=["pypy3"])(runtime(*pypy("4M"), "collects"))
# What they allocate is several times what they copy, and comes first.
case("PyPy, the parent has collected, and the workers do not", RUNTIMES, "cow-data",
     r"^Each of 4 workers had .* of new memory of its own, .*\. Writing to memory that the workers inherited",
     never=rf"numpy|pickle|{TORCH}", packages=["pypy3"])(runtime(*pypy("16M"), "frozen", says_figure=False))


# ---- Shared memory that is released, locked or read by others than workers; processes that grow ----


def shared(kind, text, *before):
    def play(run):
        run.record(*before, harness.PYTHON, WORKLOADS / SHARED, kind)
        return Truth(text)
    return play


RELEASED, OTHERS = "released or locked", "others than workers"
FREED = r"^[23] workers copied .* of inherited memory: (about )?\d+ % released objects.*; "
case("forked children end with sys.exit()", RELEASED, None, FREED + r"no Python code ran then, as at the interpreter's exit, .*os\._exit\(\)",
     never=TORCH)(shared("exits", "planted: 400,000 str, which 3 children inherit and do not touch until they end"))
case("workers clear() the list that they inherited", RELEASED, None,
     FREED + at(SHARED, "clears", "clear") + r".* Releasing inherited objects gives nothing back", never=TORCH)(
         shared("clears", "planted: 2 workers clear a list of 400,000 str"))
case("forked children read, and call exec", RELEASED, None,
     r"^The process \d+ \(sleep\) copied .* before it called exec, which gave that back: \d+ % reference counts", never=TORCH)(
         shared("execs", "planted: 3 children read 400,000 str, then become sleep"))
case("the parent clears the list that idle workers inherited", RELEASED, "parent-unshare",
     "^The parent itself duplicated .*: it released objects that it shared with its workers", says="Release them before the fork",
     never=rf"saves about|{TORCH}")(shared("releases", "planted: the parent clears a list of 400,000 str, 2 workers sleep"))
case("the parent reads, and its workers are idle", OTHERS, "parent-unshare",
     "^The parent itself duplicated .*: it read objects that its workers still shared, which writes their reference counts; "
     + at(SHARED, "rereads", "read"), never=rf"it wrote|{TORCH}")(
         shared("rereads", "planted: the parent reads 400,000 str, 2 workers sleep"))
case("a shell runs a trainer that leaks", OTHERS, "trainer-growth",
     r"^The process \d+ \(python3\S*\) kept growing by new memory, unlike its workers: it allocated .*first touched at verdict_shared\.py:\d+ in grow", never="DataLoader|num_workers")(
         shared("grows", "planted: 240 MiB in 12 s, kept below bash; 2 idle workers", "bash", "-c", '"$@"; true', "bash"))
case("a Manager's server grows", OTHERS, "clean",
     r"^The workers share what they should\..* The helper \d+ \(multiprocessing's Manager\) allocated .*: a leak, or freed memory that the allocator keeps, unless it still loads",
     never=rf"Nothing to do|{TORCH}")(shared("manager", "planted: 2 workers put 240 MiB each into a Manager's dict, in 12 s"))


@case("a forked process locks its memory (mlock)", RELEASED, "cow-data",
      r"^System calls that lock, pin or prefault memory .* duplicated .* of the parent's memory in 1 worker", never=rf"{PYTHON}|saves about")
def locks(run):
    run.record(harness.WORKLOADS / "gup_copies", "--how=lock")
    run.framework = "native"
    return Truth("planted: 20,000 pages", (20_000 * 4096, 20_300 * 4096))


# ---- Figures ----


@case("idle Python", "idle", "clean", NOTHING + r".* It is Python 3\.\d+\.\d+ without child processes\.$", never=TORCH)
def idle(run):
    run.python(POOL, "idle")
    run.attach(run.process.pid)
    run.rest(4)
    private = truth.private_bytes(run.process.pid)
    run.figures = {run.process.pid: private}
    return Truth(f"{private / MIB:.1f} MiB private at every tick")


@case("4 forked workers that go through 86,000 annotations", "the peer's experiment", "cow-refcount", READING + ".*in 4 workers",
      never=TORCH)
def annotations(run):
    run.python(POOL, "large_parent_reads")
    run.attach(run.process.pid)
    run.go_and_rest()
    harness.wait_until(lambda: sum(line.get("event") == "worked" for line in run.process.lines) == 4, "the reads", LOADING)
    run.rest()
    pids = [run.process.pid, *run.workers()]
    run.figures = {pid: truth.private_bytes(pid) for pid in pids}
    return Truth(f"{mib(run.figures[pids[0]])} private to the parent, {mib(run.private(pids[1:]))} to 4 workers")


@case("/dev/shm is a directory of the disk", "no limit of shared memory", "clean", NOTHING, packages=["python3-torch"])
def shm_on_disk(run):
    folder = run.folder / "shm"
    folder.mkdir()
    run.start("unshare", "-m", "--propagation", "private", "sh", "-c", f'mount --bind {folder} /dev/shm && exec "$@"', "sh",
              harness.PYTHON, WORKLOADS / LOADER, "images")
    said = played(run, copies=False)
    run.no_limits = ("shm", "shm-inodes")
    return Truth(f"/dev/shm is on {os.statvfs(folder).f_blocks * os.statvfs(folder).f_frsize / (1 << 30):.0f} GiB of disk; {said.text}")


@case("page map, as an ordinary user", "page map", "cow-refcount", READING + ".* in 3 workers",
      never=r"that were written|[Ww]riting to memory")
def page_map(run):
    os.chown(run.folder, harness.NOBODY, harness.NOBODY)
    for folder in (run.folder, *run.folder.parents):
        if folder.stat().st_uid == os.getuid() and not folder.stat().st_mode & 0o001:
            folder.chmod(folder.stat().st_mode | 0o011)
    run.python(POOL, "pool_indices", **harness.AS_NOBODY)
    run.attach(run.process.pid, **harness.AS_NOBODY)
    run.process.go()
    run.process.await_line("event", "read", LOADING)
    run.rest(4)
    moved = run.copied(run.process.pid, run.workers())
    run.framework = "pool"
    return Truth(f"{mib(moved)} in other page frames than the parent's; only read")


HARMLESS = [one for one in CASES if one.row == "harmless"]
assert len({one.name for one in CASES}) == len(CASES)
