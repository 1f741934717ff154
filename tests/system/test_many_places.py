"""A program with more stacks than the recorder has room for keeps the lines of what it does later."""
import json

import pytest

import harness

WORKLOAD = harness.REPOSITORY / "tests" / "system" / "workloads" / "many_places.py"


def pages_of(document, function):
    """New pages that the recording has for stacks with this function."""
    frames, sites, pages = {}, {}, {}
    for record in document["records"]:
        frames.update((frame, name) for frame, _, name, _ in record.get("frames", []))
        sites.update((site, stack) for site, stack in record.get("new_growth", []))
        pages.update(((index, site), count) for index, site, count, _ in record.get("growth", []))
    return sum(count for (_, site), count in pages.items() if function in [frames[frame] for frame in sites[site]])


@pytest.mark.parametrize("words", [["few"], [], ["forks"]], ids=["few", "recurring", "of processes that ended"])
def test_new_memory_has_its_line_after_many_other_places(tmp_path, words):
    path = tmp_path / "run.json"
    with open(tmp_path / "out", "w+") as out:
        recording = harness.Recording(path, ["--quiet", "--output", path, "--", harness.PYTHON, WORKLOAD, *words], stdout=out)
        assert recording.wait(20 * harness.DEADLINE) == 0, recording.stderr  # the program alone takes 20 to 160 s, more beside others
        out.seek(0)
        said = json.loads(out.read().splitlines()[-1])
    recording.report()  # nothing was lost
    document = recording.timeline()
    assert pages_of(document, "visit") > 0
    assert pages_of(document, "hoard") >= 0.9 * said["hoarded"]
