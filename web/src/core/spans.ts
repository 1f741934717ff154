// Owns copies by place between two instants, as differences of cumulative values.
// Does not: scale or estimate, as the tool did that. The recording's checkpoints limit how precise a span can be.
import type { Blame, Page } from "../data/decode";
import type { Span } from "./column_values";
import { lastBefore } from "./search";

// The checkpoints for a span: copies up to the second minus copies up to the first; -1 is the start. Of a span between two
// checkpoints, those two: it may hold any of the copies between them.
export function checkpointsOf(blame: Blame, span: Span | null): [number, number] {
  const times = blame.timesMs.values;
  if (span === null) return [-1, times.length - 1];
  const [from, to] = [lastBefore(times, span[0] * 1000), lastBefore(times, span[1] * 1000)];
  return [from, from === to ? Math.min(to + 1, times.length - 1) : to];
}

// The span between two checkpoints; null if they are the same.
export function spanBetween(blame: Blame, [from, to]: [number, number]): Span | null {
  const secondsOf = (at: number): number => (blame.timesMs.values[at] ?? 0) / 1000;
  return from === to ? null : [secondsOf(from), secondsOf(to)];
}

// Copies between the checkpoints by place (index into page.places), of the processes that `holds` accepts.
export function weighPlaces(page: Page, [from, to]: [number, number], holds: (index: number) => boolean): Float64Array {
  const [index, place, steps, at, copies] = [
    page.blame.index.values,
    page.blame.place.values,
    page.blame.steps.values,
    page.blame.at.values,
    page.blame.copies.values,
  ];
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
