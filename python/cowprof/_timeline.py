"""Reads a recording while it grows: docs/timeline.md has the format."""
from __future__ import annotations

import json
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

Record = Dict[str, Any]
_LONGEST_PAST = 1000  # samples


class Follower:
    """read() returns the records that were appended since the last call."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._offset = 0
        self.header: Optional[Dict[str, Any]] = None

    def read(self) -> List[Record]:
        try:
            with open(self._path, "rb") as file:
                file.seek(self._offset)
                lines = file.read().split(b"\n")[:-1]
        except OSError:
            return []
        records: List[Record] = []
        for line in lines:
            try:
                if self.header is None:
                    self.header = json.loads(line + b"]}")["header"]
                elif line == b"]}":
                    break
                else:
                    records.append(json.loads(line.strip(b",")))
            except ValueError:
                break  # the closing bytes are being replaced
            self._offset += len(line) + 1
        return records


class Live(NamedTuple):
    """Figures of the processes that the recorded one has forked or spawned; programs other than Python are left out."""
    copied_bytes: Optional[int]   # since the start, by those that were forked; None: the recording can't tell
    private_bytes: Optional[int]  # of the living ones; None: not looked at yet
    eta_seconds: Optional[float]  # until a limit is met, as the eta alerts that hold say; None: none holds
    alerts: List[str]             # texts of the alerts that hold


class _Counters(NamedTuple):
    """Of one sample; pages. `fresh` are new ones that are no copies of anonymous ones."""
    t: float
    copies: int
    fresh: int
    anon: int


class _Process:
    """Private memory as cowprof derives it: pages of the last sweep, or none at the fork, plus copies and new pages since.

    Copying a page leaves RssAnon as it is, and new memory raises it. A sweep is later than the counters of its sample; it
    corrects what they predict only as far as copies and frees in between cannot explain the difference.
    """

    def __init__(self, forked: bool) -> None:
        self._forked = forked
        self.copies: Optional[int] = None
        self.counts = forked  # False: it ran another program, until that is known to be Python
        self.ended = False
        self._pages: Optional[int] = None
        self._basis: Optional[Tuple[int, int, int]] = None  # private pages, and copies and anonymous pages then
        self._past: List[_Counters] = []  # from the sample of the last sweep on

    def take(self, row: Dict[str, Optional[int]], t: float) -> None:
        self.copies, self._pages = row["copies"], row["anon_pages"]
        fresh = (row["zero_fill_pages"] or 0) + (row.get("zero_upgrades") or 0) + (row["file_copies"] or 0)
        self._past.append(_Counters(t, self.copies or 0, fresh, self._pages or 0))
        del self._past[1:-_LONGEST_PAST]
        if self._basis is None and self._forked and self._pages is not None:
            self._basis = (0, 0, max(self._pages - fresh, 0))

    def sweep(self, row: Dict[str, Any]) -> None:
        seen = row["private_pages"]
        if seen is None or not self._past:
            return
        now, begun = self._past[-1], next((past for past in reversed(self._past) if past.t <= row["begin"]), self._past[0])
        # An older tool does not write all columns: then nothing is known to have come or gone later.
        fresh, later = now.fresh - begun.fresh, row.get("later_new_pages") or 0
        came, freed = now.copies - begun.copies + fresh, max(begun.anon + fresh - now.anon, 0)
        came_later = (row.get("later_write_protect_faults") or 0) + later
        freed_later = max(now.anon + later - row["anon_pages"], 0) if row.get("anon_pages") is not None else 0
        predicted = seen if self._basis is None else self._predict(*self._basis)
        self._basis = (min(max(predicted, seen - freed - came_later, 0), seen + came + freed_later), now.copies, now.anon)
        self._past = [now]

    def _predict(self, private: int, copies: int, pages: int) -> int:
        return max(private + (self._pages or 0) - pages, 0) + (self.copies or 0) - copies

    def forked_copies(self) -> int:
        return (self.copies or 0) if self._forked else 0

    def private_pages(self) -> Optional[int]:
        if self.ended or not self.counts or self._basis is None or self._pages is None:
            return None
        return min(self._predict(*self._basis), max(self._pages, self._basis[0]))


class LiveFigures:
    """Keeps what the records say; read() takes in the new ones."""

    def __init__(self, path: str) -> None:
        self._follower = Follower(path)
        self._processes: Dict[int, _Process] = {}
        self._ended_copies = 0
        self._alerts: Dict[Tuple[str, str, str], Record] = {}
        self._t = 0.0

    def read(self) -> Live:
        for record in self._follower.read():
            self._t = max(self._t, record["t"])
            self._take(record)
        header = self._follower.header or {}
        page = header.get("host", {}).get("page_bytes", 4096)
        living = [process for process in self._processes.values() if process.counts]
        known = [pages for pages in (process.private_pages() for process in living) if pages is not None]
        etas = [max(alert["t"] + alert["eta_seconds"] - self._t, 0.0) for alert in self._alerts.values()
                if alert["rule"] == "eta" and alert.get("eta_seconds") is not None]
        countable = header.get("plan", {}).get("exactness") not in (None, "unavailable")
        copies = self._ended_copies + sum(process.forked_copies() for process in living)
        return Live(copied_bytes=copies * page if countable else None,
                    private_bytes=sum(known) * page if known or not living else None,
                    eta_seconds=min(etas) if etas else None,
                    alerts=[alert["text"] for alert in self._alerts.values()])

    def _take(self, record: Record) -> None:
        if record["type"] == "alert":
            key = (record["rule"], record["kind"], record["name"])
            if record["over"]:
                self._alerts.pop(key, None)
            else:
                self._alerts[key] = record
        elif record["type"] == "event":
            index = record.get("index", 0)
            if record["event"] == "process" and index != 0:
                self._processes[index] = _Process(record["origin"] == "fork")
            elif record["event"] == "exec" and index in self._processes:
                self._processes[index] = _Process(False)
            elif record["event"] == "python" and index in self._processes:
                self._processes[index].counts = bool(record["python"])
            elif record["event"] == "exit" and index in self._processes:
                self._processes[index].ended = True  # the sample that follows has its last row
        elif record["type"] == "sample":
            self._take_sample(record)

    def _take_sample(self, record: Record) -> None:
        columns = (self._follower.header or {})["columns"]
        for row in record.get("processes", []):
            named = dict(zip(columns["processes"], row))
            if named["index"] in self._processes:
                self._processes[named["index"]].take(named, record["t"])
        for row in record.get("sweeps", []):
            named = dict(zip(columns["sweeps"], row))
            if named["index"] in self._processes:
                self._processes[named["index"]].sweep(named)
        for index in [index for index, process in self._processes.items() if process.ended]:
            self._ended_copies += self._processes.pop(index).forked_copies()
