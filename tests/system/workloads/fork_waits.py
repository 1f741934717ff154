"""Several kinds of fork_hangs.py at a time, below one process: fork_waits.py KIND...

Prints {"event": "judged", "children": {KIND: PID}} when all have been judged, waits for a line on stdin, and ends with all of them.
"""
import json
import pathlib
import subprocess
import sys

SCRIPT = pathlib.Path(__file__).with_name("fork_hangs.py")


def main(kinds):
    started = {kind: subprocess.Popen([sys.executable, SCRIPT, kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
               for kind in kinds}
    children = {}
    for kind, process in started.items():
        children[kind] = [json.loads(process.stdout.readline()) for _ in range(2)][1]["child"]
    print(json.dumps({"event": "judged", "children": children}), flush=True)
    sys.stdin.readline()
    for process in started.values():
        process.stdin.close()
    for process in started.values():
        process.wait()


if __name__ == "__main__":
    main(sys.argv[1:])
