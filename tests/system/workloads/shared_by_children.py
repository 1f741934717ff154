"""A parent with much memory, and children that copy it step by step. Each line of stdin is a step; each is answered by a line.

    fork N        forks N children
    copy SHARE    each child copies that share of the pages, next after those of the step before
    own SHARE     the parent copies that share of the pages, from the end
    grow MIB      the parent allocates
    end           the oldest child ends
    pace SHARE    each child copies that share of the pages a second, until it has copied all

usage: shared_by_children.py MIB same|random
"""
import json
import mmap
import os
import random
import sys
import time

PAGE = mmap.PAGESIZE
PAGES = int(sys.argv[1]) * (1 << 20) // PAGE
ORDER = sys.argv[2]


def area(pages):
    memory = mmap.mmap(-1, pages * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    for page in range(pages):
        memory[page * PAGE] = 1
    return memory


def say(event, **more):
    print(json.dumps({"event": event, **more}), flush=True)


class Child:
    """Told through a pipe what to do; answers with a byte."""

    def __init__(self, memory, number):
        reader, self.writer = os.pipe()
        self.answers, writer = os.pipe()
        self.pid = os.fork()
        if self.pid:
            os.close(reader)
            os.close(writer)
            return
        os.close(self.writer)
        order = list(range(PAGES))
        if ORDER == "random":
            random.Random(number).shuffle(order)
        done = 0
        with open(reader) as lines:
            for line in iter(lines.readline, ""):
                what, share = line.split()
                if what == "end":
                    os._exit(0)
                begun = time.monotonic()
                wanted = PAGES if what == "pace" else min(PAGES, done + round(PAGES * float(share)))
                while done < wanted:
                    allowed = wanted if what == "copy" else min(wanted, round((time.monotonic() - begun) * PAGES * float(share)))
                    for page in order[done:allowed]:
                        memory[page * PAGE] = 2
                    done = max(done, allowed)
                    if what == "pace":
                        time.sleep(0.01)
                os.write(writer, b".")
        os._exit(0)

    def tell(self, line):
        os.write(self.writer, f"{line}\n".encode())

    def end(self):
        self.tell("end 0")
        os.waitpid(self.pid, 0)


def main():
    memory, kept, children, copied = area(PAGES), [], [], 0
    say("ready")
    for number, line in enumerate(iter(sys.stdin.readline, "")):
        what, _, argument = line.strip().partition(" ")
        if what == "fork":
            children += [Child(memory, 100 * number + i) for i in range(int(argument))]
        elif what in ("copy", "pace"):
            for child in children:
                child.tell(f"{what} {argument}")
            for child in children if what == "copy" else ():
                os.read(child.answers, 1)
        elif what == "own":
            until = copied + round(PAGES * float(argument))
            for page in range(copied, until):
                memory[(PAGES - 1 - page) * PAGE] = 3
            copied = until
        elif what == "grow":
            kept.append(area(int(argument) * (1 << 20) // PAGE))
        elif what == "end":
            children.pop(0).end()
        say("done", number=number, pids=[child.pid for child in children])


main()
