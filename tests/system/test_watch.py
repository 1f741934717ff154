"""`cowprof watch`: whom it finds, that each gets a recording that is true and whole, what becomes of these, and what strangers can't do."""
import os
import re
import signal
import stat
import subprocess
import time
import urllib.request
from pathlib import Path

import pytest

import harness
import watched_host
from conftest import needs
from test_metrics import rows_of
from test_output_file import SUDO, small_disk  # pylint: disable=unused-import
from test_serve import status_of

STORM = """
import os, time
end = time.monotonic() + %g
when = time.monotonic()
forks = 0
while time.monotonic() < end:
    if os.fork() == 0:
        time.sleep(%g)
        os._exit(0)
    forks += 1
    when += 0.001
    time.sleep(max(0, when - time.monotonic()))
    try:
        while os.waitpid(-1, os.WNOHANG)[0]: pass
    except ChildProcessError: pass
print('{"forks": %%d}' %% forks, flush=True)
"""


@pytest.fixture
def host():
    one = watched_host.Host()
    yield one
    one.stop()


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "recordings"
    path.mkdir()
    return path


def scrape(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=harness.DEADLINE) as answer:
        return answer.read().decode()


def check_truth(path, pages):
    report = harness.report_of(path)
    assert report["exactness"]["copies"] == "exact"
    assert pages <= report["totals"]["copies"] <= pages + 600, (pages, report["totals"])
    assert not any(report["losses"].values()), report["losses"]


# ---- Whom it finds, and what becomes of the recordings ----

def test_roots_come_and_go(host, folder):
    first = host.trainer(0, WORLD_SIZE="2")
    server = host.python("-c", "print('{}', flush=True); input()", "a master")
    stranger = host.python("-c", "print('{}', flush=True); input()")
    watch = host.watch(folder, "--match", "a mast[e]r$", "--metrics-listen", "127.0.0.1:0", "--metrics-file", folder / "all.prom", "--interval", "200ms")
    port = int(re.search(r"metrics at http://127.0.0.1:(\d+)/metrics", harness.wait_until(watch.said, "its first line"))[1])
    pool = host.python("-c", watched_host.POOL)
    recordings = {process: watch.recording(process) for process in (first, server, pool)}
    for process in (first, server, pool):
        assert f"found process {process.inner} (" in watch.said()
    assert "every machine" not in watch.said()
    assert re.search(rf"process {first.inner} \(.*\): its environment has a rank", watch.said())
    assert re.search(rf"process {pool.inner} \(.*\): it keeps workers", watch.said())
    assert re.fullmatch(rf"cowprof-.+-none-0-{first.inner}-\d{{8}}T\d{{6}}Z.json", recordings[first].name)

    # One recorder dies: it is said, and no other notices.
    os.kill(watch.recorders()[server.inner], signal.SIGKILL)
    harness.wait_until(lambda: f"the recorder of process {server.inner} was killed by SIGKILL" in watch.said(), "the death of a recorder")

    # Metrics of all are one page.
    rows = harness.wait_until(lambda: (rows := rows_of(scrape(port))).get("cowprof_watch_recorder_failures_total") and rows, "a failure in the metrics")
    recording = {series: value for series, value in rows.items() if series.startswith("cowprof_recording{")}
    assert len(recording) == 3 and 'cowprof_recording{recorder="0",rank="0"}' in recording, recording
    assert sum(value for series, value in rows.items() if series.startswith("cowprof_workers{")) == 2
    text = scrape(port)
    assert len(re.findall("^# TYPE cowprof_workers gauge$", text, re.M)) == 1

    # A root ends: its recording has its end, and the truth.
    first.go()
    harness.wait_until(lambda: harness.last_record(recordings[first]).get("reason") == "target ended", "the end of a recording")
    check_truth(recordings[first], first.lines[0]["pages"])
    began = time.monotonic()
    assert watch.end() == 0, watch.said()
    assert time.monotonic() - began < 2 * harness.PATIENCE
    assert harness.last_record(recordings[pool])["reason"] == "interrupted"
    assert not list(folder.glob(f"*-{stranger.inner}-*")) and len(list(folder.glob("cowprof-*.json"))) == 3
    last = rows_of((folder / "all.prom").read_text())
    assert last["cowprof_watch_recorders"] == 0 and last["cowprof_watch_recorder_starts_total"] == 3
    assert [series for series, value in last.items() if series.startswith("cowprof_recording{") and value] == ['cowprof_recording{recorder="1"}']  # was killed


PLAIN = """
import multiprocessing, sys, time
rows = [str(i) for i in range(100_000)]
def read(rows):
    time.sleep(float(sys.argv[1]))
    sum(map(len, rows))
print('{}', flush=True)
for _ in range(int(sys.argv[2])):
    workers = [multiprocessing.get_context('fork').Process(target=read, args=(rows,)) for _ in range(2)]
    for worker in workers: worker.start()
    for worker in workers: worker.join()
input()
"""


def test_plain_processes_are_found_by_match_alone(host, folder):
    """Children of multiprocessing.Process are like a server's, and workers that live under a second may be between two looks."""
    first, second = (host.python("-c", PLAIN, "8" if name == "long" else "0.3", "1" if name == "long" else "30", f"{name}-plain.py")
                     for name in ("long", "short"))
    stranger = host.python("-c", PLAIN, "8", "1", "unnamed.py")
    watch = host.watch(folder, "--match", "[a-z]+-plain.py$", "--interval", "200ms")
    recordings = [watch.recording(process) for process in (first, second)]
    for recording in recordings:
        harness.wait_until(lambda path=recording: harness.report_of(path)["totals"]["copies"] > 500, "copies of the workers", pause=0.2)
    assert watch.said().count("its command line matches") == 2 and watch.end() == 0
    for recording in recordings:
        workers = [row for row in harness.report_of(recording)["workers"] if row["role"] == "worker"]
        assert len(workers) >= 2 and sum(row["copies"] for row in workers) > 500, workers
    assert not list(folder.glob(f"*-{stranger.inner}-*"))


def test_rights_and_hostile_names(host, folder):
    """Each process has what THREATS.md says. No name leaves its place."""
    name = '\x1b[31m"\n\\\u202ecowprof: \r{x="1"} 7'
    trainer = host.python("-c", "print('{}', flush=True); input()", name, RANK="1" * 4096, LOCAL_RANK=name, OMPI_COMM_WORLD_RANK="2",
                          SLURM_JOB_ID="../../" + "j" * 100)
    watch = host.watch(folder, "--metrics-file", folder / "all.prom", "--match", "\\(.*7")
    recording = watch.recording(trainer)
    harness.wait_until(lambda: "recorder=" in (folder / "all.prom").read_text(), "metrics")
    rows_of((folder / "all.prom").read_text())
    assert recording.parent == folder and re.fullmatch(rf"[A-Za-z0-9_.-]+-.._.._j+-2-{trainer.inner}-\w+\.json", recording.name)
    said = watch.said()
    assert len(said.splitlines()) == 2 and said.isascii() and "\x1b" not in said and "found process" in said.splitlines()[1], said

    def capabilities(pid):
        fields = status_of(pid)
        return {name: int(fields[name], 16) for name in ("CapPrm", "CapEff", "CapBnd", "CapInh")}, fields
    sets, fields = capabilities(watch.pid)
    needed = {7, 6, 8, 2, 14, 19, 21, 38, 39}  # SETUID, SETGID, SETPCAP, DAC_READ_SEARCH, IPC_LOCK, SYS_PTRACE, SYS_ADMIN, PERFMON, BPF
    assert {bit for bit in range(64) if sets["CapPrm"] >> bit & 1} <= needed and sets["CapBnd"] == sets["CapPrm"] and fields["NoNewPrivs"] == "1"
    sets, fields = capabilities(watch.scanner)
    assert sets["CapPrm"] == sets["CapEff"] == 1 << 19 | 1 << 2 and sets["CapBnd"] == 0, sets
    assert fields["Uid"].split() == [str(harness.NOBODY)] * 4 and fields["Seccomp"] == "2" and fields["NoNewPrivs"] == "1"
    (server,) = [pid for pid, comm in watch.processes().items() if comm == "cowprof-metrics"]
    sets, fields = capabilities(server)
    assert not any(sets.values()) and fields["Uid"].split() == [str(harness.NOBODY)] * 4 and fields["Seccomp"] == "2"
    assert watch.end() == 0


def test_a_real_dataloader_is_found_by_its_workers(host, folder):
    trainer = host.python(harness.REPOSITORY / "tests/system/dataloader.py", "--items", "300000", "--epochs", "4", "--seconds", "20")
    watch = host.watch(folder)
    recording = watch.recording(trainer)
    harness.wait_until(lambda: harness.last_record(recording).get("reason") == "target ended", "the end of the training", 60)
    assert watch.said().count(f"found process {trainer.inner} (") == 1 and "it keeps workers" in watch.said()  # over all epochs
    report = harness.report_of(recording)
    # Before the attach the first epoch has copied, on a busy machine most of it.
    assert "cow-refcount" in [diagnosis["id"] for diagnosis in report["diagnoses"]] and len(report["workers"]) >= 4, report["headline"]
    assert len(list(folder.glob("*.json"))) == 1


def test_too_many(host, folder):
    trainers = [host.trainer(rank) for rank in range(4)]
    watch = host.watch(folder, "--at-most", "2", "--metrics-listen", "0.0.0.0:0")
    assert re.search(r"metrics at http://[^ ]+:\d+/metrics, for every machine that reaches this address\n",
                     harness.wait_until(watch.said, "its first line"))
    oldest = [watch.recording(trainer) for trainer in trainers[:2]]
    harness.wait_until(lambda: f"2 trainers are not recorded, since 2 are, and no more may be (--at-most), process {trainers[2].inner} among them" in watch.said(),
                       "that some are left out")
    trainers[0].go()
    watch.recording(trainers[2])
    assert len(list(folder.glob("*.json"))) == 3 and harness.last_record(oldest[0])["reason"] == "target ended"
    assert watch.end() == 0


@pytest.mark.parametrize("ignored", [True, False], ids=["nohup", "without"])
def test_a_hangup(host, folder, ignored):
    trainer = host.trainer(0)
    watch = host.watch(folder, preexec_fn=(lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)) if ignored else None)
    if not ignored:
        assert watch.end(signal.SIGHUP) == 0
        return
    os.kill(watch.pid, signal.SIGHUP)
    assert watch.recording(trainer)
    assert watch.end() == 0


def test_a_hook_that_runs_may_end(host, folder, tmp_path):
    """watch waits for it, and still ends with status 0."""
    hook = tmp_path / "hook.sh"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/began\nsleep 4\ntouch {tmp_path}/ended\n")
    hook.chmod(0o755)
    host.python(harness.REPOSITORY / "tests/system/workloads/open_files.py", "--line", RANK="0")
    watch = host.watch(folder, "--alert-at=off", "--alert-eta=off", "--alert-at=fds=50%:100ms", "--on-alert", hook)
    harness.wait_until((tmp_path / "began").exists, "the hook")
    assert watch.end() == 0 and (tmp_path / "ended").exists(), watch.said()


def test_watch_is_killed(host, folder):
    """Its recorders end all the same, with whole recordings, and nothing else is left."""
    trainers = [host.trainer(rank) for rank in range(2)]
    watch = host.watch(folder, "--metrics-file", folder / "all.prom")
    recordings = [watch.recording(trainer) for trainer in trainers]
    left = list(watch.processes())
    watch.stop()
    # Their new parent, init of the namespace, reaps nobody.
    harness.wait_until(lambda: all(status_of(pid)["State"].startswith("Z") for pid in left), "the end of all processes")
    assert [harness.last_record(path)["reason"] for path in recordings] == ["interrupted"] * 2


def test_ended_recordings_are_removed_and_nothing_else(host, folder):
    trainer = host.trainer(0)
    watch = host.watch(folder)
    ended = watch.recording(trainer)
    assert watch.end() == 0
    name = re.sub(r"-\d+-(\d{8}T)", r"-77-\1", ended.name)
    (folder / name).write_bytes(ended.read_bytes())
    os.utime(folder / name, (1, 1))
    others = {"notes.json": "{}", re.sub("-77-", "-78-", name): "no recording", "cowprof-1.json": ended.read_text(),
              re.sub("-77-", "-79-", name) + ".old": ended.read_text()}
    for other, text in others.items():
        (folder / other).write_text(text)
    for other, owner in ((re.sub("-77-", "-80-", name), harness.NOBODY),):
        (folder / other).write_text(ended.read_text())
        os.chown(folder / other, owner, owner)
    (folder / re.sub("-77-", "-81-", name)).symlink_to(ended)
    os.mkfifo(folder / re.sub("-77-", "-82-", name))
    os.link(folder / "cowprof-1.json", folder / re.sub("-77-", "-83-", name))
    for path in folder.iterdir():
        os.utime(path, (1, 1), follow_symlinks=False)
    before = {path.name for path in folder.iterdir()}
    living = host.trainer(1)
    watch = host.watch(folder, "--keep", "1h")
    assert watch.recording(living)
    assert before - {path.name for path in folder.iterdir()} == {ended.name, name}, watch.said()
    # Of the living one not even a size of 1 byte takes anything, by another watch either.
    other = host.watch(folder, "--keep", "1B", "--at-most", "1")
    time.sleep(2)
    assert watch.recording(living) and other.end() == 0
    assert watch.end() == 0 and harness.last_record(watch.recording(living))["reason"] == "interrupted"


def test_a_process_that_can_not_be_looked_at(host, folder, tmp_path):
    """It keeps one scanner, and nothing else: a trainer that comes later is found. Once that scanner can end, it leaves nothing."""
    needs("FUSE", os.access("/dev/fuse", os.W_OK), "/dev/fuse is missing")
    (tmp_path / "fuse").mkdir()
    stranger = host.python(harness.REPOSITORY / "tests/system/workloads/unanswered_library.py", tmp_path / "fuse")
    watch = host.watch(folder)
    harness.wait_until(lambda: f"a look at process {stranger.lines[0]['child']} does not return; that process is left out" in watch.said(), "a scanner that hangs")
    trainer = host.trainer(0)
    watch.recording(trainer)
    assert watch.said().count("does not return") == 1
    stranger.go()  # it ends, and so do reads of its files
    harness.wait_until(lambda: list(watch.processes().values()).count("cowprof-scan") == 1, "the end of the scanner that hung")
    assert watch.end() == 0
    subprocess.run(host.command("umount", "--lazy", tmp_path / "fuse"), check=True)


# ---- Folders ----

@pytest.mark.parametrize("case", ["in none", "read-only", "a file", "of another, under sudo", "missing, under sudo"])
def test_a_folder_that_can_not_be_written_is_refused(case, open_folder):
    folder = open_folder / "folder"
    prefix, environment = [], dict(os.environ)
    if case == "a file":
        folder.touch()
    elif case == "in none":
        folder = folder / "recordings"
    elif case != "missing, under sudo":
        folder.mkdir()
    if case == "read-only":
        prefix = ["unshare", "--mount", "sh", "-c", 'mount -t tmpfs -o ro tmpfs "$1"; shift; exec "$@"', "sh", folder]
    if case.endswith("under sudo"):
        environment.update(SUDO)
    done = subprocess.run([*prefix, harness.COWPROF, "watch", "-d", folder], env=environment, capture_output=True, text=True, timeout=harness.DEADLINE,
                          check=False)
    assert done.returncode == 6 and len(done.stderr.splitlines()) == 1 and "name a folder with --folder" in done.stderr, done.stderr
    assert (f"; run: sudo install -d -o {harness.NOBODY} {folder}; or " in done.stderr) == (case == "missing, under sudo"), done.stderr


def test_under_sudo_all_is_done_as_the_invoking_user(host, nobodys_folder):
    folder = nobodys_folder / "recordings"  # is missing
    trainer = host.trainer(0)
    watch = host.watch(folder, "--metrics-file", folder / "all.prom", env={**os.environ, **SUDO})
    watch.recording(trainer)
    assert watch.end() == 0
    assert {path.stat().st_uid for path in (folder, *folder.iterdir())} == {harness.NOBODY} and len(list(folder.iterdir())) == 2
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_full_folder(small_disk, host):
    trainer = host.trainer(0)
    with open(small_disk / "filler", "wb", buffering=0) as filler:
        try:
            while True:
                filler.write(b"x" * 4096)
        except OSError:
            pass
    watch = host.watch(small_disk)
    harness.wait_until(lambda: f"the recorder of process {trainer.inner} ended with status 6" in watch.said(), "a failure")
    (small_disk / "filler").unlink()
    assert watch.recording(trainer)  # after 10 s
    assert watch.said().count("ended with status") == 1
    assert watch.end() == 0


# ---- What it costs ----

def run_seconds(pid):
    """To the nanosecond: scans are shorter than the tick by which stat counts."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9


@pytest.mark.parametrize("life", [0.005, 1.5], ids=["short", "long"])
def test_strangers_that_fork_a_thousand_times_a_second(host, folder, life, figure):
    """CPU time of all processes of watch, beside the storm and without it."""
    watch = host.watch(folder)
    pids = [watch.pid, watch.scanner]

    def used(seconds):
        began, clock = sum(map(run_seconds, pids)), time.monotonic()
        time.sleep(seconds)
        return (sum(map(run_seconds, pids)) - began) / (time.monotonic() - clock)
    quiet = used(20)
    storm = harness.Process(host.command(harness.PYTHON, "-c", STORM % (25, life)))
    time.sleep(2)
    busy = used(20)
    forks = harness.wait_until(lambda: storm.lines, "the end of the storm", 60)[0]["forks"]
    storm.stop()
    figure("watch", f"1000 forks/s, children live {life} s", f"{forks / 25:.0f} forks/s: {100 * busy:.2f} % of a core, without them {100 * quiet:.2f} %")
    assert forks > 25 * 600 and busy < 0.02, (forks, quiet, busy)
    trainer = host.trainer(0)
    watch.recording(trainer)
