// Owns the box beside the cursor: the time, and the value of each series of the strip under it.
// Does not: choose the instant. Values belong to one sample, never to a bucket.
import { seriesColour } from "./charts";
import type { Page } from "../../data/decode";
import { make } from "../../ui/dom";
import { formatClock, formatCount, formatKib, formatRate, formatShare } from "../../core/format";
import type { ChartSeries } from "../../core/chart_series";
import type { Strip } from "../../core/chart_strips";
import { type Point, slopeAt } from "../../core/column_values";

interface TooltipRow {
  series: ChartSeries;
  values: [string, string];
  strong: boolean;
}
interface Reading {
  heads: [string, string];
  rows: TooltipRow[];
}
export interface Instant {
  page: Page;
  sample: number;
  hidden: Set<string>;
  strong: number | null;
  measure: string;
}

const kRows = 10;

function copyRate({ page, sample }: Instant, series: ChartSeries): Point {
  const track = page.processes.find((one) => one.index === series.process) ?? null;
  if (series.key !== "sum" && track === null) return null;
  const rate = slopeAt((track?.columns ?? page.totals).copies.values, track?.first ?? 0, page.seconds, sample - (track?.first ?? 0));
  return rate === rate ? rate : null;
}

// Sums and limits first, then the process in focus, then the largest.
function rank(series: ChartSeries, value: Point, strong: number | null): number {
  if (series.kind === "sum") return Infinity;
  if (series.kind === "limit") return Number.MAX_VALUE;
  return series.process !== null && series.process === strong ? Number.MAX_VALUE / 2 : (value ?? -1);
}

function readMemory(list: ChartSeries[], instant: Instant): Reading {
  const rows = list
    .map((series, position) => ({ series, position, value: series.at(instant.sample) }))
    .filter(({ value }) => value !== null)
    .map((row) => ({ ...row, rank: rank(row.series, row.value, instant.strong) }))
    .sort((a, b) => (a.rank === b.rank ? a.position - b.position : b.rank - a.rank))
    .map(({ series, value }): TooltipRow => ({
      series,
      values: [formatKib(value), series.key === "sum" || series.kind === "process" ? formatRate(copyRate(instant, series)) : ""],
      strong: series.key === "sum" || (series.process !== null && series.process === instant.strong),
    }));
  return { heads: [instant.measure, "copies"], rows };
}

function readRates(list: ChartSeries[], { sample }: Instant): Reading {
  const rates = list
    .map((series) => ({ series, rate: series.at(sample) }))
    .filter(({ rate }) => rate !== null)
    .reverse();
  const sum = rates.reduce((all, { rate }) => all + (rate ?? 0), 0);
  const rows = rates.map(({ series, rate }): TooltipRow => ({
    series,
    values: [formatRate(rate), sum > 0 ? formatShare((rate ?? 0) / sum) : ""],
    strong: false,
  }));
  const [first] = list;
  const all: TooltipRow[] =
    rates.length > 1 && first !== undefined
      ? [{ series: { ...first, key: "all", label: "all copies", colour: "sum" }, values: [formatRate(sum), ""], strong: true }]
      : [];
  return { heads: ["copies", "share"], rows: [...all, ...rows] };
}

function readUsed(strip: Strip, { sample }: Instant): Reading {
  const spell = strip.unit === "kib" ? formatKib : formatCount;
  const rows = strip.series.map((series): TooltipRow => ({ series, values: [spell(series.at(sample)), ""], strong: false }));
  return { heads: ["", ""], rows };
}

// The two memory strips are read together, as a worker is part of the sum above it.
export function readInstant(strips: Strip[], under: Strip, instant: Instant): Reading {
  const shown = (list: ChartSeries[]): ChartSeries[] => list.filter((series) => !instant.hidden.has(series.key));
  if (under.name === "rate") return readRates(shown(under.series), instant);
  if (under.name !== "sum" && under.name !== "memory") return readUsed(under, instant);
  return readMemory(
    shown(strips.filter((strip) => strip.name === "sum" || strip.name === "memory").flatMap((strip) => strip.series)),
    instant,
  );
}

function makeRow({ series, values, strong }: TooltipRow): HTMLElement[] {
  const swatch = make("span", "swatch");
  swatch.style.background = seriesColour(series.colour);
  const tone = strong ? " strong" : "";
  return [
    swatch,
    make("span", `tip-name${tone}`, series.label),
    make("span", `tip-value${tone}`, values[0]),
    make("span", `tip-value${tone}`, values[1]),
  ];
}

export function showTooltip(box: HTMLElement, reading: Reading, seconds: number, step: number): void {
  const head = [
    make("span", "tip-time", formatClock(seconds, step)),
    make("span", "tip-head", reading.heads[0]),
    make("span", "tip-head", reading.heads[1]),
  ];
  box.replaceChildren(...head, ...reading.rows.slice(0, kRows).flatMap(makeRow));
  if (reading.rows.length > kRows) box.append(make("span", "tip-more", `and ${reading.rows.length - kRows} more`));
  box.hidden = false;
}

// Places the box beside the point, on the side with room, always inside the host.
export function placeTooltip(box: HTMLElement, host: HTMLElement, x: number, y: number): void {
  const room = host.clientWidth - box.offsetWidth;
  const left = x + 18 <= room ? x + 18 : x - box.offsetWidth - 18;
  box.style.left = `${Math.max(0, Math.min(room, left))}px`;
  box.style.top = `${Math.max(0, y)}px`;
}
