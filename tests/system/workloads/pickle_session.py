"""Dies of a data set that can't be pickled, in a session that goes on: under python -i, under pdb, or in the console of a thread, as a
notebook's kernel has it ("console FUNCTION|MODULE": where its variables are)."""
import code
import sys
import threading
import time

PREPARE = """
import multiprocessing, threading
class Data: pass
"""
START = """
dataset = Data()
dataset.rows, dataset.lock = [1], threading.Lock()
worker = multiprocessing.get_context("spawn").Process(target=print, args=(dataset,))
worker.start()
"""
IN_FUNCTION = "def main():" + START.replace("\n", "\n    ") + "\nmain()\n"


def console(variables):
    session = code.InteractiveConsole(vars(sys.modules["__main__"]))
    session.runsource(PREPARE + {"FUNCTION": IN_FUNCTION, "MODULE": START}[variables], "<cell>", "exec")
    print(">>> ", flush=True)
    time.sleep(1000)


if __name__ == "__main__":
    if sys.argv[1:2] == ["console"]:
        threading.Thread(target=console, args=sys.argv[2:], daemon=True).start()
        time.sleep(1000)
    exec(PREPARE)
    main = None
    exec(IN_FUNCTION)
