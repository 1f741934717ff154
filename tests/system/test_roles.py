"""Who is who: roles, ranks, workers' numbers and generations of real programs, against what each process says of itself."""
import contextlib
import json
import os
import subprocess
import sys

import pytest

import harness
import planted
from conftest import needs

ROLES = harness.REPOSITORY / "tests" / "system" / "workloads" / "roles.py"
SECRET = "hunter2-hunter2"
LAUNCHER = """
for rank in 0 1; do
    RANK=$rank LOCAL_RANK=$rank WORLD_SIZE=2 TORCHELASTIC_RUN_ID=job-7 "$0" "$1" rank &
done
(read -r line < "$HOLD") &
echo '{"pid": '$!', "role": "helper"}'
wait
"""


@contextlib.contextmanager
def held(command, folder, **environment):
    """Starts a workload, whose processes wait at a FIFO; yields it and a function that lets them end."""
    hold = folder / "hold"
    os.mkfifo(hold)
    writer = os.open(hold, os.O_RDWR)  # keeps readers waiting
    environment = {**os.environ, "HOLD": str(hold), **environment}
    process = harness.Process(command, env=environment, pass_fds=())
    try:
        yield process, lambda: os.close(writer)
    finally:
        process.stop()


def known(report, said, helpers):
    """Whether the report has every process with the facts that it said of itself, and as many helpers."""
    rows = {row["pid"]: row for row in [report["parent"], *report["workers"]]}
    if sum(row["role"] == "helper" for row in rows.values()) < helpers:
        return False
    return all(line["pid"] in rows and all(rows[line["pid"]][key] == value for key, value in line.items()) for line in said)


def record(command, folder, lines, attach, *options, helpers=0, **environment):
    """Records the workload until all that it said is known, and that many helpers, or for 20 seconds; returns the report and what it said."""
    path = folder / "roles.json"
    with held(command, folder, **environment) as (process, let_end):
        recording = None if attach else harness.attach(process.pid, path, "--interval", "100ms", *options)
        try:
            harness.wait_until(lambda: len(process.lines) >= lines, f"{lines} processes", seconds=60)
            recording = recording or harness.attach(process.pid, path, "--interval", "100ms", *options)
            recording.await_sample()
            said = list(process.lines)
            with contextlib.suppress(AssertionError):
                harness.wait_until(lambda: known(harness.report_of(path), said, helpers), "the roles", seconds=20, pause=0.2)
            let_end()
            process.finish(60)
            assert recording.wait() == 0, recording.stderr
        finally:
            if recording:
                recording.stop()
    report = recording.report()
    recording.timeline()
    return report, said


def check(report, said):
    rows = {row["pid"]: row for row in [report["parent"], *report["workers"]]}
    for line in said:
        assert {key: rows[line["pid"]][key] for key in line} == line
    return rows


ATTACH = pytest.mark.parametrize("attach", [False, True], ids=["from the start", "late"])


@ATTACH
def test_ranks_that_a_shell_starts(attach, tmp_path):
    command = ["/bin/bash", "-c", LAUNCHER, harness.PYTHON, ROLES]
    report, said = record(command, tmp_path, 7, attach, "--label", "run=first", "--label", "x=", TOKEN=SECRET)
    rows = check(report, said)
    assert sorted(row["role"] for row in report["workers"] if row["role"] != "other") == ["helper", "rank", "rank", *["worker"] * 4]
    assert report["parent"]["pid"] not in [line["pid"] for line in said] and report["parent"]["role"] == "parent"
    assert report["worker_slots"] == {"configured": None, "living_at_once": 4, "started": 4, "ranks": 2, "living_at_once_of_a_rank": 2}
    identity = report["identity"]
    assert (identity["job_id"], identity["world_size"], identity["labels"]) == ("job-7", 2, {"run": "first", "x": ""})
    assert identity["host"] == os.uname().nodename
    with open("/proc/sys/kernel/random/boot_id", encoding="utf-8") as boot_id:
        assert identity["boot_id"] == boot_id.read().strip()
    assert all(rows[line["pid"]]["generation"] == 0 for line in said if line["role"] == "worker")
    text = harness.run_cowprof("report", tmp_path / "roles.json").stdout
    assert "launcher" in text and "worker of rank 1" in text
    assert SECRET not in text + (tmp_path / "roles.json").read_text() + json.dumps(report)


FORKS_TWO = """
import os, time
for _ in range(2):
    if os.fork() == 0:
        time.sleep(0.3)
        os._exit(0)
for _ in range(2):
    os.wait()
"""
SHIMS = {
    # A wrapper script.
    "script": {"python3": "#!/bin/bash\nx=$(echo 1 | cat)\nexec {python} \"$@\"\n"},
    # What pyenv puts before every command.
    "pyenv": {
        "python3": "#!/usr/bin/env bash\nset -e\nprogram=\"${{0##*/}}\"\nexec {folder}/pyenv exec \"$program\" \"$@\"\n",
        "pyenv": "#!/usr/bin/env bash\nset -e\nfind() {{ echo \"$(command -v bash | cat)\"; }}\n"
                 "for i in 1 2 3; do x=\"$(find)\"; (cd / && pwd) >/dev/null; done\nshift 2\nexec {folder}/exec \"$@\"\n",
        "exec": "#!/bin/sh\ny=$(echo $(echo 1) | cat | cat)\nexec {python} \"$@\"\n"},
}


@pytest.mark.parametrize("shim", SHIMS)
def test_the_subshells_of_a_shim_are_helpers(shim, tmp_path):
    """The shell becomes Python by exec, often before cowprof has looked at what it forked."""
    for name, text in SHIMS[shim].items():
        (tmp_path / name).write_text(text.format(python=harness.PYTHON, folder=tmp_path))
        (tmp_path / name).chmod(0o755)
    for run in range(4):
        path = tmp_path / f"shim-{run}.json"
        result = harness.run_cowprof("--quiet", "--output", path, "--", tmp_path / "python3", "-c", FORKS_TWO)
        assert result.returncode == 0, result.stderr
        report = harness.report_of(path)
        roles = [row["role"] for row in report["workers"]]
        assert roles.count("worker") == 2 and roles.count("helper") >= 1, roles
        assert report["worker_slots"]["started"] == 2


@ATTACH
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
@pytest.mark.parametrize("version", planted.interpreters())
def test_ranks_that_number_themselves(version, method, attach, tmp_path):
    """They set os.environ, which only their memory shows."""
    python = planted.interpreters()[version]
    needs(f"Python {version}", python, "neither pyenv nor COWPROF_PYTHONS has it")
    report, said = record([python, ROLES, "environ", method], tmp_path, 7, attach)
    check(report, said)
    assert (report["worker_slots"]["ranks"], report["worker_slots"]["living_at_once_of_a_rank"]) == (2, 2)
    assert report["identity"]["world_size"] == 2


@ATTACH
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_beside_a_manager_and_a_tracker(method, attach, tmp_path):
    helpers = {"fork": 1, "spawn": 2, "forkserver": 2}[method]  # the manager, and the resource tracker
    report, said = record([harness.PYTHON, ROLES, "processes", method], tmp_path, 3, attach, helpers=helpers)
    check(report, said)
    roles = sorted(row["role"] for row in report["workers"])
    assert roles == [*["forkserver"] * (method == "forkserver"), *["helper"] * helpers, "worker", "worker"]
    assert report["worker_slots"]["ranks"] is None


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_that_changed_their_title(method, tmp_path):
    report, said = record([harness.PYTHON, ROLES, "titles", method], tmp_path, 3, True)
    check(report, said)
    assert {row["command"] for row in report["workers"] if row["role"] == "worker"} == {"my server: worker"}
    assert report["target"]["start_method"] == method


@ATTACH
@pytest.mark.parametrize("kind", ["pool", "joblib"])
def test_workers_of_pools(kind, attach, tmp_path):
    report, said = record([harness.PYTHON, ROLES, kind], tmp_path, 2, attach)
    check(report, said)
    assert [row["role"] for row in report["workers"] if row["role"] not in ("pool", "helper")] == []
    assert report["worker_slots"]["started"] == 2


CONFIGURED = """
import concurrent.futures, multiprocessing, multiprocessing.pool, os, sys, time
def rest(_):
    time.sleep(2.5)
if __name__ == "__main__":
    if sys.argv[1] == "pool":
        with multiprocessing.get_context("fork").Pool(5) as pool:
            pool.map_async(rest, range(2), chunksize=1).get()
    elif sys.argv[1] == "executor":
        kept = multiprocessing.pool.ThreadPool(3)
        with concurrent.futures.ProcessPoolExecutor(4) as pool:
            list(pool.map(rest, range(4)))
    else:
        with multiprocessing.pool.ThreadPool(9) as pool:
            if os.fork() == 0:
                rest(0)
                os._exit(0)
            pool.map(rest, range(9))
            os.wait()
"""


@pytest.mark.parametrize("kind, configured", [("pool", 5), ("executor", 4), ("threads", None)])
@pytest.mark.parametrize("version", planted.interpreters())
def test_slots_that_a_pool_is_to_have(version, kind, configured, tmp_path):
    python = planted.interpreters()[version]
    needs(f"Python {version}", python, "neither pyenv nor COWPROF_PYTHONS has it")
    (tmp_path / "pool.py").write_text(CONFIGURED)
    report = record_loader([python, tmp_path / "pool.py", kind], tmp_path / "pool.json")
    assert report["worker_slots"]["configured"] == configured


POOL_WITHIN = """
import concurrent.futures, multiprocessing, os, time
def rest(_):
    time.sleep(1)
def use_a_pool():
    os.register_at_fork(after_in_child=lambda: time.sleep(1))  # in the frames of the executor's worker
    with multiprocessing.get_context("fork").Pool(3) as pool:
        pool.map(rest, range(3), chunksize=1)
with concurrent.futures.ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("fork")) as executor:
    executor.submit(use_a_pool).result()
"""


def test_a_pool_that_a_worker_of_an_executor_starts(tmp_path):
    """Its workers stand in frames of the executor when they are looked at first."""
    path = tmp_path / "within.json"
    report = record_loader([harness.PYTHON, "-c", POOL_WITHIN], path)
    assert [row["role"] for row in report["workers"]].count("pool") == 4
    told = [name for record in harness.load_json(path)["records"] for _, name in record.get("frameworks", [])]
    assert told.count("executor") == 4 and told.count("pool") == 3
    assert report["target"]["framework"] == "pool"


def test_a_child_that_runs_python_once_more_is_not_a_worker(tmp_path):
    report, said = record([harness.PYTHON, ROLES, "again"], tmp_path, 2, False, RANK="1", WORLD_SIZE="2")
    check(report, said)
    assert report["worker_slots"] is None
    assert (report["parent"]["rank"], [row["role"] for row in report["workers"]]) == (1, ["other"])


def check_loader(report, persistent):
    workers = [row for row in report["workers"] if row["role"] == "worker"]
    generations = [0] if persistent else [0, 1]
    assert sorted((row["generation"], row["worker_id"]) for row in workers) == [(g, w) for g in generations for w in (0, 1)]
    assert [row["persistent_worker"] for row in workers] == [persistent] * len(workers)
    assert report["worker_slots"]["configured"] == 2
    # Of 40 batches an epoch, 20 for each worker. A number is up to 0.1 s old, and the last look is before the end.
    assert all(1 <= row["batches"] <= (40 if persistent else 20) for row in workers)


SHORT_EPOCH = """
import time
from torch.utils.data import DataLoader, Dataset
class Rows(Dataset):
    def __len__(self): return 600
    def __getitem__(self, index):
        time.sleep(0.005)
        return index
for batch in DataLoader(Rows(), batch_size=2, num_workers=2): pass
"""


def test_batches_of_workers_that_live_for_two_samples(tmp_path):
    """150 batches of 10 ms for each worker, and a sample each second: the last number that is read is 0.1 s old when it ends."""
    path = tmp_path / "short.json"
    done = harness.run_cowprof("--quiet", "--interval", "1s", "--output", path, "--", harness.PYTHON, "-c", SHORT_EPOCH, seconds=60 * harness.PATIENCE)
    assert done.returncode == 0, done.stderr
    workers = [row for row in harness.report_of(path)["workers"] if row["role"] == "worker"]
    assert [row["worker_id"] for row in workers] == [0, 1]
    assert all(row["batches"] is not None and 110 <= row["batches"] <= 150 for row in workers), workers


def record_loader(command, path):
    result = harness.run_cowprof("--quiet", "--interval", "100ms", "--output", path, "--", *command, seconds=180 * harness.PATIENCE)
    assert result.returncode == 0, result.stderr
    harness.validate(harness.load_json(path), "timeline.schema.json")
    return harness.report_of(path)


PERSISTENT = pytest.mark.parametrize("persistent", ["", "persistent"])


@PERSISTENT
def test_numbers_of_real_dataloader_workers(persistent, tmp_path):
    check_loader(record_loader([harness.PYTHON, ROLES, "loader", "fork", persistent], tmp_path / "loader.json"), bool(persistent))


@PERSISTENT
@pytest.mark.parametrize("suite, method", [("trixie", "fork"), ("sid", "fork"), ("sid", "forkserver")])
def test_numbers_of_newer_dataloader_workers(suite, method, persistent, chroot_of, tmp_path):
    command = chroot_of(suite).python("workloads/roles.py", "loader", method, persistent)
    check_loader(record_loader(command, tmp_path / "loader.json"), bool(persistent))


def test_trainers_of_torch_spawn(tmp_path):
    report = record_loader([harness.PYTHON, ROLES, "torch-spawn"], tmp_path / "spawn.json")
    ranks = {row["index"]: row["local_rank"] for row in report["workers"] if row["role"] == "rank"}
    assert sorted(ranks.values()) == [0, 1] and report["worker_slots"]["ranks"] == 2
    workers = [row for row in report["workers"] if row["role"] == "worker"]
    assert sorted((row["local_rank"], row["worker_id"]) for row in workers) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert all(ranks[row["parent_index"]] == row["local_rank"] for row in workers)


def test_labels_that_are_refused(tmp_path):
    for label in "x", "=x", "a b=c", "k=" + "v" * 2000:
        result = harness.run_cowprof("--label", label, "--", sys.executable, "-c", "")
        assert result.returncode == 2 and "--label" in result.stderr, (label, result)
    twice = harness.run_cowprof("--label", "a=1", "--label", "a=2", "--", "true")
    assert twice.returncode == 2 and "twice" in twice.stderr
    assert subprocess.run([harness.COWPROF, "--help"], capture_output=True, text=True, check=True).stdout.count("--label") == 1
