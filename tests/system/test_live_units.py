"""The unit tests that look at real processes. A guest runs no others of them, and its kernel sets other bits."""
import subprocess

import harness


def test_units_that_read_real_processes():
    result = subprocess.run([harness.BUILD / "unit_tests", "live:*,process memory:*,memory reader:*"], capture_output=True, text=True,
                            timeout=harness.DEADLINE)
    assert result.returncode == 0, result.stdout[-4000:]
