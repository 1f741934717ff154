#!/usr/bin/python3
"""Writes the wheel: a zip archive with the binary as a script and the package of python/cowprof, as https://packaging.python.org/specifications/binary-distribution-format/ has it.

    wheel.py VERSION BINARY OUTPUT-FOLDER LICENCE-FILE...      prints the path of the wheel

The same input gives the same bytes; times are SOURCE_DATE_EPOCH.
"""
import base64
import hashlib
import os
import platform
import sys
import time
import zipfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
PACKAGE = REPOSITORY / "python"
# The binary needs no library, so the oldest tags fit: those of glibc 2.17 and of musl 1.1. pip before 20.3 knows the second only.
TAGS = [f"py3-none-{system}_{platform.machine()}" for system in ("manylinux_2_17", "manylinux2014", "musllinux_1_1")]
METADATA = """\
Metadata-Version: 2.1
Name: cowprof
Version: {version}
Summary: Copy-on-write memory growth profiler for Linux
License: Apache-2.0
Requires-Python: >=3.8
Classifier: Operating System :: POSIX :: Linux
Classifier: Framework :: Pytest
Classifier: Topic :: Software Development :: Debuggers
Classifier: Typing :: Typed
Description-Content-Type: text/markdown

{readme}"""
WHEEL = "Wheel-Version: 1.0\nGenerator: cowprof\nRoot-Is-Purelib: false\n" + "".join(f"Tag: {tag}\n" for tag in TAGS)
# pytest loads its plugin by this.
ENTRY_POINTS = "[pytest11]\ncowprof = cowprof.pytest_plugin\n"


def main(version, binary, folder, *licences):
    info, data = f"cowprof-{version}.dist-info", f"cowprof-{version}.data"
    sources = sorted(path for path in (PACKAGE / "cowprof").iterdir() if path.suffix == ".py" or path.name == "py.typed")
    files = {**{path.relative_to(PACKAGE).as_posix(): path.read_bytes() for path in sources},
             f"{data}/scripts/cowprof": Path(binary).read_bytes(),
             **{f"{info}/licenses/{Path(name).name}": Path(name).read_bytes() for name in licences},
             f"{info}/METADATA": METADATA.format(version=version, readme=(REPOSITORY / "README.md").read_text()).encode(),
             f"{info}/WHEEL": WHEEL.encode(),
             f"{info}/entry_points.txt": ENTRY_POINTS.encode()}
    record = "".join("{},sha256={},{}\n".format(
        name, base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode(), len(content)) for name, content in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()

    platforms = ".".join(tag.rpartition("-")[2] for tag in TAGS)
    path = Path(folder) / f"cowprof-{version}-py3-none-{platforms}.whl"
    date = time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))[:6]
    with zipfile.ZipFile(path, "w") as wheel:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, date)
            entry.external_attr = (0o100755 if "/scripts/" in name else 0o100644) << 16
            wheel.writestr(entry, content, zipfile.ZIP_DEFLATED, 9)
    print(path)


main(*sys.argv[1:])
