// Owns the strip of copies per second: one stacked area per cause; rates are slopes of the cumulative counts.
// Samples that share a pixel are represented by the one with the highest total rate of the shown causes.
import { causeName, causeOrder } from "./causes";
import type { Page, Track } from "../data/decode";
import type { ChartSeries } from "./chart_series";
import type { Cut } from "./downsample";
import { type Point, slopeAt } from "./column_values";

interface Rated {
  series: ChartSeries;
  counts: Float64Array;
}

interface RateStack {
  series: ChartSeries[];
  cut: (cut: Cut, hidden: Set<string>) => Point[][];
} // topmost area first

function rateSeries(key: string, counts: Float64Array, first: number, seconds: Float64Array): ChartSeries {
  const known = key !== "";
  return {
    key: `cause:${key}`,
    label: known ? causeName(key) : "copies",
    title: known ? causeName(key) : "copies, whatever their cause",
    kind: "cause",
    process: null,
    colour: known ? `cause:${key}` : "accent",
    dash: [],
    width: 1,
    fill: known ? `cause:${key}` : "accent",
    at: (sample) => {
      const rate = slopeAt(counts, first, seconds, sample - first);
      return rate === rate ? rate : null;
    },
    cut: () => [], // areas are only cut together, by stack()
  };
}

// The sample of a bucket with the highest total rate of the shown causes; -1 if none is known.
function fastest(shown: Rated[], from: number, to: number): number {
  let [best, most] = [-1, -1];
  for (let i = from; i < to; i++) {
    let sum = NaN;
    for (const { series } of shown) {
      const rate = series.at(i);
      if (rate !== null) sum = (sum === sum ? sum : 0) + rate;
    }
    if (sum > most) [best, most] = [i, sum];
  }
  return best;
}

// Points from the bottom up: each area's upper edge is the sum of itself and those below.
function stack(rated: Rated[], { low, high, step }: Cut, hidden: Set<string>): Point[][] {
  const shown = rated.filter(({ series }) => !hidden.has(series.key));
  const points = rated.map((): Point[] => []);
  for (let i = low; i < high; i += step) {
    const at = fastest(shown, i, Math.min(i + step, high));
    let edge: Point = at < 0 ? null : 0;
    rated.forEach(({ series }, nth) => {
      if (edge !== null && !hidden.has(series.key)) edge += series.at(at) ?? 0;
      points[nth]?.push(edge);
    });
  }
  return points;
}

// For one process, or all. If causes are unknown, one area for all copies.
export function planRates(page: Page, track: Track | null): RateStack {
  const first = track?.first ?? 0;
  const causes = [...(track?.causes ?? page.totals.causes)].sort(([a], [b]) => causeOrder(a) - causeOrder(b));
  const copies: [string, Float64Array] = ["", (track?.columns ?? page.totals).copies.values];
  const rated = (causes.length > 0 ? causes.map(([key, column]): [string, Float64Array] => [key, column.values]) : [copies]).map(
    ([key, counts]) => ({ counts, series: rateSeries(key, counts, first, page.seconds) }),
  );
  return { series: rated.map(({ series }) => series).reverse(), cut: (cut, hidden) => stack(rated, cut, hidden).reverse() };
}
