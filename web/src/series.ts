// Owns the cut of the recording that a chart draws: which samples, and one point for each bucket of them.
// Called by: timeline.ts at the start, at every zoom and at every change of measure.
// Does not: draw. A bucket's point is its highest value, so that a peak is never hidden.
import type { Measure, Track } from "./decode";

export type Point = number | null;
export interface Cut { low: number; high: number; step: number } // sample indices low..high-1, step samples a point

const kPoints = 1600;

function lowerBound(values: Float64Array, wanted: number): number {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((values[middle] ?? 0) < wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}

export function planCut(seconds: Float64Array, from: number, to: number): Cut {
  const low = Math.max(0, lowerBound(seconds, from) - 1); // one more on either side: lines run off the edge
  const high = Math.min(seconds.length, lowerBound(seconds, to) + 2);
  return { low, high, step: Math.max(1, Math.ceil((high - low) / kPoints)) };
}

export function cutTimes(seconds: Float64Array, cut: Cut): number[] {
  const points: number[] = [];
  for (let i = cut.low; i < cut.high; i += cut.step) points.push(seconds[i] ?? 0);
  return points;
}

function highest(column: Float64Array, from: number, to: number): Point {
  let top: Point = null;
  for (let i = Math.max(0, from); i < Math.min(column.length, to); i++) {
    const value = column[i] ?? NaN;
    if (value === value && (top === null || value > top)) top = value; // NaN is not itself
  }
  return top;
}

export function cutColumn(column: Float64Array, first: number, cut: Cut): Point[] {
  const points: Point[] = [];
  for (let i = cut.low; i < cut.high; i += cut.step) points.push(highest(column, i - first, i - first + cut.step));
  return points;
}

// Copies a second from one sample to the next; unknown where either end is.
export function slopes(copies: Float64Array, first: number, seconds: Float64Array): Float64Array {
  return copies.map((count, i) => (i === 0 ? NaN : (count - (copies[i - 1] ?? NaN)) / ((seconds[first + i] ?? NaN) - (seconds[first + i - 1] ?? NaN))));
}

export function highestOf(column: Float64Array): Point {
  return highest(column, 0, column.length);
}

export function lastOf(column: Float64Array, end = column.length): Point {
  for (let i = Math.min(end, column.length) - 1; i >= 0; i--) {
    const value = column[i] ?? NaN;
    if (value === value) return value;
  }
  return null;
}

// The last sample that found anything: at the very end all may have ended, and nothing is left to be shared.
export function lastHeld(column: Float64Array): number {
  for (let i = column.length - 1; i >= 0; i--) if ((column[i] ?? NaN) > 0) return i;
  return column.length - 1;
}

// At most `most` tracks, the largest by peak, in their own order.
export function largestTracks(tracks: Track[], measure: Measure, most: number): Track[] {
  if (tracks.length <= most) return tracks;
  const ranked = tracks.map((track) => ({ track, peak: highestOf(track.columns[measure].values) ?? -1 }));
  ranked.sort((a, b) => b.peak - a.peak);
  const kept = new Set(ranked.slice(0, most).map((entry) => entry.track));
  return tracks.filter((track) => track.role === "parent" || kept.has(track));
}
