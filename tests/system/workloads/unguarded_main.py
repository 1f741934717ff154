"""Starts a process where it is imported, without a guard: in the process that spawn starts, that is an error."""
import multiprocessing
import sys
import time


def work():
    pass


time.sleep(2)  # as long as it takes to import torch
process = multiprocessing.get_context("spawn").Process(target=work)
process.start()
process.join()
sys.exit(process.exitcode)
