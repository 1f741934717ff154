"""Records itself with cowprof.record() while it forks a worker that reads a list of strings; prints what it knows and what it was told.

Runs under CPython 3.8 and later: self_recording.py RECORDING
"""
import gc
import json
import os
import sys
import time

import cowprof

STRINGS = 20000  # of 350 bytes


def read(strings):
    total = 0
    for text in strings:
        total += len(text)
    return total


def fork_reader(strings):
    """A worker that reads all, says so, and waits. Returns its pid and the functions that wait for its word and end it."""
    done, say = os.pipe()
    wait, end = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(end)  # a worker whose parent is gone ends, too
        read(strings)
        os.write(say, b"r")
        os.read(wait, 1)
        os._exit(0)
    os.close(wait)
    os.close(say)

    def finish():
        os.close(end)
        os.waitpid(pid, 0)

    return pid, lambda: os.read(done, 1), finish


def await_live(recording, seconds):
    """Figures once they have been the same for a second: on a slow machine a sweep of the page map takes as long."""
    before, same, deadline = None, 0, time.monotonic() + seconds
    while True:
        live = recording.live()
        same = same + 1 if live.copied_bytes and live == before else 0
        if same == 4:
            return live
        if time.monotonic() > deadline:
            raise SystemExit("figures go on to change: {}, {}".format(before, live))
        before = live
        time.sleep(0.25)


def main():
    gc.disable()
    strings = [str(number).zfill(300) for number in range(STRINGS)]
    with cowprof.record(sys.argv[1], interval="100ms", label={"run": "test"}) as recording:
        pid, await_reader, finish = fork_reader(strings)
        await_reader()
        live = await_live(recording, 30)
        finish()
    # A string's count is its first word.
    print(json.dumps({"pid": os.getpid(), "worker": pid, "pages": len({id(text) >> 12 for text in strings}), "live": live._asdict(),
                      "exactness": recording.exactness, "copied_bytes": recording.copied_bytes, "verdict": recording.verdict,
                      "peak_private_bytes": recording.peak_private_bytes, "report": recording.report}))


if __name__ == "__main__":
    main()
