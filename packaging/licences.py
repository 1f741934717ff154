#!/usr/bin/python3
"""Prints the licences of all that a build of cowprof contains: of each Debian package that a library or a header came from, and of the page's.

    licences.py BUILD-FOLDER

The libraries are those of the link's command, the headers those that the compiler read, both as ninja knows them.
"""
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
PAGE = ("uplot",)  # the npm packages whose code is in the page
LINE = "=" * 78


def output(*command):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout


def files_of(build):
    link = output("ninja", "-C", build, "-t", "commands", "cowprof_static").splitlines()[-1].split()
    yield from (word for word in link if word.startswith("/") and word.endswith(".a"))
    tool = False
    for line in output("ninja", "-C", build, "-t", "deps").splitlines():
        if not line.startswith(" "):
            tool = line.startswith(("CMakeFiles/cowprof_core.dir/", "CMakeFiles/cowprof.dir/"))
        elif tool and line.startswith("    /usr/"):
            yield line.strip()
    # Linked without being named.
    for library in ("libc.a", "libm.a", "libstdc++.a", "libgcc.a", "libgcc_eh.a"):
        yield output("gcc", f"-print-file-name={library}").strip()


def packages_of(files):
    paths = sorted({str(Path(path).resolve()) for path in set(files)})
    owners = output("dpkg-query", "--search", *paths)
    return sorted({owner.split(":")[0] for line in owners.splitlines() for owner in line.rpartition(": ")[0].split(", ")})


def main(build):
    print("cowprof's binary contains, beside cowprof itself (LICENSE), code from these Debian and npm packages. Their sources are at\n"
          "https://sources.debian.org and https://www.npmjs.com; cowprof's own are all that is needed to link it with others of them.\n")
    for package in packages_of(files_of(build)):
        version = output("dpkg-query", "--show", "--showformat", "${source:Package} ${source:Version}", package)
        print(f"{LINE}\n{package} (source: {version})\n{LINE}\n")
        print(Path("/usr/share/doc", package, "copyright").read_text(errors="replace"))
    for package in PAGE:
        folder = REPOSITORY / "web" / "node_modules" / package
        print(f"{LINE}\n{package} (npm)\n{LINE}\n")
        print((folder / "LICENSE").read_text())


main(sys.argv[1])
