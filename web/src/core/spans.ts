// Owns what was copied between two instants: copies by place, and by process, as differences of two cumulative values.
// Called by: who.ts, for the flame graph and the tables.
// Does not: scale or estimate; the tool did that, and a recording's checkpoints decide how fine a span can be.
import type { Blame, Page } from "./decode";

export type Span = readonly [number, number]; // seconds

// Number of the last entry at or before `wanted`; -1: all are later.
export function lastBefore(times: Float64Array, wanted: number): number {
  let low = 0;
  let high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((times[middle] ?? Infinity) <= wanted) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

// The checkpoints that a span is measured by: copies up to the second, minus those up to the first. -1: from the start.
export function checkpointsOf(blame: Blame, span: Span | null): [number, number] {
  const times = blame.timesMs.values;
  return span === null ? [-1, times.length - 1] : [lastBefore(times, span[0] * 1000), lastBefore(times, span[1] * 1000)];
}

// Copies by place (number in page.places), of the processes that `holds` says, within the checkpoints.
export function weighPlaces(page: Page, [from, to]: [number, number], holds: (index: number) => boolean): Float64Array {
  const [index, place, steps, at, copies] = [page.blame.index.values, page.blame.place.values, page.blame.steps.values, page.blame.at.values, page.blame.copies.values];
  const weights = new Float64Array(page.places.length);
  for (let pair = 0, step = 0; pair < index.length; pair++) {
    const end = step + (steps[pair] ?? 0);
    let before = 0;
    let after = 0;
    for (; step < end; step++) {
      const value = copies[step] ?? 0;
      if ((at[step] ?? 0) <= from) before = value;
      if ((at[step] ?? 0) <= to) after = value;
    }
    const number = place[pair] ?? -1;
    if (number < weights.length && holds(index[pair] ?? -1)) weights[number] = (weights[number] ?? 0) + Math.max(0, after - before);
  }
  return weights;
}
