#!/usr/bin/env python3
"""Puts hostile names wherever a program chooses names: command name, arguments, path of its code, types and functions.

    hostile_names.py [ARGUMENTS ...]     prints its pid, waits for a line on stdin, runs one worker per name, prints how many
    hostile_names.py --list              prints the names as JSON; bytes that are not UTF-8 become lone surrogates

A name has done harm if globalThis.pwned is set in the browser, an escape sequence reaches the terminal, or the JSON is invalid.
test_hostile_names.py and the tests of the page record it.
"""
import json
import os
import sys
import types

RUN = "globalThis.pwned=1"
NAMES = [
    # markup and script
    f"<script>{RUN}</script>", f"</script><script>{RUN}</script>", f"<img src=x onerror={RUN}>", f"<svg onload={RUN}>",
    f"<iframe srcdoc='<script>parent.{RUN}</script>'>", f"<body onload={RUN}>", f"<a href=javascript:{RUN}>x</a>",
    f"<style>@import 'http://192.0.2.1/x'</style>", "<link rel=stylesheet href=http://192.0.2.1/x>",
    "<meta http-equiv=refresh content=0;url=http://192.0.2.1/>", "<base href=http://192.0.2.1/>", "<!--", "]]>", "<![CDATA[",
    f"<math><mi xlink:href=javascript:{RUN}>", f"<details open ontoggle={RUN}>", "&lt;script&gt;&#60;&#x3c;", "<plaintext>",
    f"javascript:{RUN}", f"data:text/html,<script>{RUN}</script>",
    # quotes, and the ends of a string, a template or a line of code
    f"\"'`>{RUN}", f"\"-{RUN}-\"", f"'-{RUN}-'", f"`${{{RUN}}}`", f"${{{RUN}}}", f"{{{{{RUN}}}}}", "\\", "\\\\\"", "\\u0022",
    "\"}],\"by_type\":[{\"", "__proto__", "constructor", "toString", "=1+1", "%s%n%p%100000000d",
    # direction marks and invisible characters
    "\u202egnp.exe\u202c", "\u2066x\u2069\u200f", "\u200b\u200d\ufeff", "\u2028\u2029", "\U000e0041\U0010ffff",
    # control characters and terminal escapes
    "\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "\x1b]8;;http://192.0.2.1\x1b\\link", "\x1bP1$r\x1b\\\x1b[6n", "\x9b2J\x9d0;t\x9c",
    "\r\n\b\t\x7f\x0b\x0c", "a\x00b", "\x00", "\x1bc", "\x1b[2J\x1b[H",
    # invalid UTF-8
    "\udcff\udcfe", "\udcc3(", "\udced\udca0\udc80", "\udcf0\udc9f\udc98", "\udc80" * 300,
    # length
    "L" * (1 << 20), "<" * 5000, "\x1b" * 5000, "\u0300" * 4000, "",
]


def iterate_hostile(data):
    for x in data: pass


def named(name):
    """A function with that name, in a file with that name."""
    code = iterate_hostile.__code__.replace(co_name=name, co_filename="/" + name)
    if sys.version_info >= (3, 11):
        code = code.replace(co_qualname=name)
    return types.FunctionType(code, {})


def instances(name):
    kind = type("Innocent", (object,), {"__slots__": tuple("abcdefgh")})
    plain = name.replace("\0", "").encode("utf-8", "replace").decode()  # type() accepts no other names
    kind.__name__ = kind.__qualname__ = plain
    return [kind() for _ in range(4000)]


def work(name, group):
    with open("/proc/self/comm", "wb") as comm:
        comm.write(os.fsencode(name)[:15] or b"\n")
    named(name)(group)


def main():
    if sys.argv[1:] == ["--list"]:
        print(json.dumps(NAMES))
        return
    groups = [instances(name) for name in NAMES]
    print(json.dumps({"role": "ready", "pid": os.getpid()}), flush=True)
    sys.stdin.readline()
    for name, group in zip(NAMES, groups):
        if os.fork() == 0:
            work(name, group)
            os._exit(0)
        os.wait()
    print(json.dumps({"role": "done", "names": len(NAMES)}), flush=True)


main()
