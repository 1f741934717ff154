// Owns what a cause of copies is called, what it means, and the bars and the legend that are split by cause.
// Called by: why.ts, blamecolumns.ts, workers.ts, icicle.ts and compare_rows.ts.
// Does not: hold a colour or a hatching; style.css has one of each for every cause.
import type { Causes } from "./blame";
import { make, mark } from "./dom";
import { formatBytes, formatCount, formatShare, shortenPath } from "./format";

const kKeyLetters = 48;        // of a cause that this page has no words for

interface Cause { key: string; name: string; words: string }

// In the order in which a bar shows them, so that two bars can be compared.
const kCauses: Cause[] = [
  { key: "refcount", name: "Reference counts", words: "using a Python object, even only reading it, writes the counter inside it" },
  { key: "gc_header", name: "Garbage collector", words: "each collection writes a mark in front of every object it visits" },
  { key: "data", name: "Data", words: "the program really wrote memory that it inherited" },
  { key: "free", name: "Freed objects", words: "objects made before the fork were let go" },
  { key: "allocator", name: "Allocator", words: "new objects were placed into gaps between the inherited ones" },
  { key: "bytecode", name: "Bytecode", words: "functions rewrite their own instructions as they warm up" },
  { key: "hash", name: "Cached hashes", words: "a string keeps its hash inside itself once it is needed" },
  { key: "kernel", name: "Kernel", words: "a system call such as read() wrote into inherited memory" },
  { key: "unknown", name: "Not known", words: "what was written could not be told" },
];

function known(key: string): Cause {
  return kCauses.find((cause) => cause.key === key) ?? { key: "unknown", name: shortenPath(key, kKeyLetters), words: "" };
}

export function causeName(key: string): string {
  return known(key).name;
}

// Its place in every bar, legend and stack.
export function causeOrder(key: string): number {
  const at = kCauses.findIndex((cause) => cause.key === key);
  return at < 0 ? kCauses.length : at;
}

// The name of its colour in style.css, also of a cause that this page has no words for.
export function causeColour(key: string): string {
  return known(key).key.replace("_", "-");
}

export function sumOfCauses(causes: Causes | null): number {
  return [...(causes ?? [])].reduce((sum, [, copies]) => sum + copies, 0);
}

function inOrder(causes: Causes): [string, number][] {
  return [...causes].filter(([, copies]) => copies > 0).sort(([a], [b]) => causeOrder(a) - causeOrder(b));
}

export function causesInWords(causes: Causes): string {
  const sum = sumOfCauses(causes);
  return [...inOrder(causes)].sort(([, a], [, b]) => b - a).map(([key, copies]) => `${known(key).name} ${formatShare(copies / sum)}`).join(", ");
}

function makeSegment(key: string, copies: number, label: string): HTMLElement {
  const segment = make("span", `cause cause-${known(key).key}`, label === "" ? null : make("span", "cause-label", label));
  segment.style.flexGrow = String(copies);
  return segment;
}

// A thin bar as long as `share` of its cell; where no cause is known, in one colour. The figure stands beside it as text.
export function makeThinCauseBar(causes: Causes | null, share: number | null): HTMLElement {
  const sum = sumOfCauses(causes);
  const fill = make("span", sum > 0 ? "bar-fill causes" : "bar-fill");
  fill.style.width = `${Math.min(1, Math.max(0, share ?? 0)) * 100}%`;
  const bar = mark(make("span", "bar split", fill), { "aria-hidden": "true" });
  if (causes === null || sum === 0) return bar;
  fill.append(...inOrder(causes).map(([key, copies]) => makeSegment(key, copies, "")));
  return mark(bar, { title: causesInWords(causes) });
}

export function makeCauseBar(causes: Causes): HTMLElement {
  const sum = sumOfCauses(causes);
  const segments = inOrder(causes).map(([key, copies]) =>
    mark(makeSegment(key, copies, `${known(key).name} ${formatShare(copies / sum)}`), { title: `${known(key).name} ${formatShare(copies / sum)}` }));
  return mark(make("div", "causes whole", ...segments), { "role": "img", "aria-label": causesInWords(causes) });
}

function makeEntry(key: string, copies: number, sum: number, pageBytes: number | null): HTMLElement {
  const { name, words } = known(key);
  const amount = pageBytes === null ? `${formatCount(copies)} copies` : formatBytes(copies * pageBytes);
  return make(
    "li", "cause-entry", make("span", `cause-swatch cause-${known(key).key}`),
    make("span", "cause-words", make("strong", "", name), words === "" ? null : make("span", "cause-why", words)),
    make("span", "cause-share", formatShare(copies / sum)), mark(make("span", "cause-amount", amount), { title: `${formatCount(copies)} copies` }),
  );
}

export function makeCauseLegend(causes: Causes, pageBytes: number | null): HTMLElement {
  const sum = sumOfCauses(causes);
  const entries = inOrder(causes).sort(([, a], [, b]) => b - a).map(([key, copies]) => makeEntry(key, copies, sum, pageBytes));
  return make("ul", "cause-legend", ...entries);
}
