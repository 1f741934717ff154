// Owns the forecast as a picture: what cowprof said at a sample, in words and as a band from then to its plateau.
// Called by: timeline.ts (the band follows the cursor), strips.ts and store.ts (room for it).
// Does not: forecast. Every figure was said by the tool at that moment; the band joins them by straight lines.
import type uPlot from "uplot";
import type { Page } from "./decode";
import { formatClock, formatKib, formatSeconds } from "./format";
import { highestOf, type Point } from "./series";
import { colour } from "./theme";

export interface Said {
  seconds: number; now: number;                 // when, and what the workers owned then
  low: number; best: number; high: number;      // KiB that they will own
  ceiling: Point; eta: Point;                   // KiB; seconds until the plateau
  limit: string; limitEta: Point;
}

const kMostRoom = 0.75;        // of the recorded span, beyond its end: the recording itself stays readable
const kRoomUntold = 0.12;      // where the plateau is known but not when
const kMostHeight = 1.5;       // times what was measured, for what was said in a finished run

const known = (value: number | undefined): Point => (value === undefined || Number.isNaN(value) ? null : value);

export function saidAt(page: Page, sample: number): Said | null {
  const { forecasts, totals, limits } = page;
  const at = (name: keyof Page["forecasts"]): Point => known(forecasts[name].values[sample]);
  const [low, best, high, now] = [at("low"), at("best"), at("high"), known(totals.workersPrivate.values[sample])];
  if (best === null || now === null) return null;
  const limit = limits[at("limit") ?? -1];
  return {
    seconds: page.seconds[sample] ?? 0, now, low: low ?? best, best, high: high ?? best, ceiling: at("ceiling"), eta: at("eta"),
    limit: limit === undefined ? "" : `${limit.kind} ${limit.name}`, limitEta: at("limitEta"),
  };
}

// A run that goes on, or was cut off: only then does the forecast reach beyond what was recorded.
export function standingForecast(page: Page): Said | null {
  return page.run.complete && !page.run.live ? null : saidAt(page, page.seconds.length - 1);
}

// Seconds that the axis needs beyond the last sample.
export function forecastRoom(page: Page): number {
  const said = standingForecast(page);
  if (said === null) return 0;
  const span = (page.seconds.at(-1) ?? 0) - Math.min(0, page.seconds[0] ?? 0);
  return said.eta === null || said.eta <= 0 ? kRoomUntold * span : Math.min(said.eta * 1.15, kMostRoom * span);
}

// How high the scale must reach for the band, in KiB.
export function forecastTop(page: Page): number {
  const said = standingForecast(page);
  const most = highestOf(page.totals.private.values) ?? 0;
  if (said !== null) return Math.min(4 * most, said.high);
  return Math.min(kMostHeight * most, highestOf(page.forecasts.best.values) ?? 0);
}

export function saidInWords(said: Said): string {
  const range = said.high > said.low ? ` (${formatKib(said.low)} to ${formatKib(said.high)})` : "";
  const when = said.eta === null ? "" : said.eta <= 0 ? ", reached" : ` in ${formatSeconds(Math.round(said.eta))}`;
  const limit = said.limitEta === null || said.limit === "" ? "" : `; limit ${said.limit} in ${formatSeconds(Math.round(said.limitEta))}`;
  return `At ${formatClock(said.seconds)} cowprof said: workers level off at ${formatKib(said.best)}${range}${when}${limit}`;
}

function polyline(ctx: CanvasRenderingContext2D, points: [number, number][]): void {
  points.forEach(([x, y], i) => (i === 0 ? ctx.moveTo(x, y) : ctx.lineTo(x, y)));
}

// Onto a canvas that lies over the strip: a wedge from what was owned to the plateau, then level.
export function drawForecast(canvas: HTMLCanvasElement, plot: uPlot, said: Said | null): void {
  const [width, height] = [plot.over.clientWidth, plot.over.clientHeight];
  canvas.width = width * devicePixelRatio;
  canvas.height = height * devicePixelRatio;
  const ctx = canvas.getContext("2d");
  if (ctx === null || said === null) return;
  ctx.scale(devicePixelRatio, devicePixelRatio);
  const x = (seconds: number): number => plot.valToPos(seconds, "x");
  const reach = x(said.seconds + Math.max(0, said.eta ?? 0));
  const end = Math.max(width, reach) + 2;
  const edge = (kib: number): [number, number][] => [[x(said.seconds), plot.valToPos(said.now, "y")], [reach, plot.valToPos(kib, "y")], [end, plot.valToPos(kib, "y")]];
  const stroke = (points: [number, number][], dash: number[], wide: number): void => {
    ctx.beginPath();
    ctx.setLineDash(dash);
    ctx.lineWidth = wide;
    polyline(ctx, points);
    ctx.stroke();
  };
  ctx.beginPath();
  polyline(ctx, [...edge(said.high), ...edge(said.low).reverse()]);
  ctx.fillStyle = colour("forecast-fill");
  ctx.fill();
  ctx.strokeStyle = colour("accent");
  stroke(edge(said.best), [7, 4], 2);
  ctx.globalAlpha = 0.55;
  stroke(edge(said.high), [2, 3], 1);
  stroke(edge(said.low), [2, 3], 1);
  if (said.ceiling === null) return;
  const y = plot.valToPos(said.ceiling, "y");
  ctx.strokeStyle = ctx.fillStyle = colour("muted");
  stroke([[x(said.seconds), y], [end, y]], [1, 4], 1);
  ctx.font = "11px system-ui, sans-serif";
  ctx.fillText("ceiling", x(said.seconds) + 4, y < 14 ? y + 12 : y - 4);
}
