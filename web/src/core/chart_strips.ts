// Owns the plan of the timeline's strips: all processes together, each process, copies per second, shared memory, descriptors.
// Does not: draw.
import type { LimitTrack, Measure, Page } from "../data/decode";
import { forecastTop } from "./forecast";
import { formatCount, formatKib } from "./format";
import { columnSeries, crowdSeries, processSeries, scaleOf, splitCrowd, type ChartSeries } from "./chart_series";
import { planRates } from "./rates";
import type { Cut } from "./downsample";
import { type Point, lastOf, highestOf } from "./column_values";
import { processLabel } from "./processes";

export interface Strip {
  name: string;
  title: string;
  height: number;
  unit: "kib" | "count" | "rate";
  series: ChartSeries[];
  band: [number, number] | null; // indices of two series; the area between is filled
  atLeast: number; // the least upper end of the scale
  peaks: boolean; // buckets keep only their highest value, not their lowest as well
  cut: (cut: Cut, hidden: Set<string>) => Point[][];
  beyond: string[]; // limits off the scale, named at the edge
  atLegend: boolean; // its series are in the legend; otherwise the title names them
}

const kUnmeasured = ": not measured";
const kMostDrawn = 4; // times the highest value; limits beyond it are named instead of drawn
const kOwnStrips = [
  { kind: "shm", name: "shm", title: "Shared memory" },
  { kind: "fds", name: "fds", title: "File descriptors" },
];
const kMemoryKinds = ["cgroup-v1", "cgroup-v2", "host"]; // these bound the memory of all processes together

// An empty strip reads as 0.
function isKnown(values: Float64Array): boolean {
  return values.some((value) => value === value);
}

function each(series: ChartSeries[]): Strip["cut"] {
  return (cut) => series.map((one) => one.cut(cut));
}

function quantity(value: number, unit: Strip["unit"]): string {
  return unit === "kib" ? formatKib(value) : formatCount(value);
}

function limitSeries(limit: LimitTrack, label: string): ChartSeries {
  return columnSeries(
    { key: `limit:${limit.kind} ${limit.name}`, label, title: label, kind: "limit", colour: "limit", dash: [8, 5] },
    limit.limit.values,
    0,
  );
}

function planLimits(limits: LimitTrack[], top: number, unit: Strip["unit"]): { series: ChartSeries[]; beyond: string[] } {
  const plan: { series: ChartSeries[]; beyond: string[] } = { series: [], beyond: [] };
  for (const limit of limits) {
    const bound = lastOf(limit.limit.values);
    if (bound === null) continue;
    if (bound <= kMostDrawn * top) plan.series.push(limitSeries(limit, `limit ${limit.kind} ${limit.name}`));
    else plan.beyond.push(`${limit.kind} ${limit.name} ${quantity(bound, unit)}`);
  }
  return plan;
}

function sumStrip(page: Page, measure: Measure): Strip {
  const scale = scaleOf(page, measure);
  const { totals } = page;
  const series = [
    columnSeries(
      { key: "sum", label: "sum", title: "all processes together", kind: "sum", colour: "sum", fill: "sum-fill" },
      totals[measure].values,
      0,
      scale,
    ),
  ];
  if (measure === "private" && totals.workersPrivate.length > 0) {
    series.push(
      columnSeries(
        { key: "workers", label: "workers", title: "the workers together", kind: "sum", colour: "accent" },
        totals.workersPrivate.values,
        0,
      ),
    );
  }
  // A limit bounds private memory or PSS, but not what was copied or is shared.
  const known = isKnown(totals[measure].values);
  const bounded =
    known && (measure === "private" || measure === "pss") ? page.limits.filter((limit) => kMemoryKinds.includes(limit.kind)) : [];
  const limits = planLimits(bounded, (highestOf(totals[measure].values) ?? 0) * scale, "kib");
  const all = [...series, ...limits.series];
  return {
    name: "sum",
    title: `All processes together${known ? "" : kUnmeasured}`,
    unit: "kib",
    height: 178,
    series: all,
    band: null,
    atLeast: measure === "private" ? forecastTop(page) : 0,
    peaks: false,
    cut: each(all),
    beyond: limits.beyond,
    atLegend: true,
  };
}

function memoryStrip(page: Page, measure: Measure, pinned: number | null): Strip {
  const { own, crowd } = splitCrowd(page, pinned);
  const series = [...crowdSeries(page, crowd, measure), ...processSeries(page, own, measure, pinned)];
  const known = [...own, ...crowd].some((track) => isKnown(track.columns[measure].values));
  const title = !known
    ? `Each process${kUnmeasured}`
    : crowd.length === 0
      ? "Each process"
      : `Each process: the largest ones, and a band from the smallest to the largest of ${crowd.length} more`;
  return {
    name: "memory",
    title,
    unit: "kib",
    height: 190,
    series,
    band: crowd.length === 0 ? null : [0, 1],
    atLeast: 0,
    peaks: false,
    cut: each(series),
    beyond: [],
    atLegend: true,
  };
}

function rateStrip(page: Page, pinned: number | null): Strip {
  const track = page.processes.find((one) => one.index === pinned) ?? null;
  const { series, cut } = planRates(page, track);
  const whose = track === null ? "" : `, ${processLabel(track)} alone`;
  const known = isKnown((track?.columns ?? page.totals).copies.values);
  const title = known ? `Copies per second${series.length > 1 ? ", by cause" : ""}${whose}` : `Copies per second${kUnmeasured}`;
  return { name: "rate", title, unit: "rate", height: 146, series, band: null, atLeast: 0, peaks: true, cut, beyond: [], atLegend: true };
}

// One strip for all limits of a kind, if any value is known.
function ownStrips(page: Page): Strip[] {
  return kOwnStrips.flatMap(({ kind, name, title }) => {
    const limits = page.limits.filter((limit) => limit.kind === kind && highestOf(limit.used.values) !== null);
    if (limits.length === 0) return [];
    const unit = limits[0]?.unit === "bytes" ? ("kib" as const) : ("count" as const);
    const used = limits.map((limit, nth) =>
      columnSeries(
        {
          key: `used:${kind} ${limit.name}`,
          label: `used of ${limit.name}`,
          title: `used of ${limit.name}`,
          kind: "used",
          colour: `series-${(nth + 2) % 7}`,
          fill: limits.length === 1 ? "sum-fill" : "",
        },
        limit.used.values,
        0,
      ),
    );
    const bounds = planLimits(limits, Math.max(...limits.map((limit) => highestOf(limit.used.values) ?? 0)), unit);
    const series = [...used, ...bounds.series];
    const words = `${title} used, against ${kind === "shm" ? "its capacity" : "their limit"}: ${limits.map((limit) => limit.name).join(", ")}`;
    return [
      {
        name,
        title: words,
        unit,
        height: 84,
        series,
        band: null,
        atLeast: 0,
        peaks: false,
        cut: each(series),
        beyond: bounds.beyond,
        atLegend: false,
      },
    ];
  });
}

export function planStrips(page: Page, measure: Measure, pinned: number | null): Strip[] {
  return [sumStrip(page, measure), memoryStrip(page, measure, pinned), rateStrip(page, pinned), ...ownStrips(page)];
}
