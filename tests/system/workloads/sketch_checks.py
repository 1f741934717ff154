#!/usr/bin/python3
"""Runs the parts of fix sketches on items, and says for each whether what it gives back is the same.

Reads a list of [code before, code after, code of the faster variant or null, shape] from stdin; prints a JSON line for each: "same",
"refused" if the faster variant raised, or what went wrong. Forks for each, so that torch is imported once.
"""
import json
import os
import sys
import traceback

import torch
from torch.utils.data import DataLoader

import sketch_items

COUNT = 60


def checked(items, expected):
    count = len(expected)
    assert len(items) == count
    for i in range(-count, count):
        assert sketch_items.same(sketch_items.row(items, i), expected[i]), (i, sketch_items.row(items, i), expected[i])
    for i in (count, -count - 1):
        try:
            items[i]
        except IndexError:
            continue
        raise AssertionError(f"item {i} of {count}")
    if type(items).__name__ == "Packed":
        for part in slice(2, 9), slice(None, None, -7), slice(count, None), slice(-3, None):
            found = items[part]
            assert type(found) is list and len(found) == len(expected[part]), part
            assert all(map(sketch_items.same, found, expected[part])), part
    read = [item for batch in DataLoader(items, num_workers=2, batch_size=4, collate_fn=list) for item in batch]
    assert len(read) == count
    for i in range(count):
        assert sketch_items.same(read[i], expected[i]), (i, read[i], expected[i])


def verdict_on(before, after, faster, shape):
    scope = {"load": lambda: sketch_items.items_of(shape, COUNT)}
    exec(before, scope)  # pylint: disable=exec-used
    old = scope["items"]
    expected = [sketch_items.row(old, i) for i in range(COUNT)]
    if faster is None:
        exec(after, scope)  # pylint: disable=exec-used
    else:
        try:
            exec(after.rpartition("\nitems = ")[0] + faster, scope)  # pylint: disable=exec-used
        except (AttributeError, OverflowError, RuntimeError, TypeError, ValueError):
            return "refused"
    checked(scope["items"], expected)
    return "same"


def main():
    torch.set_num_threads(1)
    for case in json.load(sys.stdin):
        output, of_child = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                said = verdict_on(*case)
            except BaseException:  # pylint: disable=broad-except
                said = traceback.format_exc()
            os.write(of_child, json.dumps(said[-2000:]).encode())
            os._exit(0)
        os.close(of_child)
        with os.fdopen(output) as pipe:
            print(pipe.read() or '"died"', flush=True)
        os.waitpid(child, 0)


if __name__ == "__main__":
    main()
