"""Makes the disk that every guest boots: the tests, cowprof, and the host packages that they need.

An ext4 image of copied files: no installation, no initramfs, no other distribution. It is read-only; a guest writes to an overlay
that qemu discards.
"""
import os
import re
import shutil
import subprocess
from pathlib import Path

PACKAGES = ("python3", "python3-pytest", "python3-jsonschema", "bash", "dash", "util-linux", "bpftool", "coreutils", "mount",
            "util-linux-extra", "procps", "grep", "sed", "mawk", "passwd", "login")
NOT_NEEDED = re.compile(r"/usr/share/(doc|locale|man|info|i18n|zoneinfo|bash-completion)/|/test/|/gconv/")
FREE_MIB = 256


def _installed():
    """{package: its dependencies} of this machine, and {virtual package: its providers}."""
    form = "${Package}\t${Depends}, ${Pre-Depends}\t${Provides}\t${db:Status-Status}\n"
    listed = subprocess.run(["dpkg-query", "-W", "-f", form], capture_output=True, text=True, check=True).stdout
    depends, providers = {}, {}
    for name, needed, provided, status in (line.split("\t") for line in listed.splitlines()):
        if status == "installed":
            depends[name] = [re.findall(r"[a-z0-9][a-z0-9+.-]+", re.sub(r"\(.*?\)|:any", "", one)) for one in needed.split(",")]
            for virtual in re.findall(r"[a-z0-9][a-z0-9+.-]+", re.sub(r"\(.*?\)", "", provided)):
                providers.setdefault(virtual, name)
    return depends, providers


def _with_dependencies(packages):
    depends, providers = _installed()
    found, todo = set(), list(packages)
    while todo:
        name = todo.pop()
        name = name if name in depends else providers.get(name)
        if name and name not in found:
            found.add(name)
            for choices in depends[name]:
                todo += [one for one in choices if one in depends or one in providers][:1]
    return found


def _packages_of(program):
    """The packages of the shared libraries with which a program is linked."""
    linked = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    paths = {os.path.realpath(path) for path in re.findall(r"(/\S+) \(0x", linked)}
    listed = subprocess.run(["dpkg", "-S", *paths], capture_output=True, text=True).stdout
    return {line.split(":")[0] for line in listed.splitlines()}


def _files_of(packages):
    """The files of the packages, with links such as /lib -> /usr/lib resolved."""
    listed = subprocess.run(["dpkg", "-L", *packages], capture_output=True, text=True, check=True).stdout
    files = set()
    for path in map(Path, listed.splitlines()):
        if NOT_NEEDED.search(str(path)) or not os.path.lexists(path) or (path.is_dir() and not path.is_symlink()):
            continue
        real = Path(os.path.realpath(path.parent)) / path.name
        files.add(real)
        if real.suffix == ".py":  # dpkg does not list bytecode compiled at installation, and compiling is slow in a guest
            files |= set((real.parent / "__pycache__").glob(f"{real.stem}.*.pyc"))
    return files


def _copy(files, root):
    for file in files:
        target = root / file.relative_to("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(file, target, follow_symlinks=False)


def _lay_system(root, cowprof):
    for name in ("bin", "sbin", "lib", "lib64"):
        if Path("/", name).is_symlink():
            (root / "usr" / name).mkdir(parents=True, exist_ok=True)
            (root / name).symlink_to(f"usr/{name}")
    _copy(_files_of(_with_dependencies({*PACKAGES, *_packages_of(cowprof)})), root)
    _copy([path for path in map(Path, ("/etc/passwd", "/etc/group", "/etc/ld.so.cache", "/etc/nsswitch.conf")) if path.exists()],
          root)
    for name in ("dev", "proc", "sys", "tmp", "run", "root", "var/tmp"):
        (root / name).mkdir(parents=True, exist_ok=True)


def _lay_project(root, repository, build):
    project = root / "project"
    hidden = shutil.ignore_patterns("__pycache__", "*.c", "*.pyc")
    for name in ("tests/system", "tests/vm", "tests/bench", "schema"):
        shutil.copytree(repository / name, project / name, ignore=hidden)
    for name in ("workloads", "fault_steps"):  # the second: only if a bench has made it
        if (build / name).exists():
            shutil.copytree(build / name, project / "build" / name)
    for program in ("cowprof", "cowprof_static", "unit_tests"):
        if program == "cowprof_static" and not (build / program).exists():
            continue
        subprocess.run(["strip", "-o", project / "build" / program, build / program], check=True)


def make_disk(repository, build, folder):
    """Builds `folder`/root.ext4 from the current files and returns its path."""
    root, disk = folder / "root", folder / "root.ext4"
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    _lay_system(root, build / "cowprof")
    _lay_project(root, repository, build)
    used = sum(file.lstat().st_size + 4096 for file in root.rglob("*"))
    disk.unlink(missing_ok=True)
    subprocess.run(["/sbin/mke2fs", "-q", "-t", "ext4", "-d", root, disk, f"{used // 2**20 + FREE_MIB}M"], check=True)
    shutil.rmtree(root)
    return disk
