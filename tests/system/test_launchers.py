"""Launchers as they are, not imitated: torchrun, mpirun, srun. Ranks, workers and the job against what each process says of itself."""
import contextlib
import json
import os
import shutil
import socket
import subprocess
import time

import pytest

import harness
import memory_groups
import test_roles
from conftest import needs

MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2"]
SRUN = ["srun", "--ntasks=2", "--overlap"]
RANK = [harness.PYTHON, test_roles.ROLES, "rank"]
SLURM = ("munged", "slurmctld", "slurmd", "srun")


def check_ranks(report, said):
    """Two ranks with two workers each, as they said, and a launcher above."""
    test_roles.check(report, said)
    assert sorted((line["role"], line["rank"], line["local_rank"]) for line in said) == \
        [("rank", 0, 0), ("rank", 1, 1), *[("worker", 0, 0)] * 2, *[("worker", 1, 1)] * 2]
    pids = {row["pid"] for row in report["workers"] if row["role"] in ("rank", "worker", "pool")}
    assert pids == {line["pid"] for line in said}
    slots = report["worker_slots"]
    assert (slots["ranks"], slots["living_at_once"], slots["living_at_once_of_a_rank"]) == (2, 4, 2)
    assert report["identity"]["world_size"] == 2


def check_launcher(path, pid):
    line = next(line for line in harness.run_cowprof("report", path).stdout.splitlines() if str(pid) in line.split())
    assert line.split()[0] == "launcher", line


@pytest.mark.parametrize("attach", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["from the start", "late"])
def test_mpirun(attach, tmp_path):
    needs("package openmpi-bin", shutil.which("mpirun"), "install openmpi-bin")
    report, said = test_roles.record([*MPIRUN, *RANK], tmp_path, 6, attach)
    check_ranks(report, said)
    check_launcher(tmp_path / "roles.json", report["parent"]["pid"])
    assert report["identity"]["job_id"] is None


@pytest.mark.slow
def test_torchrun(chroot_of, tmp_path):
    """Each rank trains with a DataLoader of two workers, for two epochs."""
    command = chroot_of("sid").python("workloads/torchrun.py", "--nproc-per-node=2", "--rdzv-id=job-8", "--master-addr=127.0.0.1",
                                      f"--master-port={free_ports(1)[0]}", "/mnt/workloads/roles.py", "torchrun")
    path = tmp_path / "torchrun.json"
    result = harness.run_cowprof("--quiet", "--interval", "100ms", "--output", path, "--", *command, seconds=180 * harness.PATIENCE)
    assert result.returncode == 0, result.stderr
    said = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
    report = harness.report_of(path)
    rows = test_roles.check(report, said)
    assert sorted(line["rank"] for line in said) == [0, 1]
    workers = [row for row in report["workers"] if row["role"] == "worker"]
    assert sorted((row["rank"], row["local_rank"], row["generation"], row["worker_id"]) for row in workers) == \
        [(rank, rank, generation, worker) for rank in (0, 1) for generation in (0, 1) for worker in (0, 1)]
    assert all(rows[line["pid"]]["role"] == "rank" for line in said)
    assert report["worker_slots"] == {"configured": 2, "living_at_once": 4, "started": 8, "ranks": 2, "living_at_once_of_a_rank": 2}
    assert (report["identity"]["job_id"], report["identity"]["world_size"]) == ("job-8", 2)
    check_launcher(path, report["parent"]["pid"])


# ---- Slurm, on one node that the test starts ----

CONFIGURATION = """
ClusterName=cowprof
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=all Nodes={host} Default=YES OverSubscribe=FORCE:8
"""


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


@contextlib.contextmanager
def slurm_node(folder, configuration=""):
    """Starts Slurm on this node, with these lines in its configuration as well. The environment in which srun finds it."""
    missing = [name for name in SLURM if not shutil.which(name)]
    needs("package slurmd", not missing, f"no {', '.join(missing)}: install slurmctld, slurmd, slurm-client and munge")
    for name in "state", "spool":
        (folder / name).mkdir()
    (folder / "munge.key").write_bytes(os.urandom(1024))
    (folder / "munge.key").chmod(0o400)
    host = socket.gethostname().split(".")[0]
    (folder / "slurm.conf").write_text(CONFIGURATION.format(host=host, folder=folder, ports=free_ports(2)) + configuration)
    environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
    daemons = []

    def start(*command):
        with (folder / f"{command[0]}.log").open("w") as log:
            daemons.append(subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log))

    try:
        start("munged", "--foreground", "--force", *(f"--{name}={folder}/munge.{end}" for name, end in [
            ("socket", "socket"), ("key-file", "key"), ("pid-file", "pid"), ("log-file", "log"), ("seed-file", "seed")]))
        harness.wait_until((folder / "munge.socket").exists, "munge's socket")
        start("slurmctld", "-D", "-c")
        start("slurmd", "-D")

        def idle():
            state = subprocess.run(["sinfo", "--noheader", "--format=%t"], env=environment, capture_output=True, text=True)
            return state.stdout.strip() == "idle"

        harness.wait_until(idle, "the node", 60 * harness.PATIENCE, pause=0.2)
        yield environment

        def no_jobs():
            subprocess.run(["scancel", "--user=root"], env=environment, check=False)
            return not subprocess.run(["squeue", "--noheader"], env=environment, capture_output=True, text=True).stdout.strip()

        harness.wait_until(no_jobs, "the end of the jobs", 60 * harness.PATIENCE, pause=0.5)  # their steps outlive slurmd
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
        for daemon in daemons:
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    with slurm_node(tmp_path_factory.mktemp("slurm")) as environment:
        yield environment


@pytest.mark.slow
def test_srun_attached_to_its_step(slurm, tmp_path):
    """Ranks are children of slurmstepd, not of srun."""
    path = tmp_path / "step.json"
    with test_roles.held([*SRUN, *RANK], tmp_path, SLURM_CONF=slurm["SLURM_CONF"]) as (process, let_end):
        harness.wait_until(lambda: len(process.lines) >= 6, "6 processes", seconds=60)
        said = list(process.lines)
        rank = next(line["pid"] for line in said if line["role"] == "rank")
        with open(f"/proc/{rank}/stat", encoding="utf-8") as stat:
            step = int(stat.read().rpartition(")")[2].split()[1])
        recording = harness.attach(step, path, "--interval", "100ms")
        try:
            recording.await_sample()
            harness.wait_until(lambda: test_roles.known(harness.report_of(path), said, 0), "the roles", seconds=20, pause=0.2)
            let_end()
            process.finish(60)
            assert recording.wait() == 0, recording.stderr
        finally:
            recording.stop()
    report = recording.report()
    check_ranks(report, said)
    check_launcher(path, step)
    assert report["identity"]["job_id"].isdigit()


@pytest.mark.slow
def test_srun_of_a_recorder_for_each_rank(slurm, tmp_path):
    script = f'exec "$@" --output {tmp_path}/$SLURM_JOB_ID-$SLURM_PROCID.json -- {" ".join(map(str, RANK))}'
    command = [*SRUN, "bash", "-c", script, "bash", harness.COWPROF, "--quiet", "--interval", "100ms"]
    with test_roles.held(command, tmp_path, SLURM_CONF=slurm["SLURM_CONF"]) as (process, let_end):
        harness.wait_until(lambda: len(process.lines) >= 6, "6 processes", seconds=60)
        time.sleep(1)  # some samples
        said = list(process.lines)
        let_end()
        process.finish(60)
    paths = sorted(tmp_path.glob("*.json"))
    jobs = {path.stem.split("-")[0] for path in paths}
    assert len(jobs) == 1 and [path.stem.split("-")[1] for path in paths] == ["0", "1"]
    for number, path in enumerate(paths):
        report = harness.report_of(path)
        rows = {row["pid"]: row for row in [report["parent"], *report["workers"]]}
        assert report["parent"]["rank"] == report["parent"]["local_rank"] == number
        assert (report["identity"]["job_id"], report["identity"]["world_size"]) == (jobs.copy().pop(), 2)
        own = [line for line in said if line["rank"] == number]
        assert {line["pid"] for line in own} == {pid for pid, row in rows.items() if row["role"] in ("parent", "worker")}
        assert all(rows[line["pid"]]["rank"] == number for line in own)


def test_the_task_prolog_takes_a_folder_with_a_percent_sign(tmp_path):
    """In --output `%h` is the host."""
    prolog = harness.REPOSITORY / "share" / "slurm" / "task_prolog.sh"
    folder = tmp_path / "50%here"
    recording = folder / "4711.0-1.json"
    with subprocess.Popen(["sleep", "infinity"]) as task:
        environment = {**os.environ, "COWPROF": str(harness.COWPROF), "COWPROF_DIR": str(folder), "SLURM_JOB_ID": "4711", "SLURM_STEP_ID": "0",
                       "SLURM_PROCID": "1", "SLURM_TASK_PID": str(task.pid)}
        try:
            subprocess.run([prolog], env=environment, check=True, timeout=harness.DEADLINE)
            harness.wait_until(lambda: harness.has_sample(recording), "a sample")
        finally:
            task.kill()
    harness.wait_until(lambda: harness.last_record(recording).get("reason") == "target ended", "the end of the recording")


def test_the_task_prolog_of_a_requeued_job_leaves_no_old_recording(tmp_path):
    """Of a recorder that fails the epilog would report it, and of one that begins the prolog would take it for the new one."""
    old = tmp_path / "4711.0-1.json"
    old.write_text("the run before")
    environment = {**os.environ, "COWPROF": "/bin/false", "COWPROF_DIR": str(tmp_path), "SLURM_JOB_ID": "4711", "SLURM_STEP_ID": "0",
                   "SLURM_PROCID": "1", "SLURM_TASK_PID": str(os.getpid())}
    subprocess.run([harness.REPOSITORY / "share" / "slurm" / "task_prolog.sh"], env=environment, check=True, timeout=harness.DEADLINE)
    assert not old.exists() and (tmp_path / "4711.0-1.json.old").read_text() == "the run before"


@pytest.mark.slow
def test_task_prolog_and_epilog_say_in_the_jobs_log_why_a_rank_died(tmp_path_factory, tmp_path):
    """The workers of rank 1 are killed in their cgroup; rank 0 is well but for its copies."""
    needs("memory-cgroup", memory_groups.memory_root() is not None, "no memory cgroup that can be divided")
    scripts = harness.REPOSITORY / "share" / "slurm"
    lines = f"TaskProlog={scripts}/task_prolog.sh\nTaskEpilog={scripts}/task_epilog.sh\n"
    log, recordings = tmp_path / "job.log", tmp_path / "recordings"
    program = harness.REPOSITORY / "tests" / "system" / "workloads" / "fleet_rank.py"
    (tmp_path / "go").touch()
    with memory_groups.MemoryGroup(limit_bytes=24 << 20) as group, slurm_node(tmp_path_factory.mktemp("slurm"), lines) as environment:
        environment = {**environment, "GROUP": str(group.folder), "COWPROF": str(harness.COWPROF), "COWPROF_DIR": str(recordings)}
        (tmp_path / "job.sh").write_text(f"#!/bin/sh\nsrun --ntasks=2 {harness.PYTHON} {program} {tmp_path} 1 120000\n")
        subprocess.run(["sbatch", "--wait", "--ntasks=2", f"--output={log}", tmp_path / "job.sh"], env=environment, check=False,
                       timeout=120 * harness.PATIENCE)
    said = [line for line in log.read_text().splitlines() if line.startswith("cowprof, rank 1 on ")]
    assert len(said) == 1 and "OOM killer" in said[0] and "hit its limit of 24.0 MiB" in said[0], log.read_text()
    paths = sorted(recordings.glob("*.json"))
    assert [path.stem.rpartition("-")[2] for path in paths] == ["0", "1"], paths
    assert not list(recordings.glob("*.pid"))
    for path in paths:
        parent = harness.report_of(path)["parent"]
        assert "fleet_rank.py" in parent["command"] and parent["copies"] > 0
    assert harness.run_cowprof("report", recordings).stdout.startswith("In rank 1, worker ")
