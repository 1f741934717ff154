// Owns the appendix: the list of events, and the glossary.
// Does not: word an event; its text comes from the recording.
import "./appendix.css";
import type { Page, PageEvent } from "../../data/decode";
import { make, mark } from "../../ui/dom";
import { formatClock, formatCount } from "../../core/format";
import { eventName, eventTone, heaviestEvents } from "../../core/events";

const kMostEvents = 1000;

const kTerms: [string, string][] = [
  ["fork", "How workers are created: the kernel makes a second process that starts with the same memory. Nothing is duplicated yet."],
  [
    "copy",
    "After a fork, parent and worker share memory pages. The first write to a shared page makes the kernel duplicate it: that is a copy, and memory grows by one page.",
  ],
  [
    "reference count",
    "A counter inside every Python object of how many places use it. Merely reading an object changes the counter, and that is a write.",
  ],
  [
    "garbage collector",
    "Python's search for objects that only refer to each other. It leaves marks in front of the objects that it visits.",
  ],
  [
    "still shared",
    "Pages that several processes still have in common. They cost nothing extra now. A write copies one, unless no other process has it any more.",
  ],
  ["private", "Memory that belongs to one process alone: its copies, and new memory of its own."],
  ["reuse", "A write to a page that no other process uses any more. The kernel hands it over without copying, so nothing grows."],
  ["fault", "A call into the kernel because a page can't be read or written yet. Copies, reuses and zero-fills all start with one."],
  ["zero-fill", "A fresh, empty page given to a process: new memory, nothing to do with copies."],
  ["limit", "What bounds memory: the machine, a container or a resource limit. At the limit a process is killed or an allocation fails."],
  ["sample", "One reading of all processes at one moment."],
];

function makeEventRow(event: PageEvent): HTMLElement {
  return make(
    "tr",
    "",
    make("td", "number", formatClock(event.seconds, 0.1)),
    make("td", `words ${eventTone(event.kind)}`, eventName(event.kind)),
    make("td", "words long", event.text),
  );
}

export function makeEventsDetails({ events, eventsDropped }: Page): HTMLElement | null {
  const count = events.length + eventsDropped;
  if (count === 0) return null;
  const shown = heaviestEvents(events, kMostEvents);
  const heads = ["time", "event", "what happened"].map((title, i) =>
    mark(make("th", i === 0 ? "number" : "words", title), { scope: "col" }),
  );
  const table = make(
    "table",
    "events",
    make("caption", "", "Events, oldest first"),
    make("thead", "", make("tr", "", ...heads)),
    make("tbody", "", ...shown.map(makeEventRow)),
  );
  const left = eventsDropped > 0 ? `; ${formatCount(eventsDropped)} of them are not in the page (forks and exits are dropped first)` : "";
  const least = shown.length < events.length ? " that matter less" : "";
  const more = count > shown.length ? make("p", "note", `and ${formatCount(count - shown.length)} more${least}${left}`) : null;
  const summary = make("summary", "", count === 1 ? "1 event" : `${formatCount(count)} events`);
  return make("details", "panel", summary, make("div", "scroll", table), more);
}

export function makeTermsDetails(): HTMLElement {
  const terms = kTerms.flatMap(([term, words]) => [make("dt", "", term), make("dd", "", words)]);
  return make("details", "panel terms", make("summary", "", "Glossary"), make("dl", "", ...terms));
}
