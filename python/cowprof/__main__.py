"""`python -m cowprof`: becomes the cowprof that pip installed with this package."""
import os
import sys

from cowprof._program import installed


def main() -> None:
    program = installed()
    if program is None:
        sys.exit("cowprof: its program is missing; install the package again: pip install --force-reinstall cowprof-*.whl")
    os.execv(program, ["cowprof"] + sys.argv[1:])


if __name__ == "__main__":
    main()
