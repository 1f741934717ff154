"""Tests that test_pytest_plugin.py runs, and counts the outcomes of."""
import gc
import itertools
import os
import time

import pytest

STRINGS = [str(number).zfill(300) for number in range(20000)]
BYTES = len({id(text) >> 12 for text in STRINGS}) * os.sysconf("SC_PAGE_SIZE")  # what reading all copies: 7 MiB


def fork_readers(workers=1, hold=0.0, status=0, strings=len(STRINGS)):
    gc.disable()
    children = []
    for _ in range(workers):
        children.append(os.fork())
        if children[-1] == 0:
            sum(len(text) for text in itertools.islice(STRINGS, strings))
            time.sleep(hold)
            os._exit(status)
    for child in children:
        os.waitpid(child, 0)


@pytest.mark.limit_copies("12 MiB")
@pytest.mark.limit_private("12 MiB")
def test_kept():
    fork_readers(hold=0.4)  # its private memory is seen in samples, 200 ms apart


@pytest.mark.limit_copies("2 MiB")
@pytest.mark.limit_private("3 MiB")
def test_broken():
    fork_readers(hold=0.3)


@pytest.mark.limit_private("1 GiB")
def test_private():
    fork_readers(hold=2.0)  # as in test_report()


@pytest.mark.limit_copies("1 GiB")
def test_no_worker():
    pass


@pytest.mark.limit_copies("1 GiB")
def test_worker_that_failed():
    fork_readers(status=1)


@pytest.mark.limit_copies("20")
def test_no_unit():
    fork_readers()


@pytest.mark.limit_copies(20)
def test_no_size():
    fork_readers()


@pytest.mark.limit_copies("12 MiB")
def test_failure_of_its_own():
    assert False, "its own"


@pytest.mark.limit_copies("2 MiB")
class TestOfAClass:
    @pytest.mark.limit_copies("12 MiB")
    def test_closest(self):
        fork_readers()


def test_report(cowprof_report):
    fork_readers(2, hold=2.0)  # by the page map, copies are those of the last look, which its budget puts off on a slow machine
    report = cowprof_report()
    assert [row["role"] for row in report["workers"]] == ["worker", "worker"]
    assert sum(row["copied_bytes"] for row in report["workers"]) >= 2 * BYTES


def test_unnamed(request):
    request.getfixturevalue("cowprof_report")


@pytest.mark.skipif(True, reason="no GPU")
@pytest.mark.limit_copies("12 MiB")
def test_skipif():
    fork_readers()


@pytest.mark.cowprof
def test_recorded(monkeypatch):
    monkeypatch.chdir("/")
    fork_readers(hold=0.3, workers=2 if os.environ.get("SAMPLES_GROW") else 1)


@pytest.mark.cowprof
def test_rounds():
    """With SAMPLES_ROUNDS workers read half as much, three times: less at one time, more in all."""
    rounds = 3 if os.environ.get("SAMPLES_ROUNDS") else 1
    for _ in range(rounds):
        fork_readers(2, hold=0.3, strings=len(STRINGS) // min(rounds, 2))


def test_without_anything():
    pass


@pytest.fixture(scope="module")
def early_worker():
    """Lives, with memory of its own, when the recording of a later test begins."""
    end, go = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(go)
        own = [text + "x" for text in STRINGS]
        os.read(end, 1)
        os._exit(len(own) & 0)
    yield time.sleep(0.5)
    os.close(go)
    os.waitpid(child, 0)


def test_before_late(early_worker):
    pass


@pytest.mark.limit_copies("1 GiB")
def test_late(early_worker):
    fork_readers()
