"""The privileges that cowprof needs and keeps: capabilities instead of root, one missing at a time, and what a running recorder holds.

Everything runs as real users: an ordinary one with capabilities (ambient or of the file), root, and root through sudo.
"""
import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

import harness
from conftest import needs
from container import OF_ENGINES
from counting import assert_near

USER = 4321  # an arbitrary unprivileged user
NUMBERS = {"dac_read_search": 2, "kill": 5, "ipc_lock": 14, "sys_ptrace": 19, "sys_admin": 21, "perfmon": 38, "bpf": 39}
PROBES = {"bpf", "perfmon"}
OWN = PROBES | {"sys_ptrace"}
OTHERS = OWN | {"dac_read_search"}
READS = {"sys_ptrace", "dac_read_search", "sys_admin", "ipc_lock"}
PAGES = 3000
SUDO = {"SUDO_UID": str(USER), "SUDO_GID": str(USER), "SUDO_USER": "somebody"}


def as_user(capabilities=()):
    """The command prefix that makes an ordinary user run it with these capabilities and no way to gain others."""
    some = ",".join(f"+{name}" for name in sorted(capabilities))
    sets = [f"--inh-caps=-all,{some}", f"--ambient-caps=-all,{some}", f"--bounding-set=-all,{some}"] if some else [
        "--inh-caps=-all", "--ambient-caps=-all", "--bounding-set=-all"]
    return ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", *sets]


def words_of(mask):
    """The capability names in a mask from /proc/PID/status; the bit number where NUMBERS has no name."""
    names = {number: name for name, number in NUMBERS.items()}
    return {names.get(bit, bit) for bit in range(64) if mask >> bit & 1}


@pytest.fixture
def tool(open_folder):
    """A cowprof that every user can run, in a folder that every user can write."""
    open_folder.chmod(0o777)
    return Path(shutil.copy(harness.COWPROF, open_folder / "cowprof"))


@pytest.fixture
def start_target(open_folder):
    """start_target(uid) starts a workload as that user; it waits before it copies its pages."""
    started = []
    workload = shutil.copy(harness.WORKLOADS / "fork_copies", open_folder / "fork_copies")

    def start(uid):
        words = as_user() if uid == USER else []
        started.append(harness.Process([*words, workload, f"--pages={PAGES}", "--wait"]))
        started[-1].await_line("role", "ready")
        return started[-1]

    yield start
    for process in started:
        process.stop()


def record(tool, target, words, *options):
    """Attaches, releases the target, waits for the end, returns the recording."""
    path = tool.parent / "out.json"
    recording = harness.Recording.__new__(harness.Recording)
    recording.path, recording.stderr = path, ""
    recording.popen = subprocess.Popen([*words, tool, "--attach", str(target.pid), "--output", path, "--quiet", *options], text=True,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    recording.pid = recording.popen.pid
    try:
        recording.await_sample()
        target.go()
        assert recording.wait() == 0, recording.stderr
    finally:
        recording.stop()
    return recording


def assert_exact(recording, target):
    report = recording.report()
    assert report["exactness"]["rung"] == "btf-tracepoints"
    for line in target.finish():
        if line["role"] == "child":
            assert_near(harness.row_of(report, line["pid"])["copies"], line["planted_copies"], "copies")
            assert line["planted_copies"] == PAGES
    return report


def refusal(tool, target, words):
    """Attaches in vain and returns the single line of refusal, which must come at once (5 s allow for a busy machine)."""
    began = time.monotonic()
    result = subprocess.run([*words, tool, "--attach", str(target.pid), "--output", tool.parent / "out.json"], text=True,
                            capture_output=True, timeout=harness.DEADLINE, check=False)
    assert time.monotonic() - began < 5
    assert result.returncode in (4, 5) and result.stdout == "", (result.returncode, result.stderr)
    assert len(result.stderr.splitlines()) == 1, result.stderr
    assert not (tool.parent / "out.json").exists()
    assert target.popen.poll() is None
    return result.stderr


# ---- Capabilities instead of root ----

def test_three_capabilities_record_the_users_own_process(tool, start_target):
    target = start_target(USER)
    assert_exact(record(tool, target, as_user(OWN)), target)


def test_a_fourth_capability_records_another_users_process(tool, start_target):
    target = start_target(0)
    report = assert_exact(record(tool, target, as_user(OTHERS)), target)
    worker = report["workers"][0]
    assert worker["private_bytes"] >= PAGES * harness.PAGE  # comes from smaps_rollup, so that could be read


def test_capabilities_of_the_file(tool, start_target):
    """File capabilities from setcap: an ordinary user runs it, and nothing is inherited."""
    names = ",".join(f"cap_{name}" for name in sorted(OTHERS))
    done = subprocess.run(["setcap", f"{names}+ep", tool], capture_output=True, text=True, check=False)
    needs("file capabilities", done.returncode == 0, done.stderr)
    for uid in USER, 0:
        target = start_target(uid)
        recording = record(tool, target, ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"])
        assert_exact(recording, target)
        assert recording.path.stat().st_uid == USER
        recording.path.unlink()


@pytest.mark.parametrize("capabilities", [PROBES, OTHERS], ids=["own", "others"])
def test_with_capabilities_of_the_file_the_program_runs_as_without(capabilities, tool):
    """The C library has removed variables from cowprof's environment, and cowprof could find programs that its user may not see."""
    names = ",".join(f"cap_{name}" for name in sorted(capabilities))
    done = subprocess.run(["setcap", f"{names}+ep", tool], capture_output=True, text=True, check=False)
    needs("file capabilities", done.returncode == 0, done.stderr)

    def run(program, **variables):
        words = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", tool, "--quiet", "--output", "out.json", "--", program]
        return subprocess.run(words, capture_output=True, text=True, timeout=harness.DEADLINE, check=False, cwd=tool.parent,
                              env={**os.environ, **variables})

    result = run("/usr/bin/env", LD_LIBRARY_PATH="/opt/lib", TMPDIR="/scratch", SLURM_JOB_ID="77")
    assert result.returncode == 0, result.stderr
    for variable in "LD_LIBRARY_PATH=/opt/lib", "TMPDIR=/scratch", "SLURM_JOB_ID=77":
        assert result.stdout.splitlines().count(variable) == 1, result.stdout
    hidden = tool.parent / "hidden"
    hidden.mkdir(mode=0o700)
    shutil.copy("/usr/bin/true", hidden / "true")
    for name in "true", "none":
        result = run(hidden / name)
        assert result.returncode == 126 and "Permission denied" in result.stderr, result


@pytest.mark.parametrize("missing", sorted(PROBES))
def test_without_a_capability_that_the_probes_need(missing, tool, start_target):
    """cowprof uses a lesser rung or refuses and names the capability; doctor agrees."""
    target = start_target(USER)
    words = as_user(OWN - {missing})
    doctor = subprocess.run([*words, tool, "doctor", "--json"], capture_output=True, text=True, check=False)
    facts = json.loads(doctor.stdout)
    held = {fact["name"]: fact["held"] for fact in facts["privileges"]}
    assert {name for name in OWN if held[f"CAP_{name.upper()}"]} == OWN - {missing}
    best = facts["rungs"][0]
    assert not best["usable"] and f"CAP_{missing.upper()} missing" in best["reason"] and "privileges.md" in best["remedy"]
    assert (doctor.returncode == 0) == (facts["rung"] is not None)
    if facts["rung"] is None:
        assert f"CAP_{missing.upper()} missing" in refusal(tool, target, words)
    else:
        document = record(tool, target, words).timeline()
        assert f"CAP_{missing.upper()} missing" in json.dumps(document["header"])


def test_without_ptrace_the_users_own_process_is_counted(tool, start_target):
    target = start_target(USER)
    assert_exact(record(tool, target, as_user(PROBES)), target)


def test_without_dac_read_search_other_users_are_refused(tool, start_target):
    target = start_target(0)
    said = refusal(tool, target, as_user(OTHERS - {"dac_read_search"}))
    assert "CAP_DAC_READ_SEARCH missing" in said and str(target.pid) in said and "sudo" in said


def test_without_ptrace_other_users_are_counted_or_refused(tool, start_target):
    """Since Linux 6.15 CAP_PERFMON opens the page map but not the memory; a note says what is missing then."""
    target = start_target(0)
    words = as_user(OTHERS - {"sys_ptrace"})
    may_look = subprocess.run([*words, "head", "-c0", f"/proc/{target.pid}/pagemap"], capture_output=True, check=False).returncode == 0
    if not may_look:
        assert "CAP_SYS_PTRACE missing" in refusal(tool, target, words)
        return
    recording = record(tool, target, words)
    assert_exact(recording, target)
    notes = [r["text"] for r in recording.timeline()["records"] if r.get("event") == "note"]
    assert any("CAP_SYS_PTRACE missing" in note and "without causes, types and lines" in note for note in notes), notes


def test_sys_admin_adds_only_page_frames(tool, start_target):
    """The copies and the private bytes are the same with and without it."""
    for capabilities in OWN, OWN | {"sys_admin"}:
        target = start_target(USER)
        recording = record(tool, target, as_user(capabilities))
        report = assert_exact(recording, target)
        assert report["workers"][0]["private_bytes"] >= PAGES * harness.PAGE
        recording.path.unlink()


def test_locked_memory_is_not_required(tool, start_target):
    """With RLIMIT_MEMLOCK of 0: since Linux 5.11 BPF memory does not count against it, and locking its own memory is optional."""
    target = start_target(USER)
    assert_exact(record(tool, target, ["prlimit", "--memlock=0:0", *as_user(OWN)]), target)


def test_doctor_lists_each_capability_with_what_it_gives(tool):
    for capabilities in OWN, OTHERS | {"sys_admin", "ipc_lock"}, set():
        text = subprocess.run([*as_user(capabilities), tool, "doctor"], capture_output=True, text=True, check=False).stdout
        for name in OTHERS | {"sys_admin", "ipc_lock"}:
            row = re.search(rf"^  CAP_{name.upper()} +(held|missing) .*$", text, re.M)
            assert row.group(1) == ("held" if name in capabilities else "missing")
            assert ("without: " in row.group(0)) == (name not in capabilities)


# ---- What is left of them after the attach (S5 in THREATS.md) ----

def rights_of(pid):
    text = (Path("/proc") / str(pid) / "status").read_text()
    fields = dict(re.findall(r"^(\w+):\t(.*)$", text, re.M))
    return {"capabilities": words_of(int(fields["CapEff"], 16)), "permitted": words_of(int(fields["CapPrm"], 16)),
            "bounding": words_of(int(fields["CapBnd"], 16)), "gained": words_of(int(fields["CapInh"], 16) | int(fields["CapAmb"], 16)),
            "uids": set(fields["Uid"].split()), "gids": set(fields["Gid"].split()), "groups": fields["Groups"].split(),
            "no_new_privs": fields["NoNewPrivs"], "seccomp": fields["Seccomp"]}


def assert_reader(rights, capabilities, uid):
    assert rights["capabilities"] == rights["permitted"] == capabilities, rights
    assert rights["gained"] == set(), rights
    assert rights["uids"] == rights["gids"] == {str(uid)} and rights["groups"] == [], rights
    assert (rights["no_new_privs"], rights["seccomp"]) == ("1", "2"), rights


@pytest.mark.parametrize("sudo", [{}, SUDO], ids=["root", "sudo"])
def test_root_keeps_only_the_capabilities_to_read(sudo, open_folder, start_workload):
    open_folder.chmod(0o777)
    target = start_workload("fork_copies", "--pages=10", "--wait")
    recording = harness.attach(target.pid, open_folder / "out.json", env={**os.environ, **sudo})
    try:
        recording.await_sample()
        rights = rights_of(recording.pid)
        recording.interrupt()
    finally:
        recording.stop()
    assert_reader(rights, READS, USER if sudo else harness.NOBODY)
    assert rights["bounding"] == set()
    recording.report()


READER = """
import os, time
data = [str(i) * 20 for i in range(100_000)]
if os.fork() == 0:
    time.sleep(0.5)
    for text in data: len(text)
    time.sleep(1)
    os._exit(0)
os.wait()
"""


@pytest.mark.parametrize("added", [set(), PROBES, OWN], ids=lambda added: "+".join(sorted(added)) or "none")
def test_root_of_a_container_still_sees_what_it_runs(added, open_folder):
    some = ",".join(f"+{name}" for name in sorted({*OF_ENGINES, *added}))
    path = open_folder / "out.json"
    command = ["setpriv", f"--bounding-set=-all,{some}", harness.COWPROF, "--quiet", "--output", path, "--",
               harness.PYTHON, "-c", READER]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=harness.DEADLINE, check=False)
    assert done.returncode == 0, done.stderr
    report = harness.report_of(path)
    assert report["exactness"]["rung"] == ("btf-tracepoints" if added else "page-map")
    (worker,) = report["workers"]
    assert worker["copies"] > 2000 and worker["peak_private_bytes"] > 8 << 20 and worker["exit"]["code"] == 0, worker
    assert worker["by_cause"]["refcount"] > 0.8 * worker["copies"] or not added, worker["by_cause"]


def test_a_program_that_becomes_another_user_can_not_be_examined(open_folder):
    """As gosu and su-exec do in the entry point of many images."""
    some = ",".join(f"+{name}" for name in sorted(OF_ENGINES))
    words = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", harness.PYTHON, "-c", READER]
    command = ["setpriv", f"--bounding-set=-all,{some}", harness.COWPROF, "--output", open_folder / "out.json", "--", *words]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=harness.DEADLINE, check=False)
    assert done.returncode == 0, done.stderr
    notes = [line for line in done.stderr.splitlines() if "it became another user, or forbids it (PR_SET_DUMPABLE); cowprof needs CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH" in line]
    assert len(notes) == 1, done.stderr


def test_an_ordinary_user_keeps_only_the_capabilities_to_read(tool, start_target):
    target = start_target(USER)
    recording = subprocess.Popen([*as_user(OTHERS), tool, "--attach", str(target.pid), "--quiet", "--output", tool.parent / "out.json"])
    try:
        harness.wait_until(lambda: harness.has_sample(tool.parent / "out.json"), "the first sample")
        assert_reader(rights_of(recording.pid), {"sys_ptrace", "dac_read_search"}, USER)
    finally:
        recording.send_signal(signal.SIGINT)
        assert recording.wait(harness.DEADLINE) == 0


PROGRAM = "import os, sys; print(open('/proc/self/status').read(), flush=True); sys.stdin.read()"


@pytest.mark.parametrize("sudo", [{}, SUDO], ids=["root", "sudo"])
def test_the_started_program_keeps_all_its_privileges(sudo, open_folder):
    """It runs as without cowprof: no seccomp filter, no no_new_privs, all capabilities; and signals are passed on to it."""
    open_folder.chmod(0o777)
    with open(open_folder / "status", "w+", encoding="utf-8") as stdout:
        recording = harness.Recording(open_folder / "out.json", ["--quiet", "--output", open_folder / "out.json", "--", harness.PYTHON,
                                                                 "-c", PROGRAM], stdout=stdout, stdin=subprocess.PIPE,
                                      env={**os.environ, **sudo})
        try:
            recording.await_sample()
            harness.wait_until(lambda: "voluntary" in Path(stdout.name).read_text(), "the program to print its status")
            assert_reader(rights_of(recording.pid), READS | {"kill"}, USER if sudo else harness.NOBODY)
            recording.send(signal.SIGTERM)
            harness.wait_until(lambda: recording.popen.poll() is not None, "the signal to end the program")
            assert recording.wait() == 128 + signal.SIGTERM, recording.stderr
        finally:
            recording.stop()
        text = Path(stdout.name).read_text()
    own = Path("/proc/self/status").read_text()
    for field in "Uid", "Gid", "CapPrm", "CapEff", "CapBnd", "CapInh", "CapAmb", "NoNewPrivs", "Seccomp":
        assert re.search(rf"^{field}:.*$", text, re.M).group(0) == re.search(rf"^{field}:.*$", own, re.M).group(0)


def test_processes_of_other_users_are_read_after_the_drop(tmp_path):
    """A worker started by root that changes its user after the attach still has its memory figures."""
    program = ("import os, sys, time\npid = os.fork()\nif pid == 0:\n  os.setgid(4321); os.setuid(4321)\n  area = bytearray(30 << 20)\n"
               "  time.sleep(1)\n  os._exit(0)\nos.waitpid(pid, 0)")
    result = harness.run_cowprof("--output", tmp_path / "out.json", "--interval", "100ms", "--quiet", "--", harness.PYTHON, "-c", program)
    assert result.returncode == 0, result.stderr
    report = harness.report_of(tmp_path / "out.json")
    assert report["workers"][0]["peak_private_bytes"] >= 28 << 20
    assert report["losses"]["unreadable"] == 0


def test_files_are_read_with_the_users_own_privileges(tool, tmp_path):
    """With file capabilities cowprof could read everything, but report and view do not use them."""
    names = ",".join(f"cap_{name}" for name in sorted(OTHERS))
    done = subprocess.run(["setcap", f"{names}+ep", tool], capture_output=True, text=True, check=False)
    needs("file capabilities", done.returncode == 0, done.stderr)
    secret = tool.parent / "secret.json"
    secret.write_text('{"schema": "cowprof.timeline/1", "records": []}')
    secret.chmod(0o600)
    for command in "report", "view":
        result = subprocess.run(["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", tool, command, secret],
                                capture_output=True, text=True, check=False, cwd=tool.parent)
        assert result.returncode == 2 and "Permission denied" in result.stderr, result


def test_the_seccomp_filter_refuses_no_call_of_a_run(open_folder, start_workload):
    """Every system call after the filter is installed is on its list: strace sees none refused with ENOSYS."""
    needs("strace", shutil.which("strace") is not None, "install Debian's package strace")
    path = open_folder / "out.json"
    subprocess.run(["strace", "-f", "-o", open_folder / "trace", harness.COWPROF, "--output", path, "--quiet", "--interval", "100ms",
                    "--verify", "--", harness.PYTHON, "-c", "import os, time; x = [str(i) for i in range(10**5)]; p = os.fork();"
                    "s = sum(len(i) for i in x); time.sleep(1.5); p and os.wait()"], check=True, timeout=120)
    calls = (open_folder / "trace").read_text().splitlines()
    recorder = calls[0].split()[0]
    own = [call for call in calls if call.split()[0] == recorder]
    after = own[next(i for i, call in enumerate(own) if "SECCOMP_SET_MODE_FILTER" in call and "len=" in call) + 1:]
    assert len(after) > 100
    assert not [call for call in after if "ENOSYS" in call]
