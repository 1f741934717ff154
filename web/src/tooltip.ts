// Owns the box beside the cursor: the instant, and what every line is worth there.
// Called by: timeline.ts at every move of the cursor.
// Does not: choose the instant or read the recording.
import type uPlot from "uplot";
import type { Line } from "./charts";
import { make } from "./dom";
import { formatClock, formatKib, formatRate } from "./format";
import { colour } from "./theme";

export interface TooltipRow { label: string; colour: string; memory: string; rate: string; strong: boolean; near: boolean }

export interface Reading {
  lines: Line[]; memory: uPlot.AlignedData; rate: uPlot.AlignedData;
  hidden: Set<number>; strong: (number | null)[]; // positions of lines
}

function valueAt(data: uPlot.AlignedData, line: number, at: number): number | null {
  return data[line + 1]?.[at] ?? null;
}

// Sum and limits first, then the lines in focus, then the largest.
function rank(reading: Reading, line: number, at: number): number {
  if (reading.lines[line]?.kind !== "process") return Infinity;
  return reading.strong.includes(line) ? Number.MAX_VALUE : valueAt(reading.memory, line, at) ?? -1;
}

function valueRow(reading: Reading, line: Line, position: number, at: number): TooltipRow {
  const near = line.kind === "process" && reading.strong.includes(position);
  return {
    label: line.label, colour: near && line.colour === "crowd" ? "accent" : line.colour,
    memory: formatKib(valueAt(reading.memory, position, at)),
    rate: line.kind === "limit" ? "" : formatRate(valueAt(reading.rate, position, at)),
    strong: line.kind === "sum", near,
  };
}

export function valueRows(reading: Reading, at: number): TooltipRow[] {
  return reading.lines
    .map((line, position) => ({ line, position, rank: rank(reading, position, at) }))
    .filter(({ position }) => !reading.hidden.has(position) && (valueAt(reading.memory, position, at) ?? valueAt(reading.rate, position, at)) !== null)
    .sort((a, b) => (a.rank === b.rank ? a.position - b.position : b.rank - a.rank))
    .map(({ line, position }) => valueRow(reading, line, position, at));
}

function makeRow(row: TooltipRow): HTMLElement[] {
  const swatch = make("span", "swatch");
  swatch.style.background = colour(row.colour);
  const tone = `${row.strong ? "strong" : ""} ${row.near ? "near" : ""}`.trim();
  return [swatch, make("span", `tip-name ${tone}`, row.label), make("span", `tip-value ${tone}`, row.memory), make("span", `tip-value ${tone}`, row.rate)];
}

export function showTooltip(box: HTMLElement, seconds: number, step: number, heads: [string, string], rows: TooltipRow[], more: number): void {
  const head = [make("span", "tip-time", formatClock(seconds, step)), make("span", "tip-head", heads[0]), make("span", "tip-head", heads[1])];
  box.replaceChildren(...head, ...rows.flatMap(makeRow));
  if (more > 0) box.append(make("span", "tip-more", `and ${more} more`));
  box.hidden = false;
}

// Beside the point, on whichever side has room, always inside the host.
export function placeTooltip(box: HTMLElement, host: HTMLElement, x: number, y: number): void {
  const room = host.clientWidth - box.offsetWidth;
  const left = x + 18 <= room ? x + 18 : x - box.offsetWidth - 18;
  box.style.left = `${Math.max(0, Math.min(room, left))}px`;
  box.style.top = `${Math.max(0, y)}px`;
}
