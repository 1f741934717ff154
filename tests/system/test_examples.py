"""Every command line of the documents runs: on a small recording and a small program where it can, otherwise as far as finding that
there is no such process or program. A status of 2 means that cowprof does not know the line any more.
"""
import re
import shlex
import subprocess

import pytest

import harness

DOCUMENTS = ["README.md", "SKILL.md", "CONTRIBUTING.md", *sorted(f"docs/{path.name}" for path in (harness.REPOSITORY / "docs").glob("*.md"))]
# In an indented or fenced block, or `in backticks`.
COWPROF = r'(?:sudo (?:env "PATH=\$PATH" )?)?(?:(?:build/)?cowprof|\$\(command -v cowprof\))'
BLOCK = re.compile(rf"^(?: {{4,}}|)({COWPROF} [-a-z].*)$", re.MULTILINE)
QUOTED = re.compile(rf"`({COWPROF} (?:[-a-z]+)(?: [^`]*)?)`")
COMPARING = ("diff", "check", "prove")
COMMANDS = ("report", "view", "doctor", "shm", "pickle", "hang", "completions", "demo", "export", *COMPARING)


def lines_of(document):
    text = (harness.REPOSITORY / document).read_text()
    fenced = "\n".join(re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    indented = "\n".join(line for line in text.splitlines() if line.startswith("    "))
    return {*BLOCK.findall(fenced), *BLOCK.findall(indented), *QUOTED.findall(text)}


def words_of(line):
    """The words of cowprof's own command line; None where the line is prose, a message or a pattern."""
    line = re.split(r"\s{2,}|\s#\s|\s[|>;&]|\s2>", line.strip().replace("$(command -v cowprof)", "cowprof"))[0]
    if "..." in line or "[" in line or line.startswith(("--max", "cowprof check TIMELINE --max")):
        return None
    try:
        words = shlex.split(line)
    except ValueError:
        return None
    words = words[words.index("cowprof") + 1 if "cowprof" in words else words.index("build/cowprof") + 1:]
    if not words or (words[0] not in COMMANDS and not words[0].startswith("-")):
        return None
    names_a_command = words[0] in ("report", "view", "export", "pickle", "hang", *COMPARING) and all(word.startswith("-") for word in words[1:])
    return None if names_a_command else words


LINES = [words_of(line) for document in DOCUMENTS for line in sorted(lines_of(document))]
RUN = {shlex.join(words): words for words in LINES if words}
UNUSED_PID = "4194300"
VALUES = {"PID": UNUSED_PID, "N": "2", "4242": UNUSED_PID, "4711": UNUSED_PID, "1234": UNUSED_PID, "/var/lib/cowprof-watch": "recordings/"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Has a recording under every name that the documents use, and no program that they start."""
    folder = tmp_path_factory.mktemp("examples")
    done = harness.run_cowprof("--quiet", "--output", folder / "recording", "--", harness.WORKLOADS / "fork_copies", "--pages=100")
    assert done.returncode == 0, done.stderr
    return folder


def put_recordings(words, folder):
    """Again for each line: one that records into such a file, and can't, takes it away."""
    for word in words[1:] if words[0] in ("report", "view", "export", "diff", "check") else ():
        word = VALUES.get(word, word)
        name = folder / word
        if word.endswith("/"):
            name.mkdir(exist_ok=True)
            name = name / "recording.json"
        elif word.startswith("-") or word in ("report", "view") or word.endswith(".html") or "/" in word:
            continue
        name.write_bytes((folder / "recording").read_bytes())


def test_the_documents_have_examples():
    assert len(RUN) >= 30
    assert {words[0] for words in RUN.values()} >= {"report", "view", "doctor", "shm", "pickle", "hang", "--attach", *COMPARING}


def run(words, folder):
    return subprocess.run([harness.COWPROF, *words], capture_output=True, text=True, cwd=folder, timeout=harness.DEADLINE,
                          stdin=subprocess.DEVNULL, check=False, env={"PATH": str(folder)})


@pytest.mark.parametrize("line", RUN)
def test_an_example(line, folder):
    put_recordings(RUN[line], folder)
    words = [VALUES.get(word, word) for word in RUN[line]]
    if words[0] == "demo":  # test_demo.py runs it
        words.append("--help")
    if words[0] in COMPARING:  # test_compare.py judges what they say; here they are only understood
        done = run(words, folder)
        assert "see cowprof" not in done.stderr and done.returncode in (0, 2, 3, 6, 127), (words, done.stderr)
        return
    wants = {0}
    if UNUSED_PID in words:
        wants = {4} if words[0] not in ("report", "view") else {0}
    if "--" in words:
        wants = {127}  # no program of that name
    if "--output" in words:  # the examples that read a recording find it as it was
        words[words.index("--output") + 1] = "new.json"
    if words[0].startswith("-") and "--attach" not in words and "--" not in words and words[0] not in ("--man", "--help", "--version"):
        words += ["--attach", UNUSED_PID]  # an option by itself
        wants = {4}
    if "--on-alert" in words:
        words[words.index("--on-alert") + 1] = "/bin/true"
    done = run(words, folder)
    assert done.returncode in wants, (words, done.returncode, done.stderr)
