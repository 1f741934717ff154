#!/usr/bin/python3
"""Uses /dev/shm in one planted way and reports it in JSON lines; each line on stdin lets it take one step.

test_shm.py runs it in a mount namespace with its own /dev/shm, so that what is planted here is the whole truth about that mount.
"""
import argparse
import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import time
from multiprocessing import resource_tracker, shared_memory

MIB = 2**20
SHM = "/dev/shm/"


def say(event, **fields):
    print(json.dumps({"event": event, "pid": os.getpid(), **fields}), flush=True)


def await_go():
    if not sys.stdin.readline():
        sys.exit()


def loader(arguments):
    """A real DataLoader: workers fill their queues, and the trainer takes batches and keeps them."""
    import torch
    from torch.utils.data import DataLoader, Dataset

    class Ones(Dataset):
        def __len__(self):
            return 100_000

        def __getitem__(self, index):
            time.sleep(arguments.delay)
            return torch.ones(arguments.kib * 256)

    torch.set_num_threads(1)
    torch.multiprocessing.set_sharing_strategy(arguments.strategy)
    say("ready")
    await_go()
    batches = iter(DataLoader(Ones(), batch_size=1, num_workers=arguments.workers, prefetch_factor=arguments.prefetch))
    kept = []
    try:
        for _ in range(arguments.keep):
            kept.append(next(batches))
    except Exception as error:  # a worker died of SIGBUS, or descriptors ran out
        say("failed", error=str(error))
        return
    say("holding", batches=len(kept), workers=[worker.pid for worker in batches._workers])
    await_go()


def leak(arguments):
    """SharedMemory without a resource tracker: the process ends and leaves it behind."""
    block = shared_memory.SharedMemory(create=True, size=arguments.kib * 1024)
    resource_tracker.unregister(block._name, "shared_memory")
    ctypes.memset(ctypes.addressof(ctypes.c_char.from_buffer(block.buf)), 1, arguments.kib * 1024)
    say("ready", name=block.name)
    await_go()
    os._exit(0)


def npy(arguments):
    """An array stored in /dev/shm on purpose for the next run; no process maps it in between."""
    import numpy
    numpy.save(SHM + "features.npy", numpy.ones(arguments.kib * 128))
    say("ready", name="features.npy")
    await_go()


ATTACH = "from multiprocessing import shared_memory; import sys; shared_memory.SharedMemory(name=sys.argv[1]).close()"


def tracked_twice(arguments):
    """Another program attaches and exits; its resource tracker removes the name while it is in use (bpo-38119)."""
    block = shared_memory.SharedMemory(create=True, size=arguments.kib * 1024)
    block.buf[:8] = b"planted!"
    say("ready", name=block.name)
    await_go()
    subprocess.run([sys.executable, "-c", ATTACH, block.name], check=True, stderr=subprocess.DEVNULL)
    say("attached")  # its tracker has yet to remove the name
    await_go()
    os._exit(0)


def handed_over(arguments):
    """Correct use: the creator closes and unlinks while its child still uses the memory."""
    block = shared_memory.SharedMemory(create=True, size=arguments.kib * 1024)
    block.buf[:8] = b"planted!"
    release_read, release_write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(release_write)
        os.read(release_read, 1)
        os._exit(0)
    say("ready", name=block.name)
    await_go()
    block.close()
    block.unlink()
    say("unlinked", child=child)
    await_go()
    os.close(release_write)
    os.waitpid(child, 0)


def outlived(arguments):
    """Correct use, too: the creator exits, and its tracker removes the name while a child still uses the memory."""
    maker = os.fork()
    if maker == 0:
        block = shared_memory.SharedMemory(create=True, size=arguments.kib * 1024)
        block.buf[:8] = b"planted!"
        child = os.fork()
        if child == 0:
            os.closerange(0, 3)
            os.close(resource_tracker.getfd())  # otherwise the tracker would wait for this process
            signal.pause()
        say("ready", name=block.name, child=child)
        await_go()
        os._exit(0)
    os.waitpid(maker, 0)
    say("unlinked")
    await_go()


def crowd(arguments):
    """More files than a scan should look at."""
    for number in range(arguments.keep):
        os.close(os.open(SHM + f"psm_{number}", os.O_CREAT | os.O_RDWR))
    say("ready")
    await_go()


def allocate(arguments):
    """Memory reserved by a system call, as in torch 2.10, without a page fault."""
    say("ready")
    await_go()
    file = os.open(SHM + "torch_%d_1_0" % os.getpid(), os.O_RDWR | os.O_CREAT)
    os.posix_fallocate(file, 0, arguments.kib * 1024)
    os.unlink(SHM + "torch_%d_1_0" % os.getpid())
    say("holding")
    await_go()


def odd(arguments):
    """Names and file types that would mislead a careless reader."""
    file = os.memfd_create("planted")
    os.truncate(file, 3 * MIB)
    os.posix_fallocate(file, 0, 3 * MIB)
    os.makedirs(SHM + "cache")
    for name in (b"cache/table.arrow", b"two\nlines\x1b[31m", b"bad\xff\xfe", b"torch_x_1", b"torch_0_1_1", b"pym-", b"sem.mine"):
        with open(SHM.encode() + name, "wb") as out:
            out.write(b"x" * 65536)
    os.symlink("/etc/passwd", SHM + "psm_link")
    os.symlink("/dev/zero", SHM + "torch_1_2_3")
    os.mkfifo(SHM + "psm_pipe")
    os.link(SHM + "sem.mine", SHM + "sem.twice")
    say("ready", memfd=file)
    await_go()


def descriptors(arguments):
    """Many descriptors, but a constant number of them."""
    kept = [os.open("/dev/null", os.O_RDONLY) for _ in range(arguments.keep)]
    say("ready", kept=len(kept))
    await_go()


SHAPES = {shape.__name__: shape
          for shape in (loader, leak, npy, tracked_twice, handed_over, outlived, crowd, allocate, odd, descriptors)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("--kib", type=int, default=8192, help="size of one block or batch")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--prefetch", type=int, default=2)
    parser.add_argument("--keep", type=int, default=0, help="batches that the trainer keeps, or descriptors")
    parser.add_argument("--strategy", default="file_descriptor")
    parser.add_argument("--delay", type=float, default=0, help="seconds that loading an item takes")
    parser.add_argument("--limit", type=int, default=0, help="RLIMIT_NOFILE")
    arguments = parser.parse_args()
    if arguments.limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (arguments.limit, arguments.limit))
    SHAPES[arguments.shape](arguments)
    say("end")


if __name__ == "__main__":
    main()
