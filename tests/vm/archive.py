"""Fetches distribution kernels from the Debian archive that apt already uses, and unpacks the packages without installing them.

Each suite has its own apt configuration below the build directory, so that the machine's stays unchanged; apt checks the
signatures. Owns the mapping from kernels to suites.
"""
import re
import subprocess
from pathlib import Path

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
# --kernel name -> the suite whose newest cloud kernel it means. Cloud kernels have NVMe and ext4 built in, so they boot from a disk
# without modules or initramfs.
SUITES = {"5.10": "bullseye", "6.1": "bookworm", "6.12": "bookworm-backports", "sid": "sid",
          "backports": "trixie-backports", "uml": "bookworm"}
# A kernel without BTF, which is a program: it needs no emulator.
UML = "uml"


class Unreachable(Exception):
    """Why the kernel could not be fetched, in one line."""


def _run(command):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if result.returncode:
        lines = (result.stderr or result.stdout).strip().splitlines() or ["no message"]
        raise Unreachable(f"{' '.join(map(str, command[:1]))}: {lines[-1]}")
    return result.stdout


def mirror():
    """The address of the Debian archive from apt's configuration."""
    targets = _run(["apt-get", "indextargets", "--format", "$(ORIGIN) $(LABEL) $(REPO_URI)", "Created-By: Packages"])
    found = re.findall(r"^Debian Debian (\S+)$", targets, re.M)
    if not found:
        raise Unreachable("apt has no package list of the Debian archive; run apt-get update first")
    return found[0]


class Archive:
    """One suite, through its own apt configuration in `folder`."""

    def __init__(self, suite, folder):
        self.suite, self.folder = suite, folder
        for name in ("lists/partial", "cache/archives/partial", "parts"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / "sources.list").write_text(f"deb [signed-by={KEYRING}] {mirror()} {suite} main\n")
        (folder / "status").touch()
        options = {"Dir::Etc::SourceList": folder / "sources.list", "Dir::Etc::SourceParts": folder / "parts",
                   "Dir::Etc::Preferences": "/dev/null", "Dir::Etc::PreferencesParts": folder / "parts",
                   "Dir::State::Lists": folder / "lists", "Dir::State::status": folder / "status",
                   "Dir::Cache": folder / "cache", "APT::Sandbox::User": "root", "Acquire::Languages": "none",
                   "APT::Update::Error-Mode": "any"}
        self._options = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]

    def apt(self, tool, *arguments):
        return _run([tool, *self._options, *arguments])

    def download(self, packages):
        """Fetches and unpacks packages into the folder."""
        subprocess.run(["apt-get", *self._options, "download", "-q", *packages], cwd=self.folder, check=True, text=True,
                       stdout=subprocess.DEVNULL)
        for file in self.folder.glob("*.deb"):
            _run(["dpkg-deb", "-x", file, self.folder / "root"])
            file.unlink()


def _image_of(folder):
    """The kernel below a folder: /boot/vmlinuz-VERSION, or (since 7.0) /usr/lib/modules/VERSION/vmlinuz; or user-mode-linux."""
    found = [*folder.glob("root/boot/vmlinuz-*"), *folder.glob("root/usr/lib/modules/*/vmlinuz"), *folder.glob("root/usr/bin/linux.uml")]
    return found[0] if found else None


def fetch_kernel(name, build):
    """The path of a kernel image; raises Unreachable. A fetched image is kept; remove the folder to get a newer one."""
    suite = SUITES[name]
    folder = Path(build) / "kernels" / (UML if name == UML else suite)
    if not _image_of(folder):
        archive = Archive(suite, folder)
        archive.apt("apt-get", "update", "-q")
        names = "" if name == UML else archive.apt("apt-cache", "depends", "--recurse", "--important", "linux-image-cloud-amd64")
        archive.download(re.findall(r"^linux-(?:image|binary)-\d\S*$", names, re.M) or ["user-mode-linux"])
    image = _image_of(folder)
    if not image:
        raise Unreachable(f"{suite}: the kernel package contains no vmlinuz")
    return image
