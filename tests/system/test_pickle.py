"""`cowprof pickle`: verdicts and paths against really pickling, what it says of hostile and ending targets, and its statuses."""
import importlib.util
import json
import os
import pty
import signal
import subprocess

import pytest

import chroots
import harness
import pickle_matrix
import planted
from conftest import needs

WORKLOADS = harness.REPOSITORY / "tests" / "system" / "workloads"
TARGETS = WORKLOADS / "pickle_targets.py"
MOST_UNKNOWN = 0.10


def document_of(pid, *arguments, seconds=60 * harness.PATIENCE):
    done = harness.run_cowprof("pickle", pid, "--json", *arguments, seconds=seconds)
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    harness.validate(document, "pickle.schema.json")
    return document


def pickle_of(pid, *arguments):
    return document_of(pid, "--no-time", *arguments)["start_methods"][0]


def command_in(suite, workload, *words, options=()):
    if suite == "system":
        return [harness.PYTHON, *options, WORKLOADS / workload, *words]
    chroot, why = chroots.chroot(suite)
    if not chroot:
        pytest.skip(f"Debian {suite}: {why}")
    return chroot.command("/usr/bin/python3", *options, f"{chroots.TESTS}/workloads/{workload}", *words)


@pytest.fixture
def target():
    started = []

    def start(*what, python=harness.PYTHON, **options):
        process = harness.Process([python, TARGETS, *what], **options)
        started.append(process)
        process.await_line("event", "ready")
        return process
    yield start
    for process in started:
        process.stop()


@pytest.mark.parametrize("version, each", [
    ("3.13", 4), *(pytest.param(version, 1, marks=pytest.mark.slow) for version in pickle_matrix.VERSIONS)])
def test_verdict_and_path_are_those_of_really_pickling(version, each):
    try:
        found = pickle_matrix.matrix(version, each)
    except pickle_matrix.Missing as missing:
        pytest.skip(str(missing))
    wrong = {kind: row[2] for kind, row in found.items() if row[2].startswith("WRONG")}
    assert wrong == {}
    plain = {kind: row for kind, row in found.items() if not row[0]["trap"]}  # traps may be unknown, but not wrong
    unknown = [kind for kind, row in plain.items() if row[2] == "unknown"]
    assert len(unknown) <= MOST_UNKNOWN * len(plain), unknown
    assert sum(truth["fails"] for truth, _, _ in found.values()) >= 25 // each  # or there would be nothing to find


PYTHONS = {name: path for name, path in planted.interpreters().items() if name not in ("3.6", "3.7") and path}


@pytest.mark.parametrize("version", ["3.13", *(pytest.param(version, marks=pytest.mark.slow) for version in PYTHONS if version != "3.13")])
def test_what_a_worker_can_not_unpickle_is_not_called_fine(version):
    process = harness.Process([PYTHONS[version], WORKLOADS / "pickle_worker.py"])
    try:
        process.await_line("event", "ready", pickle_matrix.READY)
        truths = [line for line in process.lines if "kind" in line]
        said = {truth["kind"]: pickle_of(process.pid, "--object", f"holders['{truth['kind']}']") for truth in truths}
        both = pickle_of(process.pid, "--object", "both")
    finally:
        process.stop()
    wanted = {truth["kind"]: "unknown" if not truth["sure"] else "will-fail" if truth["fails"] else "no-obstacle-found" for truth in truths}
    assert {kind: row["verdict"] for kind, row in said.items()} == wanted
    for kind, row in said.items():
        paths = [failure["path"] for failure in row["failures"]]
        assert paths == ([f"holders['{kind}'][0]"] if wanted[kind] == "will-fail" else []), kind
    assert "Wraps.__getattr__ (pickle_worker.py:" in said["wrapper"]["unknowns"][0]["runs"]
    assert said["wrapper"]["bytes_each"]["high"]  # all of it is sent
    assert [failure["path"] for failure in both["failures"]] == ["both[1]", "both[0]"]  # the parent fails before the worker


SIZES = ["dicts", "objects", "text", "numbers", "nested"]


@pytest.mark.parametrize("version", [*pickle_matrix.VERSIONS, planted.DEBIAN])
def test_bytes_are_those_of_dumps(version):
    try:
        command = pickle_matrix.command_for(version, TARGETS.name)
    except pickle_matrix.Missing as missing:
        pytest.skip(str(missing))
    for size in SIZES:
        process = harness.Process([*command, f"bytes-{size}"])
        try:
            truth = process.await_line("event", "ready", pickle_matrix.READY)["bytes"]
            said = pickle_of(process.pid, "--object", "__main__.data")["bytes_each"]
        finally:
            process.stop()
        assert said["best"] == pytest.approx(truth, rel=0.15), size
        assert said["low"] <= truth <= said["high"], size


ERRORS = {"logger": ("dataset.logger.handlers[0].lock", "_thread.RLock"), "keys": ("dataset.class_names", "dict_keys"),
          "vocab": ("dataset.vocab.stoi.default_factory", "function")}


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
@pytest.mark.parametrize("suite", ["system", "sid"])
def test_errors_as_their_authors_met_them(error, method, suite):
    """The workload really starts a process, and says how that failed; then it waits with the objects still there."""
    process = harness.Process(command_in(suite, "pickle_targets.py", f"{error}-{method}"), stderr=subprocess.DEVNULL)
    try:
        assert "pickle" in process.await_line("event", "ready")["error"]
        check_error(process, error)
    finally:
        process.stop()


def check_error(process, error):
    said = pickle_of(process.pid, "--object", "dataset")
    path, type_name = ERRORS[error]
    assert said["verdict"] == "will-fail"
    assert (said["failures"][0]["path"], said["failures"][0]["type"]) == (path, type_name)
    assert said["failures"][0]["fix"]


SESSIONS = {"-i": (["-i"], [], b">>> "), "pdb": (["-m", "pdb", "-c", "continue"], [], b"(Pdb) "),
            "console of a function": ([], ["console", "FUNCTION"], b">>> "), "console of a module": ([], ["console", "MODULE"], b">>> ")}


@pytest.mark.parametrize("session", SESSIONS)
@pytest.mark.parametrize("version", PYTHONS)
def test_the_object_is_found_in_a_session_after_its_exception(session, version):
    """On a terminal, with a prompt."""
    options, words, prompt = SESSIONS[session]
    terminal, end = pty.openpty()
    process = subprocess.Popen([PYTHONS[version], *options, WORKLOADS / "pickle_session.py", *words], stdin=end, stdout=end,
                               stderr=end, start_new_session=True)
    os.close(end)
    try:
        seen = b""
        while prompt not in seen:
            seen += os.read(terminal, 4096)
        assert b"pickle" in seen
        said = pickle_of(process.pid)
        assert said["verdict"] == "will-fail" and said["root"].startswith("worker ("), said
        assert (said["failures"][0]["path"], said["failures"][0]["type"]) == ("dataset.lock", "_thread.lock")
        by_name = pickle_of(process.pid, "--object", "dataset.lock")
        assert by_name["failures"][0]["path"] == "dataset.lock"
    finally:
        process.kill()
        process.wait()
        os.close(terminal)


def test_the_object_is_found_in_a_notebook_after_its_exception():
    needs("package python3-ipykernel", importlib.util.find_spec("ipykernel"), "install python3-ipykernel")
    process = harness.Process([harness.PYTHON, WORKLOADS / "pickle_notebook.py"], stderr=subprocess.DEVNULL)
    try:
        kernel = process.await_line("event", "ready", 60 * harness.PATIENCE)
        assert "pickle" in kernel["error"]
        said = pickle_of(kernel["kernel"])
        assert said["verdict"] == "will-fail" and said["root"].startswith("__main__.worker"), said
        assert (said["failures"][0]["path"], said["failures"][0]["type"]) == ("dataset.lock", "_thread.lock")
        # What a cell defines can't be imported by a new process.
        assert (said["failures"][1]["path"], said["failures"][1]["type"]) == ("dataset", "__main__.Data")
    finally:
        process.stop()


def test_process_in_a_frame_is_found_by_itself(target):
    said = pickle_of(target("process").pid)
    assert said["verdict"] == "will-fail"
    assert said["failures"][0]["path"] == "holder.keys"
    assert said["root"].startswith("worker (in main, pickle_targets.py:")


@pytest.mark.parametrize("method", ["default", "fork", "spawn", "forkserver"])
@pytest.mark.parametrize("version", PYTHONS)
def test_a_queue_of_the_default_context_follows_the_start_method(target, version, method):
    """set_start_method('spawn') would make it anew; get_context('spawn').Process is refused it (3.11.5 and later)."""
    process = target(f"queue-{method}", python=PYTHONS[version])
    asks = next(line for line in process.lines if line.get("event") == "ready")["asks"]
    said = pickle_of(process.pid)
    if asks and method in ("spawn", "forkserver"):
        assert said["verdict"] == "will-fail" and said["failures"][0]["path"] == "worker._args[0]._rlock", said
        return
    assert said["verdict"] == "unknown" and said["failures"] == [], said
    assert not asks or "set_start_method()" in said["why_unknown"], said


def test_a_loader_without_workers_is_not_judged_and_others_are_counted(target):
    said = pickle_of(target("loaders").pid)
    assert (said["verdict"], said["failures"][0]["path"]) == ("will-fail", "trained.dataset.keys"), said
    assert said["root"].startswith("trained (in main, pickle_targets.py:"), said
    assert said["root"].endswith("; not judged: 1 other DataLoader or Process)"), said
    said = pickle_of(target("unsent").pid)
    assert (said["verdict"], said["root"]) == ("unknown", None), said


def test_an_index_is_the_whole_key(target):
    process = target("numbers")
    assert pickle_of(process.pid, "--object", "data[5]")["verdict"] == "no-obstacle-found"
    said = pickle_of(process.pid, "--object", "data")
    assert [failure["path"] for failure in said["failures"]] == ["data[-5]", "data[1073741829]"], said


def test_memory_files_count_with_their_content(target):
    process = target("buffers")
    truth = process.lines[-1]["bytes"]
    said = pickle_of(process.pid, "--object", "__main__.data")["bytes_each"]
    assert said["best"] == pytest.approx(truth, rel=0.05)
    assert said["low"] <= truth <= said["high"]


def test_nothing_to_send_is_unknown_not_fine(target):
    said = pickle_of(target("nothing").pid)
    assert (said["verdict"], said["root"]) == ("unknown", None)
    assert "--object" in said["why_unknown"]


@pytest.mark.parametrize("version", PYTHONS)
def test_main_without_a_file_can_not_be_imported_again(version):
    """The parent pickles it; a spawned child can't load it."""
    program = ("class Data: pass\ndata = Data()\nnumbers = [1]\nimport sys\nprint('{\"event\": \"ready\"}', flush=True)\n"
               "sys.stdin.read()")
    process = harness.Process([PYTHONS[version], "-c", program])
    try:
        process.await_line("event", "ready")
        said = pickle_of(process.pid, "--object", "__main__.data")
        assert said["verdict"] == "will-fail" and "__main__" in said["failures"][0]["reason"]
        assert pickle_of(process.pid, "--object", "__main__.numbers")["verdict"] == "no-obstacle-found"
    finally:
        process.stop()


@pytest.mark.parametrize("what", ["cycle", "attributes", "long-name", "deep", "lies", "lies-a-little"])
def test_hostile_objects_end_in_time(target, what):
    said = pickle_of(target(what).pid, "--object", "__main__.data")
    assert said["verdict"] in ("no-obstacle-found", "unknown", "will-fail")
    if what == "cycle":
        assert said["verdict"] == "no-obstacle-found"
    if what == "lies":
        assert said["verdict"] != "no-obstacle-found" and said["failures"] == []
    if what == "attributes":
        assert said["objects"] >= 1_000_000 or said["capped"]


def test_mutating_target_gets_no_false_findings(target):
    """Everything there pickles at any time; rows come and go while they are read."""
    process = target("mutating")
    verdicts = [pickle_of(process.pid, "--object", "__main__.data") for _ in range(20)]
    assert all(said["failures"] == [] for said in verdicts), verdicts
    assert process.popen.poll() is None


def test_target_that_dies_meanwhile(target):
    process = target("big")
    cowprof = subprocess.Popen([harness.COWPROF, "pickle", str(process.pid), "--object", "__main__.data"], text=True,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    harness.wait_until(lambda: harness.bytes_read(cowprof.pid) > 0, "cowprof to read")
    os.kill(process.pid, signal.SIGKILL)
    process.popen.wait(harness.DEADLINE)
    output, errors = cowprof.communicate(timeout=harness.DEADLINE)
    assert cowprof.returncode in (0, 4), errors
    assert "Nothing found that spawn" not in output or cowprof.returncode == 0


@pytest.mark.parametrize("expression, status", [("__main__.data", 0), ("data[0]", 0), ("__main__.missing", 2), ("data[99999999]", 2),
                                                ("data[", 2), ("0", 2), ("data..x", 2)])
def test_expressions(target, expression, status):
    done = harness.run_cowprof("pickle", target("cycle").pid, "--object", expression)
    assert done.returncode == status, (done.stdout, done.stderr)
    assert len(done.stderr.splitlines()) == (status != 0)


def test_not_python():
    process = subprocess.Popen(["sleep", "100"])
    try:
        done = harness.run_cowprof("pickle", process.pid)
        assert done.returncode == 5 and "Python" in done.stderr
    finally:
        process.kill()
        process.wait()


TORCH = {  # what is in the data set: (verdict, path of the first failure); the truth is that of a really started worker
    "plain": ("no-obstacle-found", None), "vocab": ("will-fail", "loader.dataset.vocab.stoi.default_factory"),
    "collate": ("will-fail", "loader.collate_fn"), "gradient": ("unknown", None), "objects": ("no-obstacle-found", None),
    "spawn": ("will-fail", "dataset.vocab.stoi.default_factory"), "ufunc": ("will-fail", "loader.dataset.bad"),
    **dict.fromkeys(("sparse", "meta", "nested", "quantized"), ("unknown", None))}
DIFFER = ("sparse", "meta", "nested", "quantized")  # whether a worker gets them, by the version of torch


@pytest.mark.parametrize("suite", ["system", *chroots.SUITES])
@pytest.mark.parametrize("what", TORCH)
def test_torch(suite, what):
    process = harness.Process(command_in(suite, "pickle_torch.py", what), stderr=subprocess.DEVNULL)
    try:
        error = process.await_line("event", "ready", 60 * harness.PATIENCE)["error"]
        verdict, path = TORCH[what]
        said = pickle_of(process.pid, *(["--object", "dataset"] if what == "spawn" else []))
        assert said["verdict"] == verdict, said
        assert (said["failures"][0]["path"] if said["failures"] else None) == path
        assert what in DIFFER or (error is not None) == (what in ("vocab", "collate", "gradient", "spawn", "ufunc")), error
        if what == "plain":
            assert 400_000 <= said["bytes_each"]["best"] <= 460_000  # the array; tensors go by shared memory
    finally:
        process.stop()


@pytest.mark.parametrize("suite", ["system", *chroots.SUITES])
def test_what_torch_spawn_sends_is_found_by_itself(suite):
    """While it waits for its processes; and after it failed, in python -i."""
    process = harness.Process(command_in(suite, "pickle_torch.py", "spawn-waits"), stderr=subprocess.DEVNULL)
    try:
        process.await_line("event", "ready", 60 * harness.PATIENCE)
        said = pickle_of(process.pid)
        assert (said["verdict"], said["root"]) == ("no-obstacle-found", "spawn() (torch.multiprocessing)"), said
        assert 400_000 <= said["bytes_each"]["best"] <= 460_000  # the array of args[0]
    finally:
        process.stop()
    process = harness.Process(command_in(suite, "pickle_torch.py", "spawn-dies", options=["-i"]), stderr=subprocess.PIPE)
    try:
        assert any("pickle" in line for line in iter(process.popen.stderr.readline, ""))
        harness.wait_until(lambda: pickle_of(process.pid)["root"], "python -i to keep its exception")
        said = pickle_of(process.pid)
        assert (said["verdict"], said["root"]) == ("will-fail", "spawn() (torch.multiprocessing)"), said
        assert said["failures"][0]["path"] == "dataset.vocab.stoi.default_factory"
    finally:
        process.stop()
