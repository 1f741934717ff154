// Owns the words: what was copied (causes, types, lines), diagnoses with advice, events, and the terms.
// Called by: main.ts, once.
// Does not: diagnose; it shows what the report found, in the report's order.
import type { PageEvent } from "./decode";
import { make, makeBar, makeSection, mark } from "./dom";
import { formatBytes, formatClock, formatCount, formatShare } from "./format";
import { eventName, eventTone } from "./marks";
import type { Diagnosis, Report, Share } from "./report";

const kListed = 12;
const kMostEvents = 1000;
const kCauses: Record<string, string> = {
  refcount: "reference counts of Python objects", gc_header: "the garbage collector's headers", allocator: "the allocator",
  bytecode: "bytecode and its caches", hash: "cached hashes", data: "the program's own data", free: "freeing of objects",
  kernel: "the kernel", unknown: "unknown",
};

const kTerms: [string, string][] = [
  ["copy", "After a fork, parent and worker share memory pages. The first write to a shared page makes the kernel duplicate it: that is a copy, and memory grows by one page."],
  ["still shared", "Pages that no one has written yet. They cost nothing extra now, and can still be lost to copies."],
  ["private", "Memory that one process holds for itself alone: its copies, and new memory of its own."],
  ["reuse", "A write to a page that no other process needs any more. The kernel hands it over without copying: no growth."],
  ["fault", "The moment the kernel is called because a page can't be read or written yet. Copies, reuses and zero-fills all begin with one."],
  ["zero-fill", "A fresh, empty page given to a process: new memory, nothing to do with copies."],
  ["limit", "What bounds the memory: the machine, a container or a resource limit. At the limit, a process is killed or an allocation fails."],
  ["sample", "One reading of all processes at one instant."],
];

function makeShareRow(label: HTMLElement, figures: string, share: number | null): HTMLElement {
  return make("li", "share", mark(label, { title: label.textContent ?? "" }), make("span", "share-figure", figures), makeBar(share));
}

function makeCauseList(report: Report): HTMLElement | null {
  const causes = [...report.byCause].sort((a, b) => b.copies - a.copies);
  const most = causes[0]?.copies ?? 0;
  if (most === 0) return null;
  const rows = causes.map((entry) =>
    makeShareRow(make("span", "share-name", kCauses[entry.cause] ?? entry.cause), `${formatCount(entry.copies)} copies`, entry.copies / most));
  return make("div", "shares", make("h3", "", "What was being written"), make("ul", "", ...rows));
}

function makeShareList(title: string, shares: Share[]): HTMLElement | null {
  if (shares.length === 0) return null;
  const rows = shares.slice(0, kListed).map((entry) => {
    const name = make("span", "share-name", make("span", "code", entry.label), entry.detail === "" ? null : make("span", "share-detail", entry.detail));
    const amount = entry.bytes === null ? `${formatCount(entry.copies)} copies` : formatBytes(entry.bytes);
    return makeShareRow(name, `${amount} · ${formatShare(entry.share)}${entry.estimated ? ", estimated" : ""}`, entry.share);
  });
  const more = shares.length > kListed ? make("p", "note", `and ${shares.length - kListed} more in the report`) : null;
  return make("div", "shares", make("h3", "", title), make("ul", "", ...rows), more);
}

export function makeCopiedSection(report: Report): HTMLElement | null {
  const lists = [makeCauseList(report), makeShareList("Which types", report.byType), makeShareList("Which lines", report.byLine)];
  if (lists.every((list) => list === null)) return null;
  const section = makeSection("copied", "What was copied", "The writes that made the kernel copy a shared page.");
  section.append(make("div", "share-columns", ...lists));
  return section;
}

function makeList(title: string, className: string, texts: string[]): HTMLElement | null {
  if (texts.length === 0) return null;
  return make("div", className, make("h4", "", title), make("ul", "", ...texts.map((text) => make("li", "", text))));
}

function makeDiagnosis(diagnosis: Diagnosis): HTMLElement {
  const sure = diagnosis.confidence === null ? "" : `confidence ${formatShare(diagnosis.confidence)}`;
  return make(
    "article", diagnosis.id === "clean" ? "diagnosis good" : "diagnosis",
    make("p", "diagnosis-head", make("span", "diagnosis-id", diagnosis.id), make("span", "diagnosis-sure", sure)),
    make("h3", "", diagnosis.summary),
    makeList("What to do", "advice", diagnosis.advice),
    makeList("Evidence", "evidence", diagnosis.evidence),
  );
}

export function makeDiagnosesSection(diagnoses: Diagnosis[]): HTMLElement | null {
  if (diagnoses.length === 0) return null;
  const section = makeSection("diagnoses", "Findings and advice", "");
  section.append(...diagnoses.map(makeDiagnosis));
  return section;
}

function makeEventRow(event: PageEvent): HTMLElement {
  return make(
    "tr", "",
    make("td", "number", formatClock(event.seconds, 0.1)),
    make("td", `words ${eventTone(event.kind)}`, eventName(event.kind)),
    make("td", "words long", event.text),
  );
}

export function makeEventsDetails(events: PageEvent[]): HTMLElement | null {
  if (events.length === 0) return null;
  const heads = ["time", "event", "what happened"].map((title, i) => mark(make("th", i === 0 ? "number" : "words", title), { scope: "col" }));
  const table = make("table", "events", make("caption", "", "Events in order of time"), make("thead", "", make("tr", "", ...heads)), make("tbody", "", ...events.slice(0, kMostEvents).map(makeEventRow)));
  const more = events.length > kMostEvents ? make("p", "note", `and ${formatCount(events.length - kMostEvents)} more`) : null;
  const summary = make("summary", "", events.length === 1 ? "1 event" : `${formatCount(events.length)} events`);
  return make("details", "panel", summary, make("div", "scroll", table), more);
}

export function makeTermsDetails(): HTMLElement {
  const terms = kTerms.flatMap(([term, words]) => [make("dt", "", term), make("dd", "", words)]);
  return make("details", "panel terms", make("summary", "", "What the words mean"), make("dl", "", ...terms));
}
