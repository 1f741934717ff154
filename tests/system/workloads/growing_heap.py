"""Loads objects of malloc's heap after the recording began; a forked worker reads a part of them, in order."""
import os
import time

ITEMS, PARTS = 300_000, 10

time.sleep(1.5)  # the heap is small when it is first looked at
items = [bytes(600) + bytes([i % 250]) for i in range(ITEMS)]
pid = os.fork()
if pid == 0:
    for part in range(PARTS // 2):
        for item in range(part * ITEMS // PARTS, (part + 1) * ITEMS // PARTS):
            items[item]
        time.sleep(1)
    os._exit(0)
os.waitpid(pid, 0)
