"""Containers, made of namespaces: cowprof outside and inside, with all of root's rights, some, or those of a user namespace only;
and a /proc that hides, is another's, or is not there. What can't work is refused in words, within a second."""
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
from memory_groups import MemoryGroup, memory_root


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


def refused(run, status, *words):
    """The quickest of three: refused with this status, one line of these words, nothing else, and within a second."""
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


@pytest.fixture(params=["outside", "outside, rootless", "inside", "inside, three capabilities", "beside"])
def view(request):
    where, _, how = request.param.partition(", ")
    made = request.getfixturevalue("rootless" if how == "rootless" else "box")
    if where == "inside":
        return Inside(made, matrix.DOCKER_ADDED if how else None)
    return {"outside": Outside, "beside": Beside}[where](made)


@pytest.mark.parametrize("check", matrix.CHECKS.values(), ids=matrix.CHECKS.keys())
def test_what_is_planted_in_a_container_is_found(check, view, tmp_path):
    check(view, tmp_path)


def test_doctor_knows_the_interpreter_that_only_the_container_has(view):
    script = "print('{\"role\": \"up\"}', flush=True); input()"
    with matrix.running(view.container.start(container.PYTHON, "-c", script)) as target:
        target.await_line("role", "up")
        assert matrix.doctor(view, target)["python"].startswith("3.")


def test_a_program_started_inside_and_its_children_in_a_deeper_namespace(box, tmp_path):
    """Their pids are those that cowprof's /proc has, two levels above their own."""
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


def test_limits_of_nested_cgroups_as_each_sees_them(image):
    needs("memory-cgroup", memory_root() is not None, "no memory cgroup of version 1 that can be divided")
    with MemoryGroup(matrix.LIMIT * 2) as outer, MemoryGroup(matrix.LIMIT, parent=outer) as middle:
        with Container(image, mounts=("proc", "sys", "cgroup"), group=middle) as box, MemoryGroup(parent=middle) as inner:
            inner.resize(matrix.LIMIT // 2)
            with matrix.running(box.start("sleep", "100")) as target:
                inner.add(target.host_pid)
                seen = [[(row["name"], row["limit"]) for row in matrix.rows_of_kind(matrix.doctor(view, target), "cgroup")]
                        for view in (Outside(box), Inside(box))]
    assert seen[0] == [(inner.path, matrix.LIMIT // 2), (middle.path, matrix.LIMIT), (outer.path, matrix.LIMIT * 2)]
    assert seen[1] == [(f"/{inner.folder.name}", matrix.LIMIT // 2), ("/", matrix.LIMIT)]


def test_a_recorder_that_shares_the_containers_limit_says_so(box, tmp_path):
    needs("memory-cgroup", box.group is not None, "no memory cgroup of version 1 that can be divided")
    with matrix.running(box.start("sleep", "100")) as target:
        options = ["--duration", "200ms", "--output"]
        inside = box.run(container.COWPROF, "--attach", target.inner_pid, *options, "/tmp/fate.json")
        outside = harness.run_cowprof("--attach", target.host_pid, *options, tmp_path / "fate.json")
    assert (inside.returncode, outside.returncode) == (0, 0)
    assert "this recording itself runs in" in inside.stderr and "512.0 MiB" in inside.stderr
    assert "this recording itself runs in" not in outside.stderr


# ---- What can't work ----


def test_root_of_a_user_namespace_may_not_load_probes(rootless):
    with matrix.running(rootless.start("sleep", "100")) as target:
        result = rootless.run(container.COWPROF, "doctor", "--json", target.inner_pid)
        document = json.loads(result.stdout)
        first = document["rungs"][0]
        assert not first["usable"] and "user namespace of its own" in first["reason"]
        assert document["host"]["host_user_namespace"] is False
        if document["rung"]:
            return  # a rung without BPF
        command = [container.COWPROF, "--attach", target.inner_pid, "--output", "/tmp/none.json"]
        refused(lambda: rootless.run(*command), 5, "user namespace of its own", "on the host")


def test_an_ordinary_user_and_the_own_rootless_container(rootless):
    with matrix.running(rootless.start("sleep", "100")) as target:
        program = rootless.path(container.COWPROF)
        result = subprocess.run([program, "doctor", "--json", str(target.host_pid)], capture_output=True, text=True, check=False,
                                cwd="/", **harness.AS_NOBODY)
    assert result.returncode in (0, 4), result.stderr
    if result.returncode == 4:  # the user namespace of a container that has just begun may not be looked into
        assert "may not look" in result.stderr
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
    """Pid 5 there is not pid 5 here."""
    def run():
        return subprocess.run(["unshare", "--pid", "--fork", harness.COWPROF, "--attach", "1"], capture_output=True, text=True,
                              cwd=tmp_path)
    refused(run, 5, "another pid namespace", "mount -t proc")
    assert list(tmp_path.iterdir()) == []


# ---- hidepid ----

# $1: options of /proc; the other words: who looks, by `setpriv`.
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
    assert look(image, options, "--", "$root").returncode == 0  # root has CAP_SYS_PTRACE, which hidepid asks for
    assert look(image, options, ORDINARY, "$nobodys").returncode in (0, 5)  # no probes, but no hiding
    refused(lambda: look(image, options, ORDINARY, "$root"), 4, "/proc hides process", "hidepid", "sudo")
    if hidepid == "4":  # the others let group 0 see all, unless gid= names another
        refused(lambda: look(image, options, "--bounding-set -sys_ptrace", "$nobodys"), 4, "hidepid", "CAP_SYS_PTRACE")
    refused(lambda: look(image, options, ORDINARY, "99999"), 4, "there is no process 99999")


def test_the_group_that_sees_all_may_still_not_look_inside(image):
    who = "--reuid 65534 --regid 1234 --clear-groups"
    refused(lambda: look(image, "hidepid=2,gid=1234", who, "$root"), 4, "may not look at process", "sudo")


# ---- Nothing is left ----


def test_a_container_leaves_nothing_behind(image):
    mounts = Path("/proc/mounts").read_text()
    with Container(image) as box:
        sleeper = box.start("sleep", "100")
        pids = [box.init, sleeper.host_pid]
        assert all(truth.state(pid) for pid in pids)
    assert not any(truth.state(pid) for pid in pids)
    assert str(image) not in Path("/proc/mounts").read_text() and str(image) not in mounts
