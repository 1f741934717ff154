// Owns the plan of the memory strips: which lines there are, in which colour, and what each is worth at a sample.
// Called by: strips.ts.
// Does not: draw, or touch the page; everything here is a pure function.
import type { Measure, Page, Track } from "./decode";
import { cutColumn, highestOf, type Cut, type Point } from "./series";

export interface Line {
  key: string;                 // the same line in a later plan has the same key
  label: string;
  title: string;               // the long name, for hover
  kind: "sum" | "process" | "crowd" | "limit" | "cause" | "used";
  process: number | null;      // index of the process, if it is one's line
  colour: string;              // name of a colour in style.css
  dash: number[];
  width: number;
  fill: string;                // name of a colour, or ""
  at: (sample: number) => Point;
  cut: (cut: Cut) => Point[];
}
export type Look = Pick<Line, "key" | "label" | "title" | "kind" | "colour"> & Partial<Pick<Line, "process" | "dash" | "width" | "fill">>;

const kFewWorkers = 12;
const kMostColoured = 6;       // of a crowd
const kColours = 7;
const kDashes = [[], [6, 4], [2, 3]];

export const kMeasures: { measure: Measure; name: string; lead: string }[] = [
  { measure: "private", name: "Private", lead: "Memory that a process holds for itself alone. When a worker copies a shared page, this grows." },
  { measure: "copies", name: "Copied", lead: "Memory duplicated by copy-on-write since the recording began." },
  { measure: "stillShared", name: "Still shared", lead: "Memory that is still common to several processes, and can still be lost to copies." },
  { measure: "pss", name: "PSS", lead: "Private memory, and of each shared page an equal part: what a process really costs. All together, nothing is counted twice." },
];

export function columnLine(look: Look, values: Float64Array, first: number, scale = 1): Line {
  return {
    process: null, dash: [], width: 2, fill: "", ...look,
    at: (sample) => {
      const value = values[sample - first] ?? NaN;
      return value === value ? value * scale : null;
    },
    cut: (cut) => cutColumn(values, first, scale, cut),
  };
}

export function trackLabel(track: Track): string {
  return `${track.role} ${track.pid}`;
}

// Copies are counted; the chart shows them as memory.
export function scaleOf(page: Page, measure: Measure): number {
  return measure === "copies" ? (page.run.pageBytes ?? NaN) / 1024 : 1;
}

function processLine(page: Page, track: Track, measure: Measure, look: { colour: string; dash: number[]; width: number }): Line {
  const named = { key: `process:${track.index}`, label: trackLabel(track), title: track.name, kind: "process" as const, process: track.index };
  return columnLine({ ...named, ...look }, track.columns[measure].values, track.first, scaleOf(page, measure));
}

// The smallest and the largest of many at every sample.
function envelope(tracks: Track[], measure: Measure, sampleCount: number): { low: Float64Array; high: Float64Array } {
  const low = new Float64Array(sampleCount).fill(NaN);
  const high = new Float64Array(sampleCount).fill(NaN);
  for (const { first, columns } of tracks) {
    const { values } = columns[measure];
    for (let i = 0, at = first; i < values.length; i++, at++) {
      const value = values[i] as number;
      if (value !== value) continue;
      if (!((low[at] as number) <= value)) low[at] = value;
      if (!((high[at] as number) >= value)) high[at] = value;
    }
  }
  return { low, high };
}

export function crowdLines(page: Page, crowd: Track[], measure: Measure): Line[] {
  if (crowd.length === 0) return [];
  const { low, high } = envelope(crowd, measure, page.seconds.length);
  const look = { kind: "crowd" as const, colour: "crowd", width: 1, title: "between the smallest and the largest of them" };
  return [
    columnLine({ ...look, key: "crowd:high", label: `${crowd.length} more, largest` }, high, 0, scaleOf(page, measure)),
    columnLine({ ...look, key: "crowd:low", label: `${crowd.length} more, smallest` }, low, 0, scaleOf(page, measure)),
  ];
}

// Which processes get a line of their own: all when they are few, else the largest; the parent and a pinned one always.
export function splitCrowd(page: Page, pinned: number | null): { own: Track[]; crowd: Track[] } {
  const seen = page.processes.filter((track) => track.columns.private.length > 0);
  const workers = seen.filter((track) => track.role !== "parent");
  if (workers.length <= kFewWorkers) return { own: seen, crowd: [] };
  const peaks = new Map(workers.map((track) => [track, highestOf(track.columns.private.values) ?? 0]));
  const largest = new Set([...workers].sort((a, b) => (peaks.get(b) ?? 0) - (peaks.get(a) ?? 0)).slice(0, kMostColoured));
  const own = seen.filter((track) => track.role === "parent" || track.index === pinned || largest.has(track));
  return { own, crowd: workers.filter((track) => !own.includes(track)) };
}

// The pinned one lies on top; thinner over wider, so that equal lines stay visible.
export function processLines(page: Page, own: Track[], measure: Measure, pinned: number | null): Line[] {
  let nth = 0;
  const lines = own.map((track) => {
    if (track.role === "parent") return processLine(page, track, measure, { colour: "parent", dash: [5, 3], width: 2 });
    const look = { colour: `series-${(nth + 1) % kColours}`, dash: kDashes[Math.floor(nth / kColours)] ?? [], width: 3 - (1.3 * nth) / Math.max(1, own.length - 1) };
    nth++;
    return processLine(page, track, measure, look);
  });
  return [...lines.filter((line) => line.process !== pinned), ...lines.filter((line) => line.process === pinned)];
}
