"""`python -m cowprof`: becomes the cowprof that pip installed with this package."""
import os
import sys
import sysconfig


def folders():
    package = os.path.dirname(os.path.abspath(__file__))
    yield sysconfig.get_path("scripts")
    if "{}_user".format(os.name) in sysconfig.get_scheme_names():
        yield sysconfig.get_path("scripts", "{}_user".format(os.name))
    yield os.path.join(os.path.dirname(package), "bin")  # pip install --target
    yield os.path.join(package, *[os.pardir] * 4, "bin")  # pip install --prefix


def main():
    for folder in folders():
        program = os.path.join(folder, "cowprof")
        if os.path.isfile(program):
            os.execv(program, ["cowprof"] + sys.argv[1:])
    sys.exit("cowprof: its program is missing; install the package again: pip install --force-reinstall cowprof-*.whl")


if __name__ == "__main__":
    main()
