// Owns the strip of copies per second: one area a cause, stacked; rates are slopes of the cumulative counts.
// Called by: strips.ts.
// Does not: draw. Where samples share a pixel, the one with the highest rate of all shown causes stands for them, whole.
import { causeName, causeOrder } from "./causes";
import type { Page, Track } from "./decode";
import type { Line } from "./lines";
import { slopeAt, type Cut, type Point } from "./series";

interface Rated { line: Line; counts: Float64Array }

export interface RateStack { lines: Line[]; cut: (cut: Cut, hidden: Set<string>) => Point[][] } // the topmost area first

function rateLine(key: string, counts: Float64Array, first: number, seconds: Float64Array): Line {
  const known = key !== "";
  return {
    key: `cause:${key}`, label: known ? causeName(key) : "copies", title: known ? causeName(key) : "copies, whatever their cause", kind: "cause",
    process: null, colour: known ? `cause:${key}` : "accent", dash: [], width: 1, fill: known ? `cause:${key}` : "accent",
    at: (sample) => {
      const rate = slopeAt(counts, first, seconds, sample - first);
      return rate === rate ? rate : null;
    },
    cut: () => [], // only all together: see stack()
  };
}

// The sample of a bucket at which all shown causes together were fastest; -1: none is known.
function fastest(shown: Rated[], from: number, to: number): number {
  let [best, most] = [-1, -1];
  for (let i = from; i < to; i++) {
    let sum = NaN;
    for (const { line } of shown) {
      const rate = line.at(i);
      if (rate !== null) sum = (sum === sum ? sum : 0) + rate;
    }
    if (sum > most) [best, most] = [i, sum];
  }
  return best;
}

// Points from the bottom up: each area's upper edge is the sum of itself and those below.
function stack(rated: Rated[], { low, high, step }: Cut, hidden: Set<string>): Point[][] {
  const shown = rated.filter(({ line }) => !hidden.has(line.key));
  const points = rated.map((): Point[] => []);
  for (let i = low; i < high; i += step) {
    const at = fastest(shown, i, Math.min(i + step, high));
    let edge: Point = at < 0 ? null : 0;
    rated.forEach(({ line }, nth) => {
      if (edge !== null && !hidden.has(line.key)) edge += line.at(at) ?? 0;
      points[nth]?.push(edge);
    });
  }
  return points;
}

// Of one process, or of all; without causes one area for all copies.
export function planRates(page: Page, track: Track | null): RateStack {
  const first = track?.first ?? 0;
  const causes = [...(track?.causes ?? page.totals.causes)].sort(([a], [b]) => causeOrder(a) - causeOrder(b));
  const copies: [string, Float64Array] = ["", (track?.columns ?? page.totals).copies.values];
  const rated = (causes.length > 0 ? causes.map(([key, column]): [string, Float64Array] => [key, column.values]) : [copies])
    .map(([key, counts]) => ({ counts, line: rateLine(key, counts, first, page.seconds) }));
  return { lines: rated.map(({ line }) => line).reverse(), cut: (cut, hidden) => stack(rated, cut, hidden).reverse() };
}
