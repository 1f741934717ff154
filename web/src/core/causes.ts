// Owns the causes of copies: names, explanations and order.
// Does not: define a colour or a hatching; cause_bar.css has one of each per cause.
import type { Causes } from "../data/blame";
import { formatShare, shortenPath } from "./format";

const kKeyLetters = 48; // of a cause unknown to this page

interface Cause {
  key: string;
  name: string;
  words: string;
}

// In the order of the bars' segments, so that bars can be compared.
const kCauses: Cause[] = [
  { key: "refcount", name: "Reference counts", words: "using a Python object, even only reading it, writes the counter inside it" },
  {
    key: "native_refcount",
    name: "C++ counts",
    words: "using a C++ object such as a torch tensor, even only reading it, writes the counter inside it",
  },
  { key: "gc_header", name: "Garbage collector", words: "each collection writes a mark in front of every object it visits" },
  { key: "data", name: "Data", words: "the program wrote data into memory that it inherited" },
  { key: "free", name: "Freed objects", words: "objects created before the fork were freed" },
  { key: "allocator", name: "Allocator", words: "new objects were placed in gaps between inherited ones" },
  {
    key: "malloc_reuse",
    name: "Freed memory reused",
    words: "a worker allocated memory that its parent had freed before the fork: nobody wrote inherited data",
  },
  { key: "bytecode", name: "Bytecode", words: "functions rewrite their own instructions as they warm up" },
  { key: "hash", name: "Cached hashes", words: "a string stores its hash inside itself once it is needed" },
  { key: "kernel", name: "Kernel", words: "a system call such as read() wrote into inherited memory" },
  { key: "unknown", name: "Not known", words: "what was written could not be determined" },
];

export function causeOf(key: string): Cause {
  return kCauses.find((cause) => cause.key === key) ?? { key: "unknown", name: shortenPath(key, kKeyLetters), words: "" };
}

export function causeName(key: string): string {
  return causeOf(key).name;
}

// The position of a cause in every bar, legend and stack.
export function causeOrder(key: string): number {
  const at = kCauses.findIndex((cause) => cause.key === key);
  return at < 0 ? kCauses.length : at;
}

// The name of a cause's colour in style.css, also for causes unknown to this page.
export function causeColour(key: string): string {
  return causeOf(key).key.replaceAll("_", "-");
}

export function sumOfCauses(causes: Causes | null): number {
  return [...(causes ?? [])].reduce((sum, [, copies]) => sum + copies, 0);
}

export function causesInOrder(causes: Causes): [string, number][] {
  return [...causes].filter(([, copies]) => copies > 0).sort(([a], [b]) => causeOrder(a) - causeOrder(b));
}

export function causesInWords(causes: Causes): string {
  const sum = sumOfCauses(causes);
  return [...causesInOrder(causes)]
    .sort(([, a], [, b]) => b - a)
    .map(([key, copies]) => `${causeOf(key).name} ${formatShare(copies / sum)}`)
    .join(", ");
}
