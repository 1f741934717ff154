#!/usr/bin/python3
"""Makes the items of one shape by the code of a file, forks a worker, and lets it read every item.

    sketched_data.py CODE.py SHAPE ITEMS

test_fix_sketch.py compares the code before and after the fix that cowprof sketches. Prints a checksum of what the worker read.
"""
import os
import sys
import zlib

import sketch_items


def main():
    path, shape, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
    scope = {"load": lambda: sketch_items.items_of(shape, count)}
    with open(path, encoding="utf-8") as code:
        exec(compile(code.read(), path, "exec"), scope)  # pylint: disable=exec-used
    items = scope["items"]
    worker = os.fork()
    if worker == 0:
        read = 0
        for i in range(count):
            read = zlib.crc32(sketch_items.plain(sketch_items.row(items, i)).encode("utf-8", "surrogatepass"), read)
        print(f'{{"read": {read}}}', flush=True)
        os._exit(0)
    sys.exit(os.waitpid(worker, 0)[1] != 0)


if __name__ == "__main__":
    main()
