"""A Python started after the recording began. It forks or spawns a worker that reads an entire list of strings."""
import multiprocessing
import os
import sys
import time

STRINGS = 60_000  # 300 bytes each, 4,700 pages


def read(strings):
    total = 0
    for text in strings:
        total += len(text)
    return total


def main():
    strings = [f"{number:0300d}" for number in range(STRINGS)]
    time.sleep(0.2)  # on a busy machine cowprof gets its turn late
    if os.fork() == 0:
        read(strings)
        time.sleep(0.3)
        os._exit(0)
    os.wait()


if __name__ == "__main__":
    if sys.argv[1] == "fork":
        main()
    elif sys.argv[1] == "spawn":
        worker = multiprocessing.get_context("spawn").Process(target=main)
        worker.start()
        worker.join()
