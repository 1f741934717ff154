// Owns the box beside the cursor: the instant, and what each line of the strip under it is worth there.
// Called by: timeline.ts at every move of the cursor.
// Does not: choose the instant. Values are those of one sample, never of a bucket.
import { lineColour } from "./charts";
import type { Page } from "./decode";
import { make } from "./dom";
import { formatClock, formatCount, formatKib, formatRate, formatShare } from "./format";
import type { Line } from "./lines";
import { slopeAt, type Point } from "./series";
import type { Strip } from "./strips";

export interface TooltipRow { line: Line; values: [string, string]; strong: boolean }
export interface Reading { heads: [string, string]; rows: TooltipRow[] }
export interface Instant { page: Page; sample: number; hidden: Set<string>; strong: number | null; measure: string }

const kRows = 10;

function copyRate({ page, sample }: Instant, line: Line): Point {
  const track = page.processes.find((one) => one.index === line.process) ?? null;
  if (line.key !== "sum" && track === null) return null;
  const rate = slopeAt((track?.columns ?? page.totals).copies.values, track?.first ?? 0, page.seconds, sample - (track?.first ?? 0));
  return rate === rate ? rate : null;
}

// Sums and limits first, then the process in focus, then the largest.
function rank(line: Line, value: Point, strong: number | null): number {
  if (line.kind === "sum") return Infinity;
  if (line.kind === "limit") return Number.MAX_VALUE;
  return line.process !== null && line.process === strong ? Number.MAX_VALUE / 2 : value ?? -1;
}

function readMemory(lines: Line[], instant: Instant): Reading {
  const rows = lines
    .map((line, position) => ({ line, position, value: line.at(instant.sample) }))
    .filter(({ value }) => value !== null)
    .map((row) => ({ ...row, rank: rank(row.line, row.value, instant.strong) }))
    .sort((a, b) => (a.rank === b.rank ? a.position - b.position : b.rank - a.rank))
    .map(({ line, value }): TooltipRow => ({
      line, values: [formatKib(value), line.key === "sum" || line.kind === "process" ? formatRate(copyRate(instant, line)) : ""],
      strong: line.key === "sum" || (line.process !== null && line.process === instant.strong),
    }));
  return { heads: [instant.measure, "copies"], rows };
}

function readRates(lines: Line[], { sample }: Instant): Reading {
  const rates = lines.map((line) => ({ line, rate: line.at(sample) })).filter(({ rate }) => rate !== null).reverse();
  const sum = rates.reduce((all, { rate }) => all + (rate ?? 0), 0);
  const rows = rates.map(({ line, rate }): TooltipRow => ({ line, values: [formatRate(rate), sum > 0 ? formatShare((rate ?? 0) / sum) : ""], strong: false }));
  const [first] = lines;
  const all: TooltipRow[] = rates.length > 1 && first !== undefined ? [{ line: { ...first, key: "all", label: "all copies", colour: "sum" }, values: [formatRate(sum), ""], strong: true }] : [];
  return { heads: ["copies", "share"], rows: [...all, ...rows] };
}

function readUsed(strip: Strip, { sample }: Instant): Reading {
  const spell = strip.unit === "kib" ? formatKib : formatCount;
  const rows = strip.lines.map((line): TooltipRow => ({ line, values: [spell(line.at(sample)), ""], strong: false }));
  return { heads: ["", ""], rows };
}

// The two memory strips are read together: a worker is a part of the sum above it.
export function readInstant(strips: Strip[], under: Strip, instant: Instant): Reading {
  const shown = (lines: Line[]): Line[] => lines.filter((line) => !instant.hidden.has(line.key));
  if (under.name === "rate") return readRates(shown(under.lines), instant);
  if (under.name !== "sum" && under.name !== "memory") return readUsed(under, instant);
  return readMemory(shown(strips.filter((strip) => strip.name === "sum" || strip.name === "memory").flatMap((strip) => strip.lines)), instant);
}

function makeRow({ line, values, strong }: TooltipRow): HTMLElement[] {
  const swatch = make("span", "swatch");
  swatch.style.background = lineColour(line.colour);
  const tone = strong ? " strong" : "";
  return [swatch, make("span", `tip-name${tone}`, line.label), make("span", `tip-value${tone}`, values[0]), make("span", `tip-value${tone}`, values[1])];
}

export function showTooltip(box: HTMLElement, reading: Reading, seconds: number, step: number): void {
  const head = [make("span", "tip-time", formatClock(seconds, step)), make("span", "tip-head", reading.heads[0]), make("span", "tip-head", reading.heads[1])];
  box.replaceChildren(...head, ...reading.rows.slice(0, kRows).flatMap(makeRow));
  if (reading.rows.length > kRows) box.append(make("span", "tip-more", `and ${reading.rows.length - kRows} more`));
  box.hidden = false;
}

// Beside the point, on whichever side has room, always inside the host.
export function placeTooltip(box: HTMLElement, host: HTMLElement, x: number, y: number): void {
  const room = host.clientWidth - box.offsetWidth;
  const left = x + 18 <= room ? x + 18 : x - box.offsetWidth - 18;
  box.style.left = `${Math.max(0, Math.min(room, left))}px`;
  box.style.top = `${Math.max(0, y)}px`;
}
