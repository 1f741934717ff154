// Owns the plan of all strips: all processes together, each process, copies per second, shared memory, descriptors.
// Called by: timeline.ts when the recording, the measure or the pinned process changes.
// Does not: draw, or keep anything; everything here is a pure function.
import type { LimitTrack, Measure, Page } from "./decode";
import { forecastTop } from "./forecast";
import { formatCount, formatKib } from "./format";
import { columnLine, crowdLines, processLines, scaleOf, splitCrowd, trackLabel, type Line } from "./lines";
import { planRates } from "./rates";
import { highestOf, lastOf, type Cut, type Point } from "./series";

export interface Strip {
  name: string; title: string; height: number;
  unit: "kib" | "count" | "rate";
  lines: Line[];
  band: [number, number] | null;              // positions of two lines; what lies between is filled
  atLeast: number;                            // what the scale reaches even if no line does
  peaks: boolean;                             // a bucket is its highest value alone, not its lowest and its highest
  cut: (cut: Cut, hidden: Set<string>) => Point[][];
  beyond: string[];                           // limits off the scale, named at the edge
  atLegend: boolean;                          // has lines to switch; else its title says all
}

const kMostDrawn = 4;                         // times the highest line: a limit beyond that is named instead of drawn
const kOwnStrips = [{ kind: "shm", name: "shm", title: "Shared memory" }, { kind: "fds", name: "fds", title: "File descriptors" }];
const kMemoryKinds = ["cgroup-v1", "cgroup-v2", "host"]; // these bound the memory of all processes together

function each(lines: Line[]): Strip["cut"] {
  return (cut) => lines.map((line) => line.cut(cut));
}

function quantity(value: number, unit: Strip["unit"]): string {
  return unit === "kib" ? formatKib(value) : formatCount(value);
}

function limitLine(limit: LimitTrack, label: string): Line {
  return columnLine({ key: `limit:${limit.kind} ${limit.name}`, label, title: label, kind: "limit", colour: "limit", dash: [8, 5] }, limit.limit.values, 0);
}

function planLimits(limits: LimitTrack[], top: number, unit: Strip["unit"]): { lines: Line[]; beyond: string[] } {
  const plan: { lines: Line[]; beyond: string[] } = { lines: [], beyond: [] };
  for (const limit of limits) {
    const bound = lastOf(limit.limit.values);
    if (bound === null) continue;
    if (bound <= kMostDrawn * top) plan.lines.push(limitLine(limit, `limit ${limit.kind} ${limit.name}`));
    else plan.beyond.push(`${limit.kind} ${limit.name} ${quantity(bound, unit)}`);
  }
  return plan;
}

function sumStrip(page: Page, measure: Measure): Strip {
  const scale = scaleOf(page, measure);
  const { totals } = page;
  const lines = [columnLine({ key: "sum", label: "sum", title: "all processes together", kind: "sum", colour: "sum", fill: "sum-fill" }, totals[measure].values, 0, scale)];
  if (measure === "private" && totals.workersPrivate.length > 0) {
    lines.push(columnLine({ key: "workers", label: "workers", title: "the workers together", kind: "sum", colour: "accent" }, totals.workersPrivate.values, 0));
  }
  // A limit bounds what is held: private memory, or what all cost; not what was copied or is shared.
  const bounded = measure === "private" || measure === "pss" ? page.limits.filter((limit) => kMemoryKinds.includes(limit.kind)) : [];
  const limits = planLimits(bounded, (highestOf(totals[measure].values) ?? 0) * scale, "kib");
  const all = [...lines, ...limits.lines];
  return { name: "sum", title: "All processes together", unit: "kib", height: 178, lines: all, band: null, atLeast: measure === "private" ? forecastTop(page) : 0, peaks: false, cut: each(all), beyond: limits.beyond, atLegend: true };
}

function memoryStrip(page: Page, measure: Measure, pinned: number | null): Strip {
  const { own, crowd } = splitCrowd(page, pinned);
  const lines = [...crowdLines(page, crowd, measure), ...processLines(page, own, measure, pinned)];
  const title = crowd.length === 0 ? "Each process" : `Each process: the largest, and a band from the smallest to the largest of ${crowd.length} more`;
  return { name: "memory", title, unit: "kib", height: 190, lines, band: crowd.length === 0 ? null : [0, 1], atLeast: 0, peaks: false, cut: each(lines), beyond: [], atLegend: true };
}

function rateStrip(page: Page, pinned: number | null): Strip {
  const track = page.processes.find((one) => one.index === pinned) ?? null;
  const { lines, cut } = planRates(page, track);
  const whose = track === null ? "" : `, ${trackLabel(track)} alone`;
  const known = (track?.columns ?? page.totals).copies.values.some((count) => count === count);
  const title = known ? `Copies per second${lines.length > 1 ? ", by cause" : ""}${whose}` : "Copies per second: not measured";
  return { name: "rate", title, unit: "rate", height: 146, lines, band: null, atLeast: 0, peaks: true, cut, beyond: [], atLegend: true };
}

// Only where something is known: one strip for all limits of a kind.
function ownStrips(page: Page): Strip[] {
  return kOwnStrips.flatMap(({ kind, name, title }) => {
    const limits = page.limits.filter((limit) => limit.kind === kind && highestOf(limit.used.values) !== null);
    if (limits.length === 0) return [];
    const unit = limits[0]?.unit === "bytes" ? "kib" as const : "count" as const;
    const used = limits.map((limit, nth) => columnLine({
      key: `used:${kind} ${limit.name}`, label: `used of ${limit.name}`, title: `used of ${limit.name}`, kind: "used", colour: `series-${(nth + 2) % 7}`, fill: limits.length === 1 ? "sum-fill" : "",
    }, limit.used.values, 0));
    const bounds = planLimits(limits, Math.max(...limits.map((limit) => highestOf(limit.used.values) ?? 0)), unit);
    const lines = [...used, ...bounds.lines];
    const words = `${title} used, against ${kind === "shm" ? "its capacity" : "their limit"}: ${limits.map((limit) => limit.name).join(", ")}`;
    return [{ name, title: words, unit, height: 84, lines, band: null, atLeast: 0, peaks: false, cut: each(lines), beyond: bounds.beyond, atLegend: false }];
  });
}

export function planStrips(page: Page, measure: Measure, pinned: number | null): Strip[] {
  return [sumStrip(page, measure), memoryStrip(page, measure, pinned), rateStrip(page, pinned), ...ownStrips(page)];
}
