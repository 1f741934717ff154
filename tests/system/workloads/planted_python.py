#!/usr/bin/env python3
"""Plants copies of known cause, type and line in one forked worker, under any CPython from 3.6 to 3.14.

    planted_python.py SCENARIO [--items N]        planted_python.py --list

The parent builds the data, prints "ready" and waits for a line on stdin. Then it forks a worker, which does the planted access and
nothing else. planted_truth.py determines the truth; planted_reads.py and planted_writes.py hold the scenarios.
"""
import sys

sys.dont_write_bytecode = True

import planted_reads
import planted_truth
import planted_writes

if __name__ == "__main__":
    planted_truth.main(dict(planted_reads.SCENARIOS, **planted_writes.SCENARIOS))
