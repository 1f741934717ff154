// Owns the plan of what the strips draw: which lines, in which colour, and which limits fit.
// Called by: timeline.ts.
// Does not: draw, or touch the page; everything here is a pure function.
import type { Line, Strip } from "./charts";
import type { LimitTrack, Measure, Page, Track } from "./decode";
import { formatKib } from "./format";
import { highestOf, lastOf } from "./series";

export const kFewWorkers = 12;
export const kMostTracks = 160;
const kSmallShare = 0.05; // of the largest worker: below that a worker goes with the crowd
const kColours = 7;
const kDashes = [[], [6, 4], [2, 3]];

export const kMeasures: { measure: Measure; name: string; lead: string }[] = [
  { measure: "private", name: "Private", lead: "Memory that a process holds for itself alone. When a worker copies a shared page, this grows." },
  { measure: "copies", name: "Copied", lead: "Memory duplicated by copy-on-write since the recording began." },
  { measure: "stillShared", name: "Still shared", lead: "Memory that is still common to several processes, and can still be lost to copies." },
];

export interface StripPlan { name: string; title: string; unit: Strip["unit"]; height: number; holds: (line: Line) => boolean }

// Each at its own scale: one process is small beside the sum of sixty-four.
export const kStrips: StripPlan[] = [
  { name: "sum", title: "All processes together", unit: "kib", height: 176, holds: (line) => line.kind !== "process" },
  { name: "memory", title: "Each process", unit: "kib", height: 208, holds: (line) => line.kind === "process" },
  { name: "rate", title: "Copies per second", unit: "rate", height: 158, holds: (line) => line.kind !== "limit" },
];

export function trackLabel(track: Track): string {
  return `${track.role} ${track.pid}`;
}

// Which workers get a colour of their own: all when they are few, else the large ones, if those are few.
function colouredTracks(tracks: Track[]): Set<Track> {
  const workers = tracks.filter((track) => track.role !== "parent");
  if (workers.length <= kFewWorkers) return new Set(workers);
  const peaks = workers.map((track) => highestOf(track.columns.private.values) ?? 0);
  const floor = kSmallShare * Math.max(...peaks);
  const large = workers.filter((_, i) => (peaks[i] ?? 0) > floor);
  return new Set(large.length <= kFewWorkers ? large : []);
}

function trackLine(track: Track, position: number, nth: number | null, count: number): Line {
  const base = { label: trackLabel(track), title: track.name, kind: "process" as const, track: position, fill: "" };
  if (track.role === "parent") return { ...base, colour: "parent", dash: [5, 3], width: 2 };
  if (nth === null) return { ...base, colour: "crowd", dash: [], width: 1 };
  return { ...base, colour: `series-${nth % kColours}`, dash: kDashes[Math.floor(nth / kColours)] ?? [], width: 3 - (1.3 * nth) / Math.max(1, count - 1) }; // thinner over wider: equal lines stay visible
}

// Sum first (it lies behind), then one line a process.
export function planLines(tracks: Track[]): Line[] {
  const coloured = colouredTracks(tracks);
  const sum: Line = { label: "sum", title: "all processes together", kind: "sum", track: -1, colour: "sum", dash: [], width: 2, fill: "sum-fill" };
  let nth = 0;
  return [sum, ...tracks.map((track, position) => trackLine(track, position, coloured.has(track) ? nth++ : null, coloured.size))];
}

export function limitLine(limit: LimitTrack): Line {
  const label = `limit ${limit.kind} ${limit.name}`;
  return { label, title: label, kind: "limit", track: -1, colour: "limit", dash: [8, 5], width: 2, fill: "" };
}

export interface LimitPlan { drawn: LimitTrack[]; notes: string[] }

// Limits of shared memory segments bound something else than private memory, so they are left to the limits table.
export function planLimits(page: Page): LimitPlan {
  const top = highestOf(page.totals.private.values) ?? page.processes.reduce((most, track) => Math.max(most, highestOf(track.columns.private.values) ?? 0), 0);
  const plan: LimitPlan = { drawn: [], notes: [] };
  for (const limit of page.limits) {
    const bound = lastOf(limit.limit.values);
    if (limit.unit !== "bytes" || limit.kind === "shm" || bound === null) continue;
    if (bound <= 4 * top) plan.drawn.push(limit);
    else plan.notes.push(`The limit ${limit.kind} ${limit.name} (${formatKib(bound)}) is off the chart.`);
  }
  return plan;
}
