"""Runs a cell in a kernel of Jupyter, which dies of a data set that can't be pickled: {"event": "ready"} with the kernel's pid and
the error, then waits with the kernel alive until stdin ends."""
import json
import sys

from jupyter_client import KernelManager

CELL = """
import multiprocessing, threading
class Data: pass
dataset = Data()
dataset.rows, dataset.lock = [1], threading.Lock()
worker = multiprocessing.get_context("spawn").Process(target=print, args=(dataset,))
worker.start()
"""


def main():
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel()
    client = manager.client()
    try:
        client.start_channels()
        client.wait_for_ready(timeout=60)
        reply = client.execute_interactive(CELL, timeout=60, output_hook=lambda message: None)["content"]
        print(json.dumps({"event": "ready", "kernel": manager.provisioner.pid, "error": reply.get("evalue")}), flush=True)
        sys.stdin.read()
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


if __name__ == "__main__":
    main()
