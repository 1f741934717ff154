"""Some seconds of the soak test (soak.py runs an hour): a real DataLoader whose workers are restarted at each epoch."""
import pytest

import soak
import usage


@pytest.mark.parametrize("seconds", [8, pytest.param(600, marks=pytest.mark.slow)])
def test_a_short_soak(seconds, tmp_path, figure):
    """Too short to see a slow leak, but long enough for the rows of ended workers to be folded."""
    lines = []
    figures = soak.soak(seconds / 60, looks=15, workers=6, batches=2, folder=tmp_path, say=lines.append)
    found = [breach for breach in soak.breaches(figures) if not breach.startswith("resident")]
    won, ended = soak.drift(figures), figures[-1]["ended"]
    figure("soak", f"{seconds} s of a DataLoader, {ended} workers that ended",
           f"resident {figures[-1]['resident'] / usage.MIB:.1f} MiB, {won / usage.MIB:+.2f} MiB after the warm-up; "
           f"{figures[-1]['descriptors']} descriptors, constant; {figures[-1]['lost']} lost")
    assert not found, (found, lines)
    assert ended >= 2 * min(seconds, 15)
    assert won <= (4 if seconds < 600 else 1) * usage.MIB, lines
