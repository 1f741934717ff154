#!/usr/bin/env python3
"""Checks that the includes of userspace/ point down: a room may include itself and the rooms listed for it, no others."""
import pathlib
import re
import sys

USERSPACE = pathlib.Path(__file__).resolve().parent.parent / "userspace"

FACTS = {"model", "model/facts"}  # model/*.h: values and their wording, for facts and everything above them
MODEL = FACTS | {"model/estimate", "model/judge"}  # pure: no posix
SOURCE = FACTS | {"posix", "source"}
ATTRIBUTION = SOURCE | {"python", "attribution"}
TIMELINE = MODEL | {"posix", "timeline"}
SINK = TIMELINE | {"sink", "sink/report"}  # page and screen quote the report's sentences; report quotes no other sink
SERVE = SINK | {"sink/page", "sink/metrics", "serve"}
RECORDER = SERVE | ATTRIBUTION | {"sink/hook", "sink/terminal", "recorder"}
MAY_INCLUDE = {
    "posix": {"posix"},
    "model": FACTS, "model/facts": FACTS, "model/estimate": FACTS | {"model/estimate"}, "model/judge": MODEL,
    "source": SOURCE, "python": SOURCE | {"python"}, "timeline": TIMELINE, "attribution": ATTRIBUTION,
    "sink": TIMELINE | {"sink"}, "sink/report": TIMELINE | {"sink/report"}, "sink/hook": TIMELINE | {"sink/hook"},
    "sink/metrics": TIMELINE | {"sink", "sink/metrics"}, "sink/export": TIMELINE | {"sink", "sink/export"},
    "sink/page": SINK | {"sink/page"}, "sink/terminal": SINK | {"sink/terminal"},
    "sink/compare": TIMELINE | {"sink/compare"},
    "serve": SERVE, "recorder": RECORDER, "watch": RECORDER | {"watch"},
    "cli": RECORDER | {"cli", "sink/compare", "sink/export", "watch"}, "": {"cli", "recorder", "posix"},
}


def room_of(path):
    return path.rpartition("/")[0]


def violations():
    for file in sorted(path for path in USERSPACE.rglob("*") if path.suffix in {".cc", ".h"}):
        name = file.relative_to(USERSPACE).as_posix()
        for number, line in enumerate(file.read_text().splitlines(), 1):
            include = re.match(r'\s*#\s*include\s*"([^"]+)"', line)
            if not include or not (USERSPACE / include[1]).is_file():
                continue  # a library's header, the kernel contract or the generated skeleton
            room, included = room_of(name), room_of(include[1])
            if include[1] == "precompiled.h":
                yield f"userspace/{name}:{number}: includes precompiled.h, which only the build may add"
            elif room not in MAY_INCLUDE:
                yield f"userspace/{name}:{number}: {room}/ has no row in MAY_INCLUDE (tests/includes.py)"
            elif included not in MAY_INCLUDE[room]:
                allowed = ", ".join(sorted(MAY_INCLUDE[room]))
                yield f"userspace/{name}:{number}: {room or 'main.cc'} must not include {include[1]}; it may include {allowed}"


found = list(violations())
print("\n".join(found) if found else "every include of userspace/ points down")
sys.exit(bool(found))
