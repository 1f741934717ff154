// Owns the rows of memory regions for a selected span: what the sweeps of the page map found by its end.
// Does not: draw the address space; views/map does.
import type { Span } from "./column_values";
import type { Page, Track } from "../data/decode";
import type { Filter } from "./filter";

// What processes of different times held has no sum: then it is null.
export interface RegionRow {
  name: string;
  start: number;
  privatePages: number | null;
  gained: number;
  sharedPages: number | null;
  newPages: number | null;
}

interface Found {
  privatePages: number;
  sharedPages: number;
  newPages: number;
}

type Summed = RegionRow & Found;

const kNothing: Found = { privatePages: 0, sharedPages: 0, newPages: 0 };

function add(row: Summed, before: Found, after: Found): void {
  row.privatePages += after.privatePages;
  row.sharedPages += after.sharedPages;
  row.newPages += after.newPages;
  row.gained += after.privatePages - before.privatePages;
}

// "" if the page has what the sweeps found in all regions.
export function regionsOmittedInWords(page: Page): string {
  return page.regionCountsOmitted > 0 ? "What sweeps found in some regions is not in this page: there are too many." : "";
}

// Whether the rows are of the whole recording, and of processes that have ended.
export function ofDifferentTimes({ page, holds, span, pinned }: Filter): boolean {
  return span === null && pinned === null && page.processes.some((track) => track.ended !== null && holds(track.index));
}

// Then it had no private memory at the beginning. Of any other that is as its first look found it, if none came before.
function isBornWithin({ wasThere, started }: Track, [from]: Span): boolean {
  return !wasThere && (started ?? 0) >= from;
}

// At the end of a selected span, a process that had ended holds nothing; a pinned one is shown as it was last seen.
export function regionsWithin(filter: Filter): RegionRow[] {
  const { page, holds, span: selected, pinned } = filter;
  const span: Span = selected ?? [-Infinity, Infinity];
  const lives = (track: Track): boolean => selected === null || pinned !== null || track.ended === null || track.ended > span[1];
  const living = new Set(page.processes.filter(lives).map((track) => track.index)); // of very many that have ended, not all are known
  const { timesMs, index, region, privatePages, sharedPages, newPages } = page.regionCounts;
  const [times, indices, numbers] = [timesMs.values, index.values, region.values];
  const [privates, shares, news] = [privatePages.values, sharedPages.values, newPages.values];
  const born = new Set(page.processes.filter((track) => isBornWithin(track, span)).map((track) => track.index));
  const begins = new Map<number, number>(); // by process: what looks found until then, it held before
  const found = new Map<number, { number: number; before: Found; after: Found }>();
  for (let i = 0; i < times.length && (times[i] ?? Infinity) <= span[1] * 1000; i++) {
    const [number, process, ms] = [numbers[i] ?? -1, indices[i] ?? -1, times[i] ?? 0];
    if (!holds(process) || !living.has(process) || page.regions[number] === undefined) continue;
    const begin = begins.get(process) ?? Math.max(span[0] * 1000, born.has(process) ? -Infinity : ms);
    begins.set(process, begin);
    const key = process * page.regions.length + number;
    const after = { privatePages: privates[i] ?? 0, sharedPages: shares[i] ?? 0, newPages: news[i] ?? 0 };
    const before = ms <= begin ? after : (found.get(key)?.before ?? kNothing);
    found.set(key, { number, before, after });
  }
  const rows = new Map<number, Summed>();
  for (const { number, before, after } of found.values()) {
    const { kind = "", name = "", start = 0 } = page.regions[number] ?? {};
    const row = rows.get(number) ?? {
      name: [kind, name].filter((part) => part !== "").join(" ") || "?",
      start,
      privatePages: 0,
      gained: 0,
      sharedPages: 0,
      newPages: 0,
    };
    add(row, before, after);
    rows.set(number, row);
  }
  const summed = [...rows.values()];
  if (!ofDifferentTimes(filter)) return summed;
  return summed.map((row) => ({ ...row, privatePages: null, sharedPages: null, newPages: null }));
}
