"""What cowprof can see of a container, depending on where it runs: each check plants something in a container and compares.

    python3 tests/system/container_matrix.py        as root: every setting x every check, as a table for docs/containers.md

A check returns nothing or raises an AssertionError that says what deviates. test_containers.py runs them one by one.
"""
import collections
import contextlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import container
import harness
import planted
from memory_groups import MemoryGroup, memory_root

MIB = 1 << 20
LIMIT = 512 * MIB
DOCKER_ADDED = (*container.OF_ENGINES, "bpf", "perfmon", "sys_ptrace")  # the last three are what --cap-add must name


@contextlib.contextmanager
def limited_container(image, **options):
    """A container with a memory limit if the host's cgroups can be divided, else `group` is None. `sidecar`: a sibling group."""
    with contextlib.ExitStack() as stack:
        group = stack.enter_context(MemoryGroup(LIMIT)) if memory_root() else None
        mounts = ("proc", "sys", *(["cgroup"] if group and not options.get("rootless") else []))
        box = stack.enter_context(container.Container(image, mounts=mounts, group=group, **options))
        box.group, box.sidecar = group, stack.enter_context(MemoryGroup()) if group else None
        yield box


@contextlib.contextmanager
def running(process):
    try:
        yield process
    finally:
        process.stop()


# ---- The checks ----


def without_frames(worker, planned):
    """In a user namespace the workload can't see its page frames, so compares with the plan alone."""
    causes = collections.Counter(cause for _, cause in planned)
    figures = {"planted_copies": len(planned), "pagemap_copies": len(planned), "missed": 0, "unplanned": 0, "by_cause": dict(causes)}
    return worker if worker["pagemap_copies"] else {**worker, **figures}


def check_page_map(row, planned):
    """No lines without probes, and causes by what has changed on a page: planted data is found, and most counts."""
    planted_causes = collections.Counter(cause for _, cause in planned)
    assert abs(row["copies"] - len(planned)) <= len(planned) * 0.05, f"{row['copies']} copies, {len(planned)} planted"
    for cause in ("refcount", "data"):
        assert abs(row["by_cause"][cause] - planted_causes[cause]) <= len(planned) * 0.2, (row["by_cause"], planted_causes)


def check_planted(view, folder):
    """Counts, causes, types, lines and Python files, with an interpreter that the host does not have."""
    box = view.container
    linger = 0.2 if view.has_probes else 3  # the page map is read once a second
    with running(box.start(container.PYTHON, f"{container.WORKLOADS}/planted_python.py", "mixture_causes", f"--linger={linger}",
                           "--planned=/tmp/planned")) as target:
        harness.wait_until(lambda: target.lines or target.popen.poll(), "the plan")
        assert target.lines[0]["role"] == "ready", target.lines
        assert target.inner_pid == target.lines[0]["pid"] != target.host_pid
        recording = view.record(target, folder, "--interval", "200ms")
        try:
            recording.await_sample()
            target.go()
            assert recording.wait() == 0, recording.stderr
        finally:
            recording.stop()
        worker = next(line for line in target.finish() if line["role"] == "worker")
    report = recording.report()
    (row,) = report["workers"]
    assert report["target"]["pid"] == view.pid_of(target)
    assert (row["pid"] == worker["pid"]) == (view.pid_of(target) == target.inner_pid)
    plan = harness.load_json(box.path("/tmp/planned"))
    if not view.has_probes:
        return check_page_map(row, plan)
    worker = {**without_frames(worker, plan), "pid": row["pid"]}
    deviations = planted.deviations(planted.Run(worker, report, recording.path))
    assert not deviations, deviations
    assert report["by_type"] and len(report["by_line"]) >= 3
    assert all(line["file"].startswith(container.WORKLOADS) for line in report["by_line"][:3]), report["by_line"][:3]


def rows_of_kind(document, prefix):
    return [limit for limit in document["limits"] if limit["kind"].startswith(prefix)]


def doctor(view, process):
    result = view.cowprof("doctor", "--json", view.pid_of(process))
    assert result.returncode in (0, 5), result.stderr  # 5: no usable rung, but the rest is still printed
    assert len(result.stderr.splitlines()) == (result.returncode != 0), result.stderr
    return json.loads(result.stdout)


def check_limits(view, _):
    """The container's own 64 MiB of /dev/shm, and its memory limit under the cgroup name that cowprof sees."""
    box = view.container
    with running(box.start("sleep", "100")) as target:
        document = doctor(view, target)
    assert rows_of_kind(document, "shm")[0]["limit"] == container.SHM_BYTES
    if not box.group or box.rootless:  # which has no mount of its cgroup
        return
    name = view.name_of(box.group)
    limits = [(row["name"], row["limit"]) for row in rows_of_kind(document, "cgroup") if row["limit"]]
    assert limits == [(name, LIMIT)], limits


def check_shm(view, _):
    """Segments of the container's own /dev/shm, and whether their creator lives: the file name has its inner pid."""
    box = view.container
    with running(box.start("sleep", "100")) as target:
        alive, dead = f"torch_{target.inner_pid}_1_0", "torch_99999_1_0"
        box.fill_shm({alive: MIB, dead: MIB})
        result = view.cowprof("shm", "--json", view.pid_of(target))
        box.fill_shm({alive: None, dead: None})
    assert result.returncode == 0, result.stderr
    document = json.loads(result.stdout)
    assert document["capacity_bytes"] == container.SHM_BYTES
    ownership = {segment["name"]: segment["ownership"] for segment in document["segments"]}
    assert set(ownership) == {alive, dead} and ownership[alive] != "leaked", ownership
    assert document["used_bytes"] == 2 * MIB


def end_workers(view, folder, *ways):
    """Records workers that end in these ways and returns the report."""
    box = view.container
    command = [container.PYTHON, f"{container.WORKLOADS}/dying_workers.py", *ways]
    with running(box.start(*command, stderr=subprocess.DEVNULL)) as target:
        target.await_line("role", "ready")
        recording = view.record(target, folder)
        try:
            recording.await_sample()
            harness.wait_until(lambda: '"python"' in recording.path.read_text(errors="replace"), "the interpreter to be identified")
            target.go()
            for way in ways:
                if way == "killed_from_outside":
                    pid = target.await_line("by", way)["pid"]
                    if not view.has_probes:
                        harness.wait_until(lambda: any(row["pid"] == pid for row in recording.report()["workers"]), "the worker to be seen")
                    kill_from_host(box, pid)
            target.await_line("role", "done")
            harness.wait_until(lambda: recording.path.read_text(errors="replace").count('"exit"') >= len(ways), "the exits in the recording")
            target.finish()
            assert recording.wait() == 0, recording.stderr
        finally:
            recording.stop()
    return recording.report()


def kill_from_host(box, inner_pid):
    """Kills, from outside, the process that has that pid in the container."""
    namespace = os.readlink(f"/proc/{box.init}/ns/pid")
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.readlink(folder / "ns/pid") == namespace and container.inner_pid(folder.name) == inner_pid:
                return os.kill(int(folder.name), 9)
    raise AssertionError(f"no process {inner_pid} in the container")


def check_post_mortem(view, folder):
    """A bus error on the container's own full /dev/shm, and a crash in a library that the host does not have, both explained."""
    box = view.container
    if not view.has_probes:  # only ends of processes that lived at a sample are seen
        (worker,) = end_workers(view, folder, "killed_from_outside")["workers"]
        assert worker["exit"]["text"].startswith("killed by SIGKILL"), worker["exit"]
        return
    box.fill_shm({"filler": 60 * MIB})
    report = end_workers(view, folder, "full:/dev/shm/array", "segfault", "killed_from_outside")
    box.fill_shm({"filler": None, "array": None})
    bus, crash, killed = (worker["exit"] for worker in report["workers"])
    assert bus["cause"] == "shm-full", bus
    assert bus["text"].startswith("killed by SIGBUS: /dev/shm (64.0 MiB) is full"), bus
    assert re.match(rf"killed by SIGSEGV in .*\.so\S* at {container.PREFIX}/lib/\S+/ctypes/__init__.py:\d+ in string_at$", crash["text"]), crash
    if not view.sees_host:
        assert killed["text"].endswith("outside this container"), killed
    else:
        assert killed["text"].endswith(f"(pid {os.getpid()})"), killed


CHECKS = {"counts, causes, types, lines": check_planted, "limits": check_limits, "cowprof shm": check_shm,
          "post-mortem": check_post_mortem}

# name: (options of the container, where cowprof runs)
SETTINGS = {
    "on the host": ({}, container.Outside),
    "on the host, rootless container": ({"rootless": True}, container.Outside),
    "inside, privileged": ({}, container.Inside),
    "inside, --cap-add BPF, PERFMON, SYS_PTRACE": ({}, lambda box: container.Inside(box, DOCKER_ADDED)),
    "inside, as an engine starts it": ({"capabilities": container.OF_ENGINES}, container.Inside),
    "in a container of its own, in the same pid namespace (sidecar)": ({}, container.Beside),
    "inside a rootless container": ({"rootless": True}, container.Inside),
}


# ---- The table ----


def cell_of(check, view, folder):
    try:
        check(view, folder)
        return "yes"
    except Exception as error:  # the next check may still pass
        return "no: " + (str(error).splitlines() or [type(error).__name__])[0][:160].replace("|", "\\|")


def print_table():
    image = Path(tempfile.mkdtemp(prefix="cowprof-image-"))
    image.chmod(0o755)
    print("| cowprof runs | " + " | ".join(CHECKS) + " |\n|" + " --- |" * (len(CHECKS) + 1))
    try:
        container.make_image(image)
        for name, (options, make_view) in SETTINGS.items():
            with limited_container(image, **options) as box, tempfile.TemporaryDirectory() as folder:
                cells = []
                for number, check in enumerate(CHECKS.values()):
                    (Path(folder) / str(number)).mkdir()
                    cells.append(cell_of(check, make_view(box), Path(folder) / str(number)))
                print(f"| {name} | " + " | ".join(cells) + " |", flush=True)
    finally:
        shutil.rmtree(image)


if __name__ == "__main__":
    print_table()
