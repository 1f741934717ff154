"""Each package is made, installed somewhere clean, and records a planted workload there; and what is said when that can't be.

The fixtures and the account of skips are those of tests/system: PYTHONPATH=tests/system pytest -p conftest tests/packages
"""
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import harness
import places
from conftest import needs, open_folder  # pylint: disable=unused-import

VENV = "python3 -m venv /tmp/venv; /tmp/venv/bin/pip install -q --no-index /mnt/*.whl; export PATH=/tmp/venv/bin:$PATH; cd /tmp; "


def make_packages(folder):
    done = subprocess.run([harness.REPOSITORY / "scripts" / "package.sh", folder], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="session")
def dist(tmp_path_factory):
    """A folder with all packages and the workload."""
    folder = make_packages(tmp_path_factory.mktemp("dist"))
    shutil.copy(places.WORKLOAD, folder)
    shutil.copy(places.SELF_RECORDING, folder)
    return folder


@pytest.fixture(scope="session")
def binary(dist):
    """The binary in the tarball."""
    folder = dist / "unpacked"
    folder.mkdir()
    subprocess.run(["tar", "-xf", only(dist, "*.tar.gz"), "-C", folder, "--strip-components=1"], check=True)
    return folder / "bin" / "cowprof"


@pytest.fixture
def tree_of():
    def get(suite):
        root, reason = places.tree(suite)
        needs(f"Debian {suite}", root, reason)
        return root
    return get


def only(folder, pattern):
    (path,) = folder.glob(pattern)
    return path


@pytest.fixture
def waiting_workload():
    process = harness.Process([harness.PYTHON, places.WORKLOAD, "--wait"])
    harness.wait_until(lambda: process.lines, "the workload")
    yield process
    process.stop()


# ---- The packages themselves ----


@pytest.mark.slow
def test_two_runs_give_the_same_bytes(dist, tmp_path):
    assert (make_packages(tmp_path) / "SHA256SUMS").read_text() == (dist / "SHA256SUMS").read_text()
    assert subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=dist, check=False).returncode == 0


def test_the_binary_is_static_and_small(binary):
    headers = subprocess.run(["readelf", "-W", "-l", "-d", binary], capture_output=True, text=True, check=True).stdout
    assert "INTERP" not in headers and "NEEDED" not in headers
    assert binary.stat().st_size <= 8_700_000


def test_the_deb_is_clean(dist):
    needs("package lintian", shutil.which("lintian"), "lintian is not installed")
    deb = only(dist, "*.deb")
    said = subprocess.run(["lintian", "--allow-root", "--tag-display-limit", "0", deb], capture_output=True, text=True, check=False).stdout
    assert said == ""


def test_the_deb_holds_all_that_documents_point_to(dist):
    listed = subprocess.run(["dpkg-deb", "-c", only(dist, "*.deb")], capture_output=True, text=True, check=True).stdout
    held = set(re.findall(r"\./usr/share/cowprof/(.*[^/])$", listed, re.MULTILINE))
    share = harness.REPOSITORY / "share"
    assert held == {path.relative_to(share).as_posix() for path in share.rglob("*") if path.is_file()} | {"hooks/checkpoint-on-alert.sh"}
    pages = set(re.findall(r"\./usr/share/doc/cowprof/(docs/.*\.md)$", listed, re.MULTILINE))
    assert pages == {path.relative_to(harness.REPOSITORY).as_posix() for path in (harness.REPOSITORY / "docs").rglob("*.md")}


def test_the_links_of_the_readme_lead_somewhere_in_the_tarball(binary):
    folder = binary.parents[1]
    links = re.findall(r"\]\(([^)#:]+)", (folder / "README.md").read_text())
    assert len(links) > 10
    assert not [link for link in links if not (folder / link).exists()]


@pytest.mark.parametrize("name", ["cowprof@", "cowprof-watch"])
def test_the_unit_is_valid_and_confined(dist, name, tmp_path):
    needs("package systemd", shutil.which("systemd-analyze"), "systemd is not installed")
    subprocess.run(["dpkg-deb", "-x", only(dist, "*.deb"), tmp_path], check=True)
    unit = tmp_path / f"lib/systemd/system/{name}.service"
    # Where it is installed; man pages are looked up on the host.
    text = unit.read_text().replace("/usr/bin/cowprof", str(tmp_path / "usr/bin/cowprof"))
    unit.write_text(text)
    verified = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True, check=False)
    assert (verified.returncode, verified.stderr) == (0, "")
    exposure = subprocess.run(["systemd-analyze", "security", "--offline=true", "--no-pager", unit], capture_output=True, text=True, check=False).stdout
    assert float(re.search(r"exposure level for \S+: ([\d.]+)", exposure)[1]) <= 5


@pytest.mark.parametrize("options", ["as it is", "all"])
def test_the_unit_can_give_metrics_by_the_drop_in(options, tmp_path):
    """Also with what it has as comments."""
    needs("package systemd", shutil.which("systemd-analyze"), "systemd is not installed")
    unit = tmp_path / "cowprof-watch.service"
    drop_in = tmp_path / "cowprof-watch.service.d" / "metrics.conf"
    drop_in.parent.mkdir()
    for source, target in (("packaging/cowprof-watch.service", unit), ("share/systemd/metrics.conf", drop_in)):
        target.write_text((harness.REPOSITORY / source).read_text().replace("/usr/bin/cowprof", str(harness.COWPROF)))
    if options == "all":
        drop_in.write_text(re.sub(r"^#(?=[A-Z]\w+=)", "", drop_in.read_text(), flags=re.M))
    verified = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True, check=False)
    assert (verified.returncode, verified.stderr) == (0, "")
    said = subprocess.run(["systemd-analyze", "security", "--offline=true", "--no-pager", unit], capture_output=True, text=True, check=False).stdout
    assert re.search("PrivateNetwork= +Service has access to the host's network", said), said
    assert ("may send UNIX signals" in said) == (options == "all"), said


def test_the_unit_of_a_service_that_does_not_run_says_so(tmp_path):
    unit = (harness.REPOSITORY / "packaging/cowprof@.service").read_text().replace("\\\n", "")
    script = re.search(r"^ExecStart=/bin/sh -c '(.*)' sh %i$", unit, re.MULTILINE)[1].replace("$$", "$").replace("%%", "%")
    systemctl = tmp_path / "systemctl"
    systemctl.write_text("#!/bin/sh\necho 0\n")
    systemctl.chmod(0o755)
    done = subprocess.run(["sh", "-c", script, "sh", "trainer"], env={"PATH": f"{tmp_path}:{os.environ['PATH']}"}, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (4, "cowprof: trainer.service has no main process: start it first\n")


def test_the_unit_starts_after_a_reboot_once_it_is_enabled(tmp_path):
    needs("package systemd", shutil.which("systemctl"), "systemd is not installed")
    units = tmp_path / "lib/systemd/system"
    units.mkdir(parents=True)
    shutil.copy(harness.REPOSITORY / "packaging/cowprof-watch.service", units)
    done = subprocess.run(["systemctl", f"--root={tmp_path}", "enable", "cowprof-watch"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "etc/systemd/system/multi-user.target.wants/cowprof-watch.service").is_symlink(), done.stderr


def test_licences_name_what_is_linked(binary):
    text = (binary.parents[1] / "THIRD-PARTY").read_text()
    for package in ("libc6-dev", "libstdc++-12-dev", "libbpf-dev", "libelf-dev", "zlib1g-dev", "libdeflate-dev", "libseccomp-dev", "libabsl-dev",
                    "nlohmann-json3-dev", "libcli11-dev", "libprotozero-dev", "uplot"):
        assert re.search(rf"^{re.escape(package).replace('12', '[0-9]+')} \(", text, re.M), package


# ---- Installed somewhere clean ----


def test_an_empty_root(binary, waiting_workload, tmp_path):
    root = places.EmptyRoot(tmp_path / "root", binary)
    assert root.run("doctor").returncode == 0
    recording = subprocess.Popen(root.command("--quiet", "--attach", waiting_workload.pid, "--output", "/recording.json"), stderr=subprocess.PIPE, text=True)
    harness.wait_until(lambda: harness.has_sample(root.folder / "recording.json"), "a sample")
    waiting_workload.go()
    assert recording.wait(harness.DEADLINE) == 0, recording.stderr.read()
    places.check(waiting_workload.lines[0], json.loads(root.run("report", "/recording.json", "--json").stdout))
    assert root.run("view", "/recording.json", "-o", "/page.html").returncode == 0
    assert b"</html>" in (root.folder / "page.html").read_bytes()


@pytest.mark.parametrize("suite", ["bullseye", *(pytest.param(suite, marks=pytest.mark.slow) for suite in ("bookworm", "trixie", "sid"))])
def test_the_binary_in_a_debian_tree(suite, tree_of, binary, dist):
    script = f"PATH=/mnt/unpacked/bin:$PATH; cd /tmp; {places.RECORD}"
    places.check_output(places.in_tree(tree_of(suite), dist, script))


@pytest.mark.slow
def test_the_wheel_in_a_venv_offline(dist, tmp_path):
    needs("package python3-venv", subprocess.run([harness.PYTHON, "-c", "import ensurepip"], capture_output=True).returncode == 0,
          "the distribution's Python can't make a venv with pip")
    subprocess.run([harness.PYTHON, "-m", "venv", tmp_path / "venv"], check=True)
    pip = subprocess.run([tmp_path / "venv/bin/pip", "install", "-q", "--no-index", only(dist, "*.whl")], capture_output=True, text=True, check=False)
    assert (pip.returncode, pip.stderr) == (0, "")
    for command in ([tmp_path / "venv/bin/cowprof"], [tmp_path / "venv/bin/python", "-m", "cowprof"]):
        assert subprocess.run([*command, "--version"], capture_output=True, text=True, check=True).stdout.startswith("cowprof ")
    usage = subprocess.run([tmp_path / "venv/bin/python", "-m", "cowprof", "--attach"], capture_output=True, text=True, check=False)
    assert usage.returncode == 2 and len(usage.stderr.splitlines()) == 1


def test_the_wheel_in_debian_11_without_compilers(tree_of, dist):
    no_compiler = "for name in cc gcc clang; do if command -v $name; then exit 99; fi; done; "
    module = "cowprof report recording.json --json > one; python3 -m cowprof report recording.json --json | cmp one -"
    places.check_output(places.in_tree(tree_of("bullseye"), dist, f"{no_compiler}{VENV}{places.RECORD}; {module}"))


@pytest.mark.parametrize("suite", ["bullseye", *(pytest.param(suite, marks=pytest.mark.slow) for suite in ("trixie", "sid"))])
def test_a_process_records_itself_with_the_wheel(suite, tree_of, dist, binary):
    """Python 3.9, 3.13 and 3.14. In a venv the binary is found beside the package, in the trees without venv on PATH."""
    unpacked = "cd /tmp; python3 -m zipfile -e /mnt/*.whl wheel; export PYTHONPATH=wheel PATH=/mnt/unpacked/bin:$PATH; "
    done = places.in_tree(tree_of(suite), dist, f"{VENV if suite == 'bullseye' else unpacked}python3 /mnt/self_recording.py run.json")
    assert done.returncode == 0, done.stderr
    truth = json.loads(done.stdout)
    planted = truth["pages"] * harness.PAGE
    assert truth["exactness"] == "exact"
    assert planted <= truth["copied_bytes"] <= planted + 600 * harness.PAGE, truth
    assert [row["pid"] for row in truth["report"]["workers"]] == [truth["worker"]]


def test_the_deb_in_debian_11(tree_of, dist):
    script = f"dpkg -i /mnt/*.deb >/dev/null; cd /tmp; {places.RECORD}; dpkg -V cowprof; dpkg --purge cowprof >/dev/null; test ! -e /usr/bin/cowprof"
    places.check_output(places.in_tree(tree_of("bullseye"), dist, script))


def test_the_units_follow_the_deb(tree_of, dist):
    """What systemd is told, by programs that stand in for it. Without systemd, as in the test above, nothing is told."""
    script = """
for name in systemctl deb-systemd-invoke; do
  printf '#!/bin/sh\\necho %s "$@" >>/tmp/said\\n' $name >/usr/bin/$name
  chmod 755 /usr/bin/$name
done
step() { echo "$1:" >>/tmp/said; shift; "$@" >/dev/null; }
wants=/etc/systemd/system/multi-user.target.wants
mkdir -p /run/systemd/system $wants
step install dpkg -i /mnt/*.deb
mkdir /var/lib/cowprof-watch /var/lib/cowprof
ln -s /lib/systemd/system/cowprof-watch.service $wants
step upgrade dpkg -i /mnt/*.deb
step remove dpkg --remove cowprof
test -L $wants/cowprof-watch.service && test -d /var/lib/cowprof-watch
step purge dpkg --purge cowprof
test ! -L $wants/cowprof-watch.service && test ! -e /var/lib/cowprof-watch && test ! -e /var/lib/cowprof
cat /tmp/said
"""
    done = places.in_tree(tree_of("bullseye"), dist, script)
    assert done.returncode == 0, done.stderr
    reload = "systemctl --system daemon-reload"
    assert done.stdout.splitlines() == ["install:", reload, "upgrade:", reload, "deb-systemd-invoke try-restart cowprof-watch.service", "remove:",
                                        "deb-systemd-invoke stop cowprof-watch.service cowprof@*.service", reload, "purge:", reload]


def test_the_image_under_podman(dist, binary, waiting_workload, open_folder, tmp_path):
    podman = places.Podman(open_folder)  # it takes no long paths
    needs("podman", shutil.which("podman") and Path("/usr/sbin/runc").exists(), "podman or runc is not installed")
    root = places.EmptyRoot(tmp_path / "root", binary)
    tried = podman.run_container("--rootfs", root.folder, "/cowprof", "--version")
    needs("podman", tried.returncode == 0, f"it can't run a container here: {tried.stderr.strip().splitlines()[-1:]}")
    loaded = podman.run("load", "-q", "-i", only(dist, "*.oci.tar"))
    assert loaded.returncode == 0, loaded.stderr
    image = loaded.stdout.split()[-1]
    assert podman.run_container(image, "cowprof", "--version").stdout.startswith("cowprof ")
    (tmp_path / "out").mkdir()
    command = podman.container("--privileged", "--pid", "host", "--volume", f"{tmp_path}/out:/out", image,
                               "cowprof", "--quiet", "--attach", waiting_workload.pid, "--output", "/out/recording.json")
    recording = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    harness.wait_until(lambda: harness.has_sample(tmp_path / "out/recording.json"), "a sample")
    waiting_workload.go()
    assert recording.wait(harness.DEADLINE) == 0, recording.stderr.read()
    report = podman.run_container("--volume", f"{tmp_path}/out:/out", image, "cowprof", "report", "/out/recording.json", "--json")
    places.check(waiting_workload.lines[0], json.loads(report.stdout))


@pytest.mark.parametrize("manifest", ["daemonset", "sidecar"])
def test_the_manifest_under_podman(manifest, dist, binary, tree_of, open_folder, tmp_path):
    """The rights of a manifest in share/kubernetes suffice: watch finds a trainer in another container, and counts what was planted."""
    podman = places.Podman(open_folder)
    needs("podman", shutil.which("podman") and Path("/usr/sbin/runc").exists(), "podman or runc is not installed")
    tried = podman.run_container("--rootfs", places.EmptyRoot(tmp_path / "root", binary).folder, "/cowprof", "--version")
    needs("podman", tried.returncode == 0, f"it can't run a container here: {tried.stderr.strip().splitlines()[-1:]}")
    image = podman.run("load", "-q", "-i", only(dist, "*.oci.tar")).stdout.split()[-1]
    documents = yaml.safe_load_all((harness.REPOSITORY / f"share/kubernetes/{manifest}.yaml").read_text())
    (pod,) = [one["spec"]["template"]["spec"] for one in documents if "template" in one["spec" if "spec" in one else "metadata"]]
    (container,) = [one for one in [*pod.get("initContainers", []), *pod["containers"]] if one["name"] == "cowprof"]
    (tmp_path / "recordings").mkdir()
    options = places.options_of_pod(pod, container, {"recordings": tmp_path / "recordings"}, beside="pause")
    tree = f"{tree_of('bullseye')}:O"
    logs = {name: open(tmp_path / f"{name}.log", "w+", encoding="utf-8") for name in ("pause", "trainer", "watch")}
    started = {}

    def wait_for(condition, what, *needed):
        """Fails as soon as one of these containers has ended, and says what all of them said."""
        def found():
            value = condition()
            ended = [name for name in needed if started[name].poll() is not None]
            assert value or not ended, f"waited for {what}, but {', '.join(ended)} ended"
            return value
        try:
            return harness.wait_until(found, what)
        except AssertionError as error:
            said = "".join(f"\n-- {name}, status {process.poll()}:\n{(tmp_path / f'{name}.log').read_text()}" for name, process in started.items())
            raise AssertionError(f"{error}{said}\n-- podman ps:\n{podman.run('ps', '-a').stdout}") from None

    trainer = None
    try:
        started["pause"] = subprocess.Popen(podman.container("--name", "pause", "--rootfs", tree, "sleep", "infinity"), stderr=logs["pause"])  # as in each pod
        wait_for(lambda: podman.run("inspect", "--format", "{{.State.Running}}", "pause").stdout == "true\n", "the first container", "pause")
        trainer = harness.Process(podman.container("-i", "--name", "trainer", "--pid", "container:pause", "--env", "JOB_COMPLETION_INDEX=3", "--volume",
                                                   f"{places.WORKLOAD}:/workload.py:ro", "--rootfs", tree, "python3", "/workload.py", "--wait"), stderr=logs["trainer"])
        started["trainer"] = trainer.popen
        truth = wait_for(lambda: trainer.lines, "the trainer", "pause", "trainer")[0]
        words = [word.replace("$(NODE_NAME)", "node-7") for word in [*container["command"], *container["args"]]]
        started["watch"] = subprocess.Popen(podman.container("--name", "watch", *options, image, *words), stderr=logs["watch"])
        job = next((word.removeprefix("--label=job_id=") for word in words if word.startswith("--label=job_id=")), "none")
        # With the host's processes it sees other trainers, too, and starts a recorder a second.
        recording = wait_for(lambda: next((path for path in (tmp_path / "recordings").glob(f"cowprof-*-{job}-3-*.json") if harness.has_sample(path)), None),
                             "a recording", "pause", "trainer", "watch")
        trainer.go()
        wait_for(lambda: harness.last_record(recording).get("reason") == "target ended", "the end of the trainer", "watch")
        assert podman.run("kill", "--signal", "TERM", "watch").returncode == 0
        status, said = started["watch"].wait(harness.DEADLINE), (tmp_path / "watch.log").read_text()
        assert status == 0 and "its environment has a rank" in said, said
    finally:
        for name in reversed(started):
            podman.run("kill", name)
        if trainer is not None:
            trainer.stop()
        for process in started.values():
            process.wait(harness.DEADLINE)
        for log in logs.values():
            log.close()
    report = harness.report_of(recording)
    places.check(truth, report)
    assert report["identity"]["labels"] == ({"node": "node-7"} if manifest == "daemonset" else {"job_id": "training"})


# ---- Bad surroundings ----


@pytest.mark.parametrize("damage", ["truncated", "aarch64"])
def test_pip_refuses_in_one_line(dist, damage, tmp_path):
    good = only(dist, "*.whl")
    bad = tmp_path / (good.name if damage == "truncated" else good.name.replace("x86_64", "aarch64" if os.uname().machine == "x86_64" else "x86_64"))
    content = good.read_bytes()
    bad.write_bytes(content[:len(content) // 2] if damage == "truncated" else content)
    environment = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    done = subprocess.run([sys.executable, "-m", "pip", "install", "--no-index", "--target", tmp_path / "target", bad], capture_output=True, text=True,
                          check=False, env=environment)
    needs("package python3-pip", "No module named pip" not in done.stderr, "pip is not installed")
    errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
    assert done.returncode == 1 and len(errors) == 1, done.stderr
    assert ("is invalid" if damage == "truncated" else "not a supported wheel on this platform") in errors[0]
    assert not (tmp_path / "target").exists()


def test_a_missing_program_is_said_in_a_line(dist, tmp_path):
    subprocess.run(["unzip", "-q", only(dist, "*.whl"), "cowprof/*", "-d", tmp_path], check=True)
    done = subprocess.run([sys.executable, "-m", "cowprof", "--version"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1 and "install the package again" in done.stderr


def test_noexec_tmp_and_a_read_only_home(tree_of, dist):
    script = f"mount -t tmpfs -o ro tmpfs /root; PATH=/mnt/unpacked/bin:$PATH; cd /tmp; {places.RECORD}"
    places.check_output(places.in_tree(tree_of("bullseye"), dist, script, tmp="noexec"))
    done = places.in_tree(tree_of("bullseye"), dist, "mount -t tmpfs -o ro tmpfs /root; cd; /mnt/unpacked/bin/cowprof -- true")
    assert done.returncode == 6 and len(done.stderr.splitlines()) == 1 and "Read-only file system" in done.stderr
