"""Completions in real shells, and the man page as its readers see it."""
import re
import shutil
import subprocess

import pytest

import harness
from conftest import needs

# What is typed, up to the cursor -> what must be offered, and what must not.
TYPED = {
    "commands": ("cowprof re", {"report"}, {"view"}),
    "options": ("cowprof --al", {"--alert-at", "--alert-eta"}, {"--attach"}),
    "a file": ("cowprof report recorded.", {"recorded.json"}, {"--json"}),
    "a second file": ("cowprof view recorded.json recorded.", {"recorded.json"}, set()),
    "options of a command": ("cowprof report --", {"--json"}, {"--attach"}),
    "choices": ("cowprof --color a", {"auto", "always"}, {"never"}),
    "a choice of an operand": ("cowprof completions f", {"fish"}, {"bash"}),
    "formats of an export": ("cowprof export ", {"pprof", "csv"}, {"recorded.json"}),
    "a file to export": ("cowprof export pprof ", {"recorded.json"}, {"speedscope"}),
    "a file to export, after an option": ("cowprof export -o out pprof ", {"recorded.json"}, {"speedscope"}),
    "files to compare": ("cowprof diff --format text recorded.json recorded.", {"recorded.json"}, set()),
    "a bound, which is not a word": ("cowprof check recorded.json --max-copied ", set(), {"SIZE", "N%:BASELINE"}),
    "rungs": ("cowprof --without page", {"page-map"}, {"fentry"}),
    "a value that is a command's name": ("cowprof --output report --al", {"--alert-at"}, set()),
    "a process": ("cowprof --attach 1", {"1"}, {"report"}),
    "a program": ("cowprof --quiet -- pytho", {"python3"}, {"report"}),
}
BASH = """
source "$1"
COMP_WORDS=($2); [[ $2 == *' ' ]] && COMP_WORDS+=('')
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
_cowprof
printf '%s\\n' "${COMPREPLY[@]}"
"""
# A terminal inside of zsh, as in its own test suite; each Tab lists what is offered.
ZSH = """
zmodload zsh/zpty
zpty shell 'zsh -f -i'
zpty -w shell 'PS1=; LISTMAX=10000; unsetopt zle_bracketed_paste; setopt no_beep; stty columns 300 rows 200; autoload -U compinit; compinit -u -D; source '$1
zpty -w shell "zstyle ':completion:*' list-colors 'no='; bindkey '^I' list-choices; echo READ''Y"
zpty -r -m shell line '*READY*'
zpty -w -n shell "$2"$'\\t'
sleep $3
zpty -w -n shell $'\\C-u'
while zpty -r -t shell line; do print -r -- $line; done
zpty -d shell
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "recorded.json").touch()
    return tmp_path


def script_of(shell, folder):
    path = folder / f"completions.{shell}"
    path.write_text(harness.run_cowprof("completions", shell).stdout)
    return path


def offered(shell, typed, folder):
    """The words that a shell offers."""
    needs(f"shell {shell}", shutil.which(shell), "not installed")
    script = script_of(shell, folder)
    command = {"bash": ["bash", "--norc", "-c", BASH, "bash", script, typed],
               "zsh": ["zsh", "-f", "-c", ZSH, "zsh", script, typed, str(0.5 * harness.PATIENCE)],
               "fish": ["fish", "--no-config", "-c", f"source {script}; complete -C '{typed}'"]}[shell]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, timeout=harness.DEADLINE, check=False)
    assert done.returncode == 0 and done.stderr == "", done.stderr
    return set(re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", done.stdout).split())


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
@pytest.mark.parametrize("case", TYPED)
def test_a_shell_offers_what_fits(case, shell, folder):
    typed, wanted, unwanted = TYPED[case]
    words = offered(shell, typed, folder)
    assert wanted <= words, words
    assert not unwanted & words, words


def test_bash_splits_a_value_at_its_sign(folder):
    assert offered("bash", "cowprof --color = al", folder) == {"always"}
    assert offered("bash", "cowprof --color =", folder) == {"auto", "always", "never"}


@pytest.mark.parametrize("reader,command", {"man": ["man", "--warnings", "-l"], "mandoc": ["mandoc", "-Tlint", "-Wstyle"]}.items())
def test_readers_of_the_man_page_have_nothing_to_say(reader, command, folder):
    needs(f"reader {reader}", shutil.which(reader), "not installed")
    page = folder / "cowprof.1"
    page.write_text(harness.run_cowprof("--man").stdout)
    done = subprocess.run([*command, page], capture_output=True, text=True, timeout=harness.DEADLINE, check=False,
                          env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "MANWIDTH": "80"})
    assert (done.returncode, done.stderr) == (0, "")
    assert "--attach" in done.stdout if reader == "man" else done.stdout == ""


def test_a_package_gets_the_same_man_page_each_time():
    pages = [harness.run_cowprof("--man", env={"SOURCE_DATE_EPOCH": "86400"}).stdout for _ in range(2)]
    assert pages[0] == pages[1] and ".TH COWPROF 1 1970-01-02 " in pages[0]
