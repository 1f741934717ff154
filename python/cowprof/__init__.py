"""Copy-on-write memory growth of the calling process and its workers.

    import cowprof
    with cowprof.record("run.json") as r:
        train()
    print(r.verdict, r.copied_bytes)
"""
from cowprof._program import CowprofError
from cowprof._recording import NotAttached, Recording, record
from cowprof._timeline import Live

__all__ = ["CowprofError", "Live", "NotAttached", "Recording", "record"]
