"""Runs the unit tests that read real processes. Guests run only these, because their kernels set different bits."""
import subprocess

import harness


def test_units_that_read_real_processes():
    # -w NoTests: a pattern without a match is a failure.
    result = subprocess.run([harness.BUILD / "unit_tests", "-w", "NoTests", "live:*,process memory:*,memory reader:*"],
                            capture_output=True, text=True, timeout=harness.DEADLINE)
    assert result.returncode == 0, result.stdout[-4000:]
