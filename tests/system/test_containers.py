"""Containers made of namespaces: cowprof outside and inside, with all of root's capabilities, some, or only a user namespace's;
and a /proc that hides processes, belongs to another namespace, or is missing. What can't work is refused within a second."""
import json
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

import container
import container_matrix as matrix
import harness
import truth
from conftest import needs
from container import Beside, Container, Inside, Outside
from memory_groups import KIND, MemoryGroup


@pytest.fixture(scope="module")
def image():
    folder = Path(tempfile.mkdtemp(prefix="cowprof-image-"))
    folder.chmod(0o755)
    try:
        yield container.make_image(folder)
    finally:
        shutil.rmtree(folder)


@pytest.fixture(scope="module")
def box(image):
    with matrix.limited_container(image) as made:
        yield made


@pytest.fixture(scope="module")
def rootless(image):
    with matrix.limited_container(image, rootless=True) as made:
        yield made


@pytest.fixture(scope="module")
def of_engine(image):
    with matrix.limited_container(image, capabilities=container.OF_ENGINES) as made:
        yield made


def refused(run, status, *words):
    """Wants this status and one line with these words, nothing else, and the quickest of three tries within a second."""
    seconds = []
    for _ in range(3):
        began = time.monotonic()
        result = run()
        seconds.append(time.monotonic() - began)
        assert result.returncode == status, result
        for word in words:
            assert word in result.stderr, result.stderr
        assert len(result.stderr.splitlines()) == 1, result.stderr
        if seconds[-1] < 1:
            return
    pytest.fail(f"took {min(seconds):.2f} s")


# ---- cowprof and its target ----


@pytest.fixture(params=["outside", "outside, rootless", "inside", "inside, three capabilities", "inside, none", "inside, rootless", "beside"])
def view(request):
    where, _, how = request.param.partition(", ")
    made = request.getfixturevalue({"rootless": "rootless", "none": "of_engine"}.get(how, "box"))
    if where == "inside":
        return Inside(made, matrix.DOCKER_ADDED if how == "three capabilities" else None)
    return {"outside": Outside, "beside": Beside}[where](made)


@pytest.mark.parametrize("check", matrix.CHECKS.values(), ids=matrix.CHECKS.keys())
def test_everything_planted_in_a_container_is_found(check, view, tmp_path):
    check(view, tmp_path)


def test_doctor_knows_the_interpreter_that_only_the_container_has(view):
    script = "print('{\"role\": \"up\"}', flush=True); input()"
    with matrix.running(view.container.start(container.PYTHON, "-c", script)) as target:
        target.await_line("role", "up")
        assert matrix.doctor(view, target)["python"].startswith("3.")


def test_a_program_started_inside_and_its_children_in_a_deeper_namespace(box, tmp_path):
    """Their pids are those in cowprof's /proc, two levels above their own namespace."""
    words = ["unshare", "--pid", "--fork", "--mount-proc", f"{container.WORKLOADS}/fork_copies", "--pages=2000"]
    result = box.run(container.COWPROF, "--output", "/tmp/deeper.json", "--quiet", "--", *words)
    assert result.returncode == 0, result.stderr
    planted = [json.loads(line) for line in result.stdout.splitlines()]
    assert sorted(line["pid"] for line in planted) == [1, 2]
    report = json.loads(box.run(container.COWPROF, "report", "--json", "/tmp/deeper.json").stdout)
    copies = {worker["pid"]: worker["copies"] for worker in report["workers"]}
    assert len(copies) == 2 and not set(copies) & {0, 1, 2}, copies
    assert abs(max(copies.values()) - 2000) <= 20
    assert not any(report["losses"].values()), report["losses"]


def test_limits_of_nested_cgroups_inside_and_outside(image):
    needs("memory-cgroup", KIND == "cgroup-v1", "no memory cgroup of version 1 that can be divided")
    with MemoryGroup(matrix.LIMIT * 2) as outer, MemoryGroup(matrix.LIMIT, parent=outer) as middle:
        with Container(image, mounts=("proc", "sys", "cgroup"), group=middle) as box, MemoryGroup(parent=middle) as inner:
            inner.resize(matrix.LIMIT // 2)
            with matrix.running(box.start("sleep", "100")) as target:
                inner.add(target.host_pid)
                seen = [[(row["name"], row["limit"]) for row in matrix.rows_of_kind(matrix.doctor(view, target), "cgroup")]
                        for view in (Outside(box), Inside(box))]
    assert seen[0] == [(inner.path, matrix.LIMIT // 2), (middle.path, matrix.LIMIT), (outer.path, matrix.LIMIT * 2)]
    assert seen[1] == [(f"/{inner.folder.name}", matrix.LIMIT // 2), ("/", matrix.LIMIT)]


def test_a_recorder_warns_when_it_shares_the_containers_limit(box, tmp_path):
    needs("memory-cgroup", box.group is not None, "no memory cgroup of version 1 that can be divided")
    with matrix.running(box.start("sleep", "100")) as target:
        options = ["--duration", "200ms", "--output"]
        inside = box.run(container.COWPROF, "--attach", target.inner_pid, *options, "/tmp/fate.json")
        outside = harness.run_cowprof("--attach", target.host_pid, *options, tmp_path / "fate.json")
    assert (inside.returncode, outside.returncode) == (0, 0)
    assert "cowprof itself runs in" in inside.stderr and "512.0 MiB" in inside.stderr
    assert "cowprof itself runs in" not in outside.stderr


# ---- What can't work ----


def test_root_of_a_user_namespace_may_not_load_probes(rootless):
    with matrix.running(rootless.start("sleep", "100")) as target:
        result = rootless.run(container.COWPROF, "doctor", "--json", target.inner_pid)
        document = json.loads(result.stdout)
        first = document["rungs"][0]
        assert not first["usable"] and "user namespace of its own" in first["reason"]
        assert document["host"]["host_user_namespace"] is False
        if document["rung"]:
            return  # a rung that needs no BPF
        command = [container.COWPROF, "--attach", target.inner_pid, "--output", "/tmp/none.json"]
        refused(lambda: rootless.run(*command), 5, "user namespace of its own", "on the host")


def test_an_ordinary_user_and_their_own_rootless_container(rootless):
    with matrix.running(rootless.start("sleep", "100")) as target:
        program = rootless.path(container.COWPROF)
        result = subprocess.run([program, "doctor", "--json", str(target.host_pid)], capture_output=True, text=True, check=False,
                                cwd="/", **harness.AS_NOBODY)
    assert result.returncode in (0, 4), result.stderr
    if result.returncode == 4:  # a container that has just started has a user namespace that may not be entered
        assert "can't inspect" in result.stderr
    else:
        assert "CAP_BPF" in json.loads(result.stdout)["rungs"][0]["reason"]


@pytest.mark.parametrize("mounts, word", [((), "mount -t proc"), (("proc",), "/sys/kernel/btf/vmlinux")], ids=["no proc", "no sys"])
def test_a_container_without_proc_or_sys(image, mounts, word):
    with Container(image, mounts=mounts) as bare:
        if mounts:
            first = json.loads(bare.run(container.COWPROF, "doctor", "--json").stdout)["rungs"][0]
            assert not first["usable"] and word in first["reason"]
        else:
            for command in ["doctor"], ["shm"], ["--attach", "1"], ["--output", "/tmp/none.json", "--", "sleep", "0"]:
                refused(lambda: bare.run(container.COWPROF, *command), 5, word)


def test_the_proc_of_another_pid_namespace(tmp_path):
    """The same pid means different processes there and here."""
    def run():
        return subprocess.run(["unshare", "--pid", "--fork", harness.COWPROF, "--attach", "1"], capture_output=True, text=True,
                              cwd=tmp_path)
    refused(run, 5, "another pid namespace", "mount -t proc")
    assert list(tmp_path.iterdir()) == []


# ---- hidepid ----

# $1: mount options of /proc; the remaining words: setpriv options for the observer, then the pid.
HIDDEN = """
mount -t proc -o "$1" proc /proc || exit 99
shift
sleep 100 > /dev/null & root=$!
setpriv --reuid 65534 --regid 65534 --clear-groups sleep 100 > /dev/null & nobodys=$!
until grep -q sleep /proc/$nobodys/comm; do :; done
eval "setpriv $1 $2 doctor $3"
"""


def look(image, options, who, target):
    program = image / container.COWPROF.lstrip("/")
    command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", HIDDEN, "sh", options, who, program, target]
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True, timeout=harness.DEADLINE)
    assert result.returncode != 99, result.stderr
    return result


ORDINARY = " ".join(harness.TO_NOBODY[1:])


@pytest.mark.parametrize("hidepid", ["1", "2", "4"])
def test_processes_that_proc_hides(image, hidepid):
    options = f"hidepid={hidepid}"
    assert look(image, options, "--", "$root").returncode == 0  # root has CAP_SYS_PTRACE, which lifts hidepid
    assert look(image, options, ORDINARY, "$nobodys").returncode in (0, 5)  # no probes, but nothing is hidden
    refused(lambda: look(image, options, ORDINARY, "$root"), 4, "/proc hides process", "hidepid", "sudo")
    if hidepid == "4":  # the other modes let group 0 see everything, unless gid= names another group
        refused(lambda: look(image, options, "--bounding-set -sys_ptrace", "$nobodys"), 4, "hidepid", "CAP_SYS_PTRACE")
    refused(lambda: look(image, options, ORDINARY, "99999"), 4, "there is no process 99999")


def test_the_group_that_sees_all_processes_may_not_read_them(image):
    who = "--reuid 65534 --regid 1234 --clear-groups"
    refused(lambda: look(image, "hidepid=2,gid=1234", who, "$root"), 4, "can't inspect process", "sudo")


# ---- Nothing is left behind ----


def test_a_container_leaves_nothing_behind(image):
    mounts = Path("/proc/mounts").read_text()
    with Container(image) as box:
        sleeper = box.start("sleep", "100")
        pids = [box.init, sleeper.host_pid]
        assert all(truth.state(pid) for pid in pids)
    assert not any(truth.state(pid) for pid in pids)
    assert str(image) not in Path("/proc/mounts").read_text() and str(image) not in mounts
