// Owns the series of the memory strips: which there are, how they look, and their values.
// Does not: draw.
import type { Measure, Page, Track } from "../data/decode";
import { type Point, highestOf } from "./column_values";
import { cutColumn, type Cut } from "./downsample";
import { processLabel } from "./processes";

export interface ChartSeries {
  key: string; // identifies a series across plans
  label: string;
  title: string; // the long name, for hover
  kind: "sum" | "process" | "crowd" | "limit" | "cause" | "used";
  process: number | null; // index of the process, if it shows one
  colour: string; // name of a colour in style.css
  dash: number[];
  width: number;
  fill: string; // name of a colour, or ""
  at: (sample: number) => Point;
  cut: (cut: Cut) => Point[];
}
type Look = Pick<ChartSeries, "key" | "label" | "title" | "kind" | "colour"> &
  Partial<Pick<ChartSeries, "process" | "dash" | "width" | "fill">>;

const kFewWorkers = 12;
const kMostColoured = 6; // of a crowd
const kColours = 7;
const kDashes = [[], [6, 4], [2, 3]];

export const kMeasures: { measure: Measure; name: string; lead: string }[] = [
  {
    measure: "private",
    name: "Private",
    lead: "Memory that belongs to one process alone. It grows when a worker copies a shared page.",
  },
  { measure: "copies", name: "Copied", lead: "Memory duplicated by copy-on-write since the recording began." },
  {
    measure: "stillShared",
    name: "Still shared",
    lead: "Memory that a process shares with another: a write copies it, unless no other process has it any more. The sum counts it once for each process.",
  },
  {
    measure: "pss",
    name: "PSS",
    lead: "Private memory plus an equal part of each shared page: what a process really costs. Read seldom, and not of large processes; the sum, in which nothing is counted twice, only where all were read at once.",
  },
];

export function columnSeries(look: Look, values: Float64Array, first: number, scale = 1): ChartSeries {
  return {
    process: null,
    dash: [],
    width: 2,
    fill: "",
    ...look,
    at: (sample) => {
      const value = values[sample - first] ?? NaN;
      return value === value ? value * scale : null;
    },
    cut: (cut) => cutColumn(values, first, scale, cut),
  };
}

// Copies are counts, which the chart shows as memory.
export function scaleOf(page: Page, measure: Measure): number {
  return measure === "copies" ? (page.run.pageBytes ?? NaN) / 1024 : 1;
}

function seriesOf(page: Page, track: Track, measure: Measure, look: { colour: string; dash: number[]; width: number }): ChartSeries {
  const named = {
    key: `process:${track.index}`,
    label: processLabel(track),
    title: track.name,
    kind: "process" as const,
    process: track.index,
  };
  return columnSeries({ ...named, ...look }, track.columns[measure].values, track.first, scaleOf(page, measure));
}

// The smallest and the largest value of many processes at every sample.
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

export function crowdSeries(page: Page, crowd: Track[], measure: Measure): ChartSeries[] {
  if (crowd.length === 0) return [];
  const { low, high } = envelope(crowd, measure, page.seconds.length);
  const look = { kind: "crowd" as const, colour: "crowd", width: 1, title: "between the smallest and the largest of them" };
  return [
    columnSeries({ ...look, key: "crowd:high", label: `${crowd.length} more, largest` }, high, 0, scaleOf(page, measure)),
    columnSeries({ ...look, key: "crowd:low", label: `${crowd.length} more, smallest` }, low, 0, scaleOf(page, measure)),
  ];
}

// Picks the processes with a line of their own: all if there are few, else the largest; always the parent and a pinned one.
export function splitCrowd(page: Page, pinned: number | null): { own: Track[]; crowd: Track[] } {
  const seen = page.processes.filter((track) => track.columns.private.length > 0);
  const workers = seen.filter((track) => track.role !== "parent");
  if (workers.length <= kFewWorkers) return { own: seen, crowd: [] };
  const peaks = new Map(workers.map((track) => [track, highestOf(track.columns.private.values) ?? 0]));
  const largest = new Set([...workers].sort((a, b) => (peaks.get(b) ?? 0) - (peaks.get(a) ?? 0)).slice(0, kMostColoured));
  const own = seen.filter((track) => track.role === "parent" || track.index === pinned || largest.has(track));
  return { own, crowd: workers.filter((track) => !own.includes(track)) };
}

// The pinned one is on top; thinner lines cover wider ones, so that equal lines stay visible.
export function processSeries(page: Page, own: Track[], measure: Measure, pinned: number | null): ChartSeries[] {
  let nth = 0;
  const series = own.map((track) => {
    if (track.role === "parent") return seriesOf(page, track, measure, { colour: "parent", dash: [5, 3], width: 2 });
    const look = {
      colour: `series-${(nth + 1) % kColours}`,
      dash: kDashes[Math.floor(nth / kColours)] ?? [],
      width: 3 - (1.3 * nth) / Math.max(1, own.length - 1),
    };
    nth++;
    return seriesOf(page, track, measure, look);
  });
  return [...series.filter((one) => one.process !== pinned), ...series.filter((one) => one.process === pinned)];
}
