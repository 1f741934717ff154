"""Fix sketches work: each runs, yields what the code before it yielded, and removes the copies that it promises to.

Their texts are tests/golden/sketches/*.py, which a unit test compares with what cowprof says. Every file stands in ITEMS or in
SETTINGS; test_every_sketch_is_tested fails for one that does not.
"""
import json
import re
import socket
import subprocess
import sys
import textwrap
from http.client import HTTPConnection

import pytest

import harness
from conftest import params_to_run

WORKLOADS = harness.REPOSITORY / "tests" / "system" / "workloads"
sys.path.insert(0, str(WORKLOADS))
import sketch_items  # noqa: E402  pylint: disable=wrong-import-position

FOLDER = harness.REPOSITORY / "tests" / "golden" / "sketches"
ALL_SHAPES = [*sketch_items.SHAPES, "object-array"]
# The shapes of items that each sketch is tried on. The text of cow-refcount.py is that of others too: it gets them all.
ITEMS = {
    "cow-refcount": ALL_SHAPES,
    "cow-refcount.strings": ["strings", "long-text"],
    "cow-refcount.numbers": ["numbers", "none"],
    "cow-refcount.bytes": ["bytes", "pickled-bytes"],
    "cow-refcount.dicts": ["dicts", "nested"],
    "cow-refcount.tuples": ["tuples", "namedtuples"],
    "cow-refcount.lists": ["lists"],
    "cow-refcount.nested": ["nested", "mixed"],
    "cow-refcount.objects": ["objects", "slots", "dataclasses", "namedtuples"],
    "cow-refcount.arrays": ["arrays"],
    "cow-refcount.object-array": ["object-array"],
    "cow-refcount.data-frame": ["data-frame"],
    "cow-refcount.tensors": ["tensors", "equal-tensors", "0d-tensors"],
    "torch-refcount": ["tensors", "equal-tensors", "0d-tensors"],
}
BY_KEY = "cow-refcount.by-key"
FASTER = ("strings", "numbers", "dicts", "tuples", "lists", "arrays", "tensors")
# {shape: (sketch, items)}, so many that reading them copies more than 16 MiB.
COUNTS = {
    "integers": ("numbers", 800_000), "numbers": ("numbers", 800_000), "strings": ("strings", 150_000),
    "short-strings": ("strings", 350_000), "bytes": ("bytes", 300_000), "pickled-bytes": ("bytes", 250_000),
    "none": ("numbers", 1_200_000), "lists": ("lists", 200_000), "number-lists": ("lists", 330_000), "nested": ("nested", 40_000),
    "dicts": ("dicts", 60_000), "flat-dicts": ("dicts", 100_000), "tuples": ("tuples", 100_000), "flat-tuples": ("tuples", 170_000),
    "namedtuples": ("objects", 120_000), "objects": ("objects", 80_000), "slots": ("objects", 120_000),
    "dataclasses": ("objects", 60_000), "long-text": ("strings", 350_000), "mixed": ("", 250_000),
    "numpy-scalars": ("", 500_000), "arrays": ("arrays", 120_000), "equal-arrays": ("arrays", 220_000),
    "object-array": ("object-array", 250_000), "data-frame": ("data-frame", 80_000), "tensors": ("tensors", 60_000),
    "equal-tensors": ("tensors", 60_000),
}
# Items by whose types the sketch can be told; what was copied of the others depends on what shares a page.
TOLD = ("strings", "short-strings", "numbers", "flat-dicts", "flat-tuples", "number-lists", "equal-arrays")


def parts(name):
    """[before, after, faster or None] of a sketch."""
    found = re.split(r"(?m)^(?=# after|# faster)", (FOLDER / f"{name}.py").read_text())
    return (found + [None])[:3]


def named(container):
    return f"cow-refcount.{container}" if container else "cow-refcount"


def test_every_sketch_is_tested():
    names = {path.stem for path in FOLDER.iterdir()}
    assert names == {*ITEMS, *SETTINGS, *HANDLES, BY_KEY}
    assert {name for name in names if parts(name)[2]} == {*map(named, FASTER), "torch-refcount"}


# ---- Items ----


def item_cases():
    """{(sketch, part, shape): its case for sketch_checks.py}"""
    cases = {}
    for name, shapes in ITEMS.items():
        before, after, _ = parts(name)
        cases.update({(name, "after", shape): [before, after, None, shape] for shape in shapes})
    for container in FASTER:
        before, after, faster = parts(named(container))
        for shape in sketch_items.TENSORS if container == "tensors" else sketch_items.SHAPES:
            cases[named(container), "faster", shape] = [before, after, faster, shape]
    return cases


@pytest.fixture(scope="module")
def verdicts(request):
    wanted = {params["name"] if "name" in params else named(params["container"])
              for params in params_to_run(request) if {"name", "container"} & {*params}}
    cases = {key: case for key, case in item_cases().items() if key[0] in wanted}
    result = subprocess.run([harness.PYTHON, "-W", "ignore", WORKLOADS / "sketch_checks.py"], input=json.dumps(list(cases.values())),
                            capture_output=True, text=True, timeout=10 * harness.DEADLINE)
    assert result.returncode == 0, result.stderr
    return dict(zip(cases, map(json.loads, result.stdout.splitlines())))


@pytest.mark.parametrize("name,shape", [(name, shape) for name, shapes in ITEMS.items() for shape in shapes])
def test_a_sketch_gives_back_what_went_in(name, shape, verdicts):
    assert verdicts[name, "after", shape] == "same"


@pytest.mark.parametrize("container", FASTER)
def test_the_faster_variant_is_right_or_refuses(container, verdicts):
    said = {shape: verdict for (name, part, shape), verdict in verdicts.items() if (name, part) == (named(container), "faster")}
    assert {shape: verdict for shape, verdict in said.items() if verdict not in ("same", "refused")} == {}
    assert {shape for shape in sketch_items.FITS[container] if said[shape] == "refused"} == set()


def test_a_long_text_among_short_ones_is_refused_before_it_is_padded(tmp_path):
    _, after, faster = parts(named("strings"))
    script = tmp_path / "script.py"
    script.write_text("import resource\nresource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))\n"
                      "def load():\n    return ['x' * 100_000] + ['short'] * 1_000_000\n" + after.replace("Packed(load())", "None") + faster)
    result = subprocess.run([harness.PYTHON, script], capture_output=True, text=True, timeout=harness.DEADLINE)
    assert "ValueError: a long string" in result.stderr


def test_a_dict_is_refused_since_its_keys_would_be_packed(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("def load():\n    return {5: 'five', 7: 'seven'}\n" + parts(named("strings"))[1])
    result = subprocess.run([harness.PYTHON, script], capture_output=True, text=True, timeout=harness.DEADLINE)
    assert "TypeError: Packed counts from 0" in result.stderr


def copies_of_worker(code, shape, count, folder):
    """The worker's copies, the checksum of what it read, and the report."""
    (folder / "code.py").write_text(code)
    path = folder / "recording.json"
    result = harness.run_cowprof("--quiet", "--interval", "100ms", "--output", path, "--", harness.PYTHON, "-W", "ignore",
                                 WORKLOADS / "sketched_data.py", folder / "code.py", shape, count, seconds=8 * harness.DEADLINE)
    assert result.returncode == 0, result.stderr
    report = harness.report_of(path)
    [worker] = [process for process in report["workers"] if process["role"] == "worker"]
    return worker["copies"], json.loads(result.stdout)["read"], report


@pytest.mark.parametrize("shape", COUNTS)
def test_a_sketch_removes_four_of_five_copies(shape, tmp_path):
    container, count = COUNTS[shape]
    before, after, faster = parts(named(container))
    copies, read, report = copies_of_worker(before, shape, count, tmp_path)
    assert copies > 2500
    if shape in TOLD:
        diagnosis = report["diagnoses"][0]
        assert diagnosis["id"] == "cow-refcount"
        assert diagnosis["sketch"] == (before + after + (faster or "")).strip()
    variants = {"after": after}
    if shape in sketch_items.FITS.get(container, ()):
        variants["faster"] = after.rpartition("\nitems = ")[0] + faster
    for name, code in variants.items():
        copies_then, read_then, _ = copies_of_worker(code, shape, count, tmp_path)
        print(f"copies of {shape}: {copies} before, {copies_then} {name}, {1 - copies_then / copies:.1%} fewer")
        assert read_then == read
        assert copies_then <= 0.2 * copies


LOOKUPS = """
import decimal
for source in ({f"key {i}": [i, str(i)] for i in range(1000)}, {3 * i - 900: str(i) for i in range(1000)}, {"": None}):
    items = PackedDict(source)
    assert len(items) == len(source)
    asked = [*source, "", "k", "key 1000", "key 1" + " " * 99, "\\0", "key 1\\0", 4, "4", 2 ** 70, -2 ** 70, 0.0, 1.5, None, numpy.int64(0),
             decimal.Decimal(3)]
    for key in asked:
        assert (key in items) == (key in source), key
        assert items.get(key, "none") == source.get(key, "none"), key
        try:
            value = items[key]
        except KeyError:
            assert key not in source
        else:
            assert value == source[key]
for refused in ({1: 1, "1": 1}, {(1, 2): 3}, {"x" * 51: 1}, {"x\\0": 1}, {1.5: 1}, {True: 1}, {}):
    try:
        PackedDict(refused)
    except (TypeError, ValueError):
        continue
    assert False, refused
"""
READS_BY_KEY = """
import os
def load():
    return {f"key {i}": [i, f"value {i}"] for i in range(200_000)}
CODE
pid = os.fork()
if pid == 0:
    assert sum(items[f"key {i}"][0] for i in range(200_000)) == 199_999 * 100_000
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
"""


def test_a_packed_dict_is_read_like_the_dict(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("def load():\n    return {'a': 1}\n" + parts(BY_KEY)[1] + LOOKUPS)
    result = subprocess.run([harness.PYTHON, script], capture_output=True, text=True, timeout=harness.DEADLINE)
    assert result.returncode == 0, result.stderr


def test_a_packed_dict_removes_nine_of_ten_copies(tmp_path):
    copies = []
    for code in parts(BY_KEY)[:2]:
        script, path = tmp_path / "script.py", tmp_path / "recording.json"
        script.write_text(READS_BY_KEY.replace("CODE", code))
        harness.run_cowprof("--quiet", "--output", path, "--", harness.PYTHON, script)
        [worker] = harness.report_of(path)["workers"]
        copies.append(worker["copies"])
    print("copies of a dict:", *copies)
    assert copies[0] > 5000 and copies[1] < 0.1 * copies[0]


LOADERS = {
    "by key": ("{f'word {i}': [i, f'value {i}'] for i in range(150_000)}", "self.items[f'word {i}'][0]"),
    "shared": ("[Item(i, self.groups[i % 50]) for i in range(300_000)]", "len(self.items[i].name) + self.items[i].number"),
}
LOADER = """
import time
from torch.utils.data import DataLoader
class Group:
    def __init__(self, n):
        self.names = [f"name {n} {i}" for i in range(100)]
class Item:
    __slots__ = ("number", "group", "name")
    def __init__(self, number, group):
        self.number, self.group, self.name = number, group, f"item {number}"
class Data:
    def __init__(self):
        self.groups = [Group(n) for n in range(50)]
        self.items = ITEMS
    def __len__(self):
        return len(self.items)
    def __getitem__(self, i):
        return READ
loader = DataLoader(Data(), batch_size=1000, num_workers=2)
for _ in loader:
    time.sleep(0.02)
"""


@pytest.mark.parametrize("how", LOADERS)
def test_what_is_proposed_fits_how_items_are_held(how, tmp_path):
    script, path = tmp_path / "script.py", tmp_path / "recording.json"
    items, read = LOADERS[how]
    script.write_text(LOADER.replace("ITEMS", items).replace("READ", read))
    harness.run_cowprof("--quiet", "--output", path, "--", harness.PYTHON, script)
    report = harness.report_of(path)
    found = {diagnosis["id"]: diagnosis for diagnosis in report["diagnoses"]}["cow-refcount"]
    [buffer] = [remedy for remedy in report["remedies"] if remedy["id"] == "serialise"]
    if how == "by key":
        assert found["sketch"] == (FOLDER / f"{BY_KEY}.py").read_text().strip()
        assert buffer["obstacle"] is None
    else:
        assert found["sketch"] is None and found["advice"][0].endswith(f"Don't pickle them into one buffer: {buffer['obstacle']}.")
        assert buffer["obstacle"].startswith("items share objects, and pickled one by one all 300,000 of loader.dataset.items would take about")


def test_the_text_report_shows_the_sketch_below_the_advice(tmp_path):
    before, _, _ = parts(named("strings"))
    copies_of_worker(before, "strings", 150_000, tmp_path)
    text = harness.run_cowprof("report", tmp_path / "recording.json").stdout
    assert "        # before" in text and "        # after" in text
    assert text.index("    > ") < text.index("        # before")


# ---- Handles ----

HANDLES = {
    "hdf5": """
        import h5py
        path = "items.h5"
        with h5py.File(path, "w") as file:
            file["x"] = [[i, i + 0.5] for i in range(40)]""",
    "lmdb": """
        import lmdb
        path = "items.lmdb"
        with lmdb.open(path) as env, env.begin(write=True) as transaction:
            for i in range(40):
                transaction.put(b"%d" % i, b"item %d" % i)""",
}
HANDLES = {f"{diagnosis}.{library}": code for library, code in HANDLES.items() for diagnosis in ("cow-refcount", "cow-data")}
READ_BY_WORKERS = """
import os
from torch.utils.data import DataLoader
import sketch_items
data = Data(path)
[opened] = [[link for link in os.listdir("/proc/self/fd") if "items." in os.path.realpath("/proc/self/fd/" + link)]]
read = [item for batch in DataLoader(data, num_workers=WORKERS, collate_fn=list) for item in batch]
print(json.dumps({"opened": len(opened), "count": len(data), "read": [sketch_items.plain(item) for item in read]}))
"""


@pytest.mark.parametrize("name", HANDLES)
def test_a_handle_is_opened_in_the_worker(name, tmp_path):
    head = textwrap.dedent(HANDLES[name]) + "\nfrom torch.utils.data import Dataset\n"
    before, after, _ = parts(name)
    old = run(head + before + "WORKERS = 0" + READ_BY_WORKERS, tmp_path)
    new = run(head + after + "WORKERS = 2" + READ_BY_WORKERS, tmp_path)
    assert old["opened"] > 0 and new["opened"] == 0
    assert new["count"] == old["count"] == 40
    assert new["read"] == old["read"]


# ---- Settings: what is there before a sketch, and what is looked at after it ----

# 20 MB of lists that the collector tracks.
TRACKED = "import gc\ntracked = [[i] for i in range(300_000)]\ndef measure(*_):\n    return grows(gc.collect)\n"
# 64 MB of freed blocks that the heap keeps, since one above them is in use.
FREED = """
import numpy
blocks = [numpy.ones(8000) for _ in range(1000)]
del blocks[:-1]
def measure(*_):
    return status_bytes("RssAnon")
"""
COLLECTOR = "import gc\ngc.disable()\ndef measure(*_):\n    return int(not gc.isenabled())\n"
# Where each framework calls measure().
LOADER_HEAD = """
from torch.utils.data import DataLoader
class Dataset:
    def __len__(self):
        return 1
    def __getitem__(self, i):
        return measure()
data = Dataset()
"""
SITES = {
    "": (LOADER_HEAD, "\nprint(json.dumps({'measured': [int(batch) for batch in loader][0]}))\n"),
    ".pool": ("import multiprocessing\n", "\nprint(json.dumps({'measured': pool.apply(measure)}))\n"),
    ".executor": ("from concurrent.futures import ProcessPoolExecutor\n",
                  "\nprint(json.dumps({'measured': executor.submit(measure).result()}))\n"),
    ".fork": ("import os\n", "\nif pid == 0:\n    print(json.dumps({'measured': measure()}), flush=True)\n    os._exit(0)\nos.wait()\n"),
    # Its signals alone, sent as WorkController.__init__ does: worker_init, and then the fork of the pool.
    ".celery": ("from celery import Celery\n", "\nfrom celery import signals\nsignals.worker_init.send(sender=app)\n"
                "print(json.dumps({'measured': in_child(measure)}))\n"),
}
CELERY = {"__init__.py": "class Celery:\n    def __init__(self, name):\n        self.name = name\n", "signals.py": """
class Signal:
    def __init__(self):
        self.receivers = []
    def connect(self, receiver):
        self.receivers.append(receiver)
        return receiver
    def send(self, sender):
        for receiver in self.receivers:
            receiver(sender=sender, signal=self)
worker_init = Signal()
"""}
GUNICORN_APP = """
from sketch_setting import *
import json
SETTING
def app(environment, start_response):
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps({"measured": measure()}).encode()]
"""
# What of each is measured, and by how much it has to fall: by 4/5 of what was planted, torch's own memory aside.
MEASURED = {"cow-gc-header": (TRACKED, 16_000_000), "allocator-reuse": (FREED, 51_000_000), "gc-disabled": (COLLECTOR, 1)}
SETTINGS = {f"{diagnosis}{site}" for diagnosis in ("cow-gc-header", "allocator-reuse") for site in (*SITES, ".gunicorn")} | \
    {f"gc-disabled{site}" for site in ("", ".pool", ".executor")} | \
    {"cow-data", "shm-full", "fd-exhaustion", "pickled-arguments.joblib", "private-by-spawn"} | \
    {f"pickled-arguments.{pool}{mapped}" for pool in ("pool", "executor") for mapped in ("", ".mapped")}


def run(script, folder):
    """The JSON that a script prints; it starts with the imports of sketch_setting.py."""
    path = folder / "script.py"
    path.write_text("import json, sys\nsys.path.insert(0, %r)\nfrom sketch_setting import *\n%s" % (str(WORKLOADS), script))
    result = subprocess.run([harness.PYTHON, "-W", "ignore", path], cwd=folder, capture_output=True, text=True, timeout=4 * harness.DEADLINE)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def measured(name, site, part, folder):
    setting = MEASURED[name.partition(".")[0]][0]
    if site == ".gunicorn":
        return of_gunicorn(setting, part, folder)
    if site == ".celery":
        (folder / "celery").mkdir(exist_ok=True)
        for file, text in CELERY.items():
            (folder / "celery" / file).write_text(text)
    head, tail = SITES[site]
    return run(head + setting + part + tail, folder)["measured"]


def of_gunicorn(setting, part, folder):
    """What an application measures in a worker of a real gunicorn that has this part as its configuration."""
    (folder / "gunicorn.conf.py").write_text(part)
    (folder / "application.py").write_text(GUNICORN_APP.replace("SETTING", setting))
    path = folder / "socket"
    server = subprocess.Popen([harness.PYTHON, "-m", "gunicorn", "--bind", f"unix:{path}", "--pythonpath", f"{folder},{WORKLOADS}",
                               "application:app"], cwd=folder, stderr=subprocess.PIPE, text=True)
    try:
        connection = HTTPConnection("localhost", timeout=harness.DEADLINE)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(harness.DEADLINE)
        harness.wait_until(lambda: server.poll() is not None or connection.sock.connect_ex(str(path)) == 0, "gunicorn's socket")
        assert server.poll() is None, server.stderr.read()
        connection.request("GET", "/")
        return json.loads(connection.getresponse().read())["measured"]
    finally:
        server.terminate()
        server.communicate(timeout=harness.DEADLINE)


@pytest.mark.parametrize("name", sorted(name for name in SETTINGS if name.partition(".")[0] in MEASURED))
def test_what_is_done_before_the_fork(name, tmp_path):
    site = name[len(name.partition(".")[0]):]
    before, after, _ = parts(name)
    least = MEASURED[name.partition(".")[0]][1]
    old, new = (measured(name, site, part, tmp_path) for part in (before, after))
    print(f"{name}: {old} before, {new} after")
    assert old - new >= least


def test_a_trimmed_heap_is_not_copied(tmp_path):
    """The copies that malloc_trim saves, counted: its worker takes the same memory, but new."""
    work = "\nif pid == 0:\n    blocks = [numpy.ones(8000) for _ in range(900)]\n    os._exit(0)\nos.wait()\n"
    copies = []
    for part in parts("allocator-reuse.fork")[:2]:
        (tmp_path / "script.py").write_text("import os, numpy\nblocks = [numpy.ones(8000) for _ in range(1000)]\ndel blocks[:-1]\n" + part + work)
        result = harness.run_cowprof("--quiet", "--output", tmp_path / "recording.json", "--", harness.PYTHON, tmp_path / "script.py")
        assert result.returncode == 0, result.stderr
        [worker] = [process for process in harness.report_of(tmp_path / "recording.json")["workers"] if process["role"] == "worker"]
        copies.append(worker["copies"])
    print(f"copies of freed memory: {copies[0]} before, {copies[1]} after, {1 - copies[1] / copies[0]:.1%} fewer")
    assert copies[0] > 10_000 and copies[1] <= 0.2 * copies[0]


def test_a_write_goes_to_new_memory(tmp_path):
    script = """
import numpy
items = numpy.arange(5_000_000.0).reshape(1000, -1)
def measure():
    prepared = []
    grown = grows(lambda: prepared.extend(float(prepare(item).sum()) for item in items))
    return [grown, prepared]
print(json.dumps(in_child(measure)))
"""
    old, new = (run(part + script, tmp_path) for part in parts("cow-data")[:2])
    print(f"cow-data: {old[0]} private bytes before, {new[0]} after")
    assert new[1] == old[1]
    assert old[0] > 30_000_000 and new[0] <= 0.2 * old[0]


def test_fewer_batches_in_flight(tmp_path):
    script = """
import torch
from torch.utils.data import DataLoader
data = [torch.full((4,), float(i)) for i in range(2048)]
%s
print(json.dumps({"batches": [batch.tolist() for batch in loader], "in_flight": loader.num_workers * loader.prefetch_factor}))
"""
    old, new = (run(script % part, tmp_path) for part in parts("shm-full")[:2])
    assert new["batches"] == old["batches"]
    assert (old["in_flight"], new["in_flight"]) == (32, 8)


def test_kept_batches_hold_no_descriptors(tmp_path):
    script = """
import os, torch
from torch.utils.data import DataLoader
loader = DataLoader([{"x": torch.full((4,), float(i)), "id": i} for i in range(100)], num_workers=2)
def descriptors():
    return len(os.listdir("/proc/self/fd"))
at_first = descriptors()
%s
print(json.dumps({"kept": [[batch["x"].tolist(), batch["id"].tolist()] for batch in kept], "descriptors": descriptors() - at_first}))
"""
    old, new = (run(script % part, tmp_path) for part in parts("fd-exhaustion")[:2])
    print(f"fd-exhaustion: {old['descriptors']} before, {new['descriptors']} after")
    assert new["kept"] == old["kept"]
    assert old["descriptors"] >= 200 and new["descriptors"] < 20


# Every worker says what it has read from pipes so far. One that imports this script reads files as well until then.
POOL = """
import multiprocessing, os
from concurrent.futures import ProcessPoolExecutor
from sketch_items import items_of, plain
imported = os.getpid(), bytes_read()
def load():
    return items_of("mixed", 40) + [bytes([i]) * 1_000_000 for i in range(40)]
def work(item):
    pid, read = imported
    return os.getpid(), bytes_read() - (read if pid == os.getpid() else 0), plain(item)
if __name__ == "__main__":
    multiprocessing.set_start_method("METHOD")
%s
if __name__ == "__main__":
    read = {}
    for pid, read_by_then, _ in results:
        read[pid] = max(read_by_then, read.get(pid, 0))
    print(json.dumps({"read": sum(read.values()), "items": [text for _, _, text in results]}))
"""


def guarded(part):
    return 'if __name__ == "__main__":\n' + textwrap.indent(part, "    ")


@pytest.mark.parametrize("pool", ["pool", "executor"])
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_indices_are_sent_instead_of_items(pool, method, tmp_path):
    before, after, _ = parts(f"pickled-arguments.{pool}" + ("" if method == "fork" else ".mapped"))
    old, new = (run(POOL.replace("METHOD", method) % part, tmp_path) for part in (guarded(before), after))
    print(f"{pool}, {method}: {old['read']} bytes read by the workers before, {new['read']} after")
    assert new["items"] == old["items"]
    assert old["read"] >= 40_000_000 and new["read"] <= 0.2 * old["read"]


JOBLIB = """
import joblib, zlib
from sketch_items import items_of, plain
def load():
    return items_of("mixed", 8) + [bytes([i]) * 2_000_000 for i in range(16)]
def work(items, i):
    item = items[i]
    # The text of a large item would take four times its size, which the heap keeps.
    return private_bytes(), zlib.crc32(item if type(item) is bytes else plain(item).encode("utf-8", "surrogatepass"))
idle = max(size for size, _ in joblib.Parallel(4)(joblib.delayed(work)([i], 0) for i in range(8)))  # with what it imports
%s
print(json.dumps({"private": max(size for size, _ in results) - idle, "items": [text for _, text in results]}))
"""


def test_joblib_sends_the_name_of_a_mapped_file(tmp_path):
    old, new = (run(JOBLIB % part, tmp_path) for part in parts("pickled-arguments.joblib")[:2])
    print(f"joblib: {old['private']} private bytes before, {new['private']} after")
    assert new["items"] == old["items"]
    assert old["private"] >= 30_000_000 and new["private"] <= 0.2 * old["private"]


SPAWN = """
import torch
from torch.utils.data import DataLoader
from sketch_items import items_of, plain
class Data:
    def __init__(self, items):
        self.items = items
    def __len__(self):
        return len(self.items)
    def __getitem__(self, i):
        return private_bytes() if not i & 1023 else 0, plain(self.items[i])
def load():
    return items_of("mixed", 40) + items_of("nested", COUNT)
%s
if __name__ == "__main__":
    loader = DataLoader(Data(items), num_workers=2, batch_size=500, collate_fn=list, multiprocessing_context="spawn")
    read = [one for batch in loader for one in batch]
    print(json.dumps({"private": max(size for size, _ in read), "items": [text for _, text in read]}))
"""


def test_spawned_workers_map_a_file(tmp_path):
    before, after, _ = parts("private-by-spawn")
    before = guarded(before)
    idle = run("COUNT = 100\n" + SPAWN % before, tmp_path)["private"]
    old, new = (run("COUNT = 60_000\n" + SPAWN % part, tmp_path) for part in (before, after))
    print(f"spawn: {old['private'] - idle} private bytes before, {new['private'] - idle} after")
    assert new["items"] == old["items"]
    assert old["private"] - idle >= 20_000_000 and new["private"] - idle <= 0.2 * (old["private"] - idle)
