"""Command lines, valid and invalid: exit status, output per stream, peak memory, and that few descriptors suffice. The wording of
messages is tested in test_bad_input.py and test_command.py.
"""
import os
import subprocess

import pytest

import harness
import usage
from test_bad_input import NOT_RECORDINGS, USAGE

MOST_RESIDENT = 64 * usage.MIB
FEW_DESCRIPTORS = 24
NOTHING, ONE_LINE, SOME = "nothing", "one line", "some"

OWN = str(os.getpid())
WRONG = {  # arguments -> status; {} are the fixture's files
    **{f"usage: {name}": (arguments, 2) for name, arguments in USAGE.items()},
    **{f"invalid pid: {pid!r}": ([f"--attach={pid}"], 2) for pid in ("0", "-1", "abc", "", "12x", "1.5")},
    "an unused pid": (["--attach", "4194300"], 4),
    "a kernel thread": (["--attach", "2"], 4),
    **{f"{command} of {name}": ([command, f"{{{name}}}"], 2)
       for command in ("report", "view") for name in ("empty", "text", "other JSON", "no records")},
    **{f"{command} of a missing file": ([command, "{folder}/none"], 2) for command in ("report", "view")},
    "report of a folder without recordings": (["report", "/proc/self/fd"], 2),
    "report with a flag of recording": (["report", "--attach", OWN, "{recording}"], 2),
    "view to a missing folder": (["view", "{recording}", "-o", "{folder}/none/page.html"], 6),
    "an output that is a folder": (["--attach", OWN, "--output", "{folder}"], 6),
    "an output in a missing folder": (["--attach", OWN, "--output", "{folder}/none/out.json"], 6),
    "an output on a full device": (["--attach", OWN, "--output", "/dev/full"], 6),
    "alert at an invalid share": (["--attach", OWN, "--alert-at", "often"], 2),
    "alert at an invalid time": (["--attach", OWN, "--alert-eta", "soon"], 2),
    "a missing hook": (["--attach", OWN, "--alert-at", "90%", "--on-alert", "/no/such/hook"], 2),
    "doctor with an unknown flag": (["doctor", "--no-such-flag"], 2),
    "shm with an unknown flag": (["shm", "--no-such-flag"], 2),
    "doctor of an invalid pid": (["doctor", "abc"], 2),
    "shm of an invalid pid": (["shm", "abc"], 2),
    "pickle of nothing": (["pickle"], 2),
    "pickle of an invalid pid": (["pickle", "abc"], 2),
    "pickle of an unused pid": (["pickle", "4194300"], 4),
    "pickle of a missing name": (["pickle", OWN, "--object", "__main__.no_such_name"], 2),
    "export without a recording": (["export", "csv"], 2),
    "export in an unknown format": (["export", "svg", "{recording}"], 2),
    "export of another file": (["export", "pprof", "{text}"], 2),
    "export to a missing folder": (["export", "csv", "{recording}", "-o", "{folder}/none/a.csv"], 6),
    "watch of a folder in a missing one": (["watch", "--folder", "{folder}/none/recordings"], 6),
    "watch with an invalid expression": (["watch", "--match", "("], 2),
    "watch with a back reference": (["watch", "--match", "(a)\\1"], 2),
    "watch that keeps nonsense": (["watch", "--keep", "a while"], 2),
    "watch of no trainer": (["watch", "--at-most", "0"], 2),
    "watch of a pid": (["watch", "--attach", OWN], 2),
    "hang without a pid": (["hang"], 2),
    "hang of no process": (["hang", "4194304"], 4),
}
RIGHT = {  # arguments -> (status, stdout, stderr)
    "help": (["--help"], (0, SOME, NOTHING)),
    "short help": (["-h"], (0, SOME, NOTHING)),
    "version": (["--version"], (0, SOME, NOTHING)),
    "help of report": (["report", "--help"], (0, SOME, NOTHING)),
    "help of view": (["view", "--help"], (0, SOME, NOTHING)),
    "help of doctor": (["doctor", "--help"], (0, SOME, NOTHING)),
    "help of shm": (["shm", "--help"], (0, SOME, NOTHING)),
    "help of watch": (["watch", "--help"], (0, SOME, NOTHING)),
    "help of hang": (["hang", "--help"], (0, SOME, NOTHING)),
    "help of demo": (["demo", "--help"], (0, SOME, NOTHING)),
    "help of completions": (["completions", "--help"], (0, SOME, NOTHING)),
    "completions": (["completions", "bash"], (0, SOME, NOTHING)),
    "completions of no known shell": (["completions", "tcsh"], (2, NOTHING, ONE_LINE)),
    "the man page": (["--man"], (0, SOME, NOTHING)),
    "an unknown colour": (["report", "{recording}", "--color", "blue"], (2, NOTHING, ONE_LINE)),
    "doctor": (["doctor"], (0, SOME, NOTHING)),
    "doctor as JSON": (["doctor", "--json"], (0, SOME, NOTHING)),
    "doctor of a process": (["doctor", OWN], (0, SOME, NOTHING)),
    "help of pickle": (["pickle", "--help"], (0, SOME, NOTHING)),
    "pickle": (["pickle", OWN], (0, SOME, NOTHING)),
    "pickle as JSON": (["pickle", OWN, "--json"], (0, SOME, NOTHING)),
    "shm": (["shm"], (0, SOME, NOTHING)),
    "shm as JSON": (["shm", "--json"], (0, SOME, NOTHING)),
    "hang": (["hang", OWN], (0, SOME, NOTHING)),
    "hang as JSON": (["hang", OWN, "--json"], (0, SOME, NOTHING)),
    "report": (["report", "{recording}"], (0, SOME, NOTHING)),
    "report of two": (["report", "{recording}", "{recording}"], (0, SOME, NOTHING)),
    "report of one and of what is none": (["report", "{recording}", "{folder}/none"], (2, SOME, ONE_LINE)),
    "report as JSON": (["report", "{recording}", "--json"], (0, SOME, NOTHING)),
    "report as JSON, flag first": (["report", "--json", "{recording}"], (0, SOME, NOTHING)),
    "view": (["view", "{recording}", "-o", "{folder}/page.html"], (0, SOME, NOTHING)),
    "view to stdout": (["view", "{recording}", "-o", "-"], (0, SOME, NOTHING)),
    "view of two": (["view", "{recording}", "{recording}", "-o", "{folder}/page.html"], (0, SOME, ONE_LINE)),
    "view of a folder": (["view", "{folder}", "-o", "{folder}/page.html"], (0, SOME, NOTHING)),
    "view of a folder, compared": (["view", "{folder}", "{folder}", "--as", "compare"], (2, NOTHING, ONE_LINE)),
    "help of export": (["export", "--help"], (0, SOME, NOTHING)),
    **{f"export {form}": (["export", form, "{recording}", "-o", "{folder}/exported"], (0, ONE_LINE, NOTHING))
       for form in ("pprof", "perfetto", "speedscope", "folded", "csv")},
    "export to stdout": (["export", "csv", "{recording}", "-o", "-"], (0, SOME, NOTHING)),
    "attach": (["--attach", "{target}", "--duration=300ms"], (0, SOME, ONE_LINE)),
    "attach quietly": (["--attach={target}", "--duration=300ms", "--quiet"], (0, NOTHING, NOTHING)),
    "attach, flags before and after": (["--quiet", "--attach", "{target}", "--duration", "300ms"], (0, NOTHING, NOTHING)),
    "a program": (["--quiet", "--", "echo", "its own"], (0, ONE_LINE, NOTHING)),
    "a program that fails": (["--quiet", "--", "sh", "-c", "exit 7"], (7, NOTHING, NOTHING)),
    "a program that is killed": (["--quiet", "--", "sh", "-c", "kill -TERM $$"], (143, NOTHING, NOTHING)),
    "a missing program": (["--quiet", "--", "no-such-program"], (127, NOTHING, ONE_LINE)),
    "a file that is not a program": (["--quiet", "--", "{text}"], (126, NOTHING, ONE_LINE)),
}
CASES = {**{name: (arguments, (status, NOTHING, ONE_LINE)) for name, (arguments, status) in WRONG.items()}, **RIGHT}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The files that the cases name in braces."""
    folder = tmp_path_factory.mktemp("files")
    named = {"folder": folder, "recording": folder / "recording.json"}
    for name in ("empty", "text", "other JSON", "no records"):
        named[name] = folder / name.replace(" ", "-")
        named[name].write_bytes(NOT_RECORDINGS[name])
    done = harness.run_cowprof("--quiet", "--output", named["recording"], "--", harness.WORKLOADS / "fork_copies", "--pages=100")
    assert done.returncode == 0, done.stderr
    target = harness.Process([harness.WORKLOADS / "fork_copies", "--pages=10", "--wait"])
    target.await_line("role", "ready")
    named["target"] = target.pid
    yield named
    target.stop()


def filled(word, files):
    for name, value in files.items():
        word = word.replace(f"{{{name}}}", str(value))
    return word


def amount(text):
    lines = len(text.splitlines())
    return NOTHING if lines == 0 else ONE_LINE if lines == 1 else SOME


# Starts the tool and writes its wait status and peak KiB to a descriptor. A process of its own, as a child begins with the peak of
# whoever forked it, and pytest has more than the tool may.
LAUNCHER = """
import os, resource, sys
told, descriptors, tool = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))
_, status, used = os.wait4(os.posix_spawn(tool[0], tool, os.environ, file_actions=[(os.POSIX_SPAWN_CLOSE, told)]), 0)
os.write(told, f"{status} {used.ru_maxrss}".encode())
"""


def run_measured(arguments, folder, descriptors):
    """The exit status, both streams, and peak resident memory."""
    with open(folder / "stdout", "w+") as stdout, open(folder / "stderr", "w+") as stderr, open(folder / "used", "w+") as used:
        launcher = [harness.PYTHON, "-IS", "-c", LAUNCHER, str(used.fileno()), str(descriptors), str(harness.COWPROF), *arguments]
        subprocess.run(launcher, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr, cwd=folder, pass_fds=[used.fileno()], check=True)
        status, peak = map(int, (folder / "used").read_text().split())
        return (os.waitstatus_to_exitcode(status), (folder / "stdout").read_text(), (folder / "stderr").read_text(), peak * usage.KIB)


_measured = {}


@pytest.mark.parametrize("case", CASES)
def test_a_command_line(case, files, tmp_path):
    arguments, (status, on_stdout, on_stderr) = CASES[case]
    loads_none = status in (2, 4) or arguments[0] in ("report", "view", "export", "shm", "hang")
    got = run_measured([filled(word, files) for word in arguments], tmp_path, FEW_DESCRIPTORS if loads_none else 128)
    assert got[0] == status, got[:3]
    assert amount(got[2]) == on_stderr, got[2]
    assert amount(got[1]) == on_stdout or (on_stdout == SOME and got[1]), got[1]
    assert got[3] < MOST_RESIDENT
    _measured[case] = got[3]


PRINTING = ("help", "version", "completions", "doctor", "doctor as JSON", "pickle", "shm", "hang", "hang as JSON", "report",
            "report as JSON", "view", "view to stdout", "export csv", "export to stdout")


@pytest.mark.parametrize("case", PRINTING)
def test_stdout_is_a_full_device(case, files, tmp_path):
    with open("/dev/full", "w") as full:
        done = subprocess.run([harness.COWPROF, *(filled(word, files) for word in CASES[case][0])], stdin=subprocess.DEVNULL, stdout=full,
                              stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    assert done.returncode == 6 and amount(done.stderr) == ONE_LINE, done


def test_the_table_has_at_least_sixty_command_lines(figure):
    assert len(CASES) >= 60
    figure("command lines", f"{len(CASES)} command lines",
           f"{len(_measured)} with the right exit status and streams; resident at most {max(_measured.values(), default=0) / usage.MIB:.0f} MiB; "
           f"those that load no probes need at most {FEW_DESCRIPTORS} descriptors")
