// Owns figures read from one column of a recording: extremes, last values, slopes, and gains within a span.
// NaN is unknown, and not equal to itself.
import type { Causes } from "../data/blame";
import type { CauseColumns, Page } from "../data/decode";
import { lastBefore } from "./search";

export type Point = number | null;
export type Span = readonly [number, number]; // seconds

export function highestOf(values: Float64Array): Point {
  let top = NaN;
  for (const value of values) if (!(value <= top) && value === value) top = value;
  return top === top ? top : null;
}

export function lastOf(values: Float64Array, end = values.length): Point {
  for (let i = Math.min(end, values.length) - 1; i >= 0; i--) {
    const value = values[i] as number;
    if (value === value) return value;
  }
  return null;
}

// The last sample with a value above 0: at the very end all processes may have ended.
export function lastHeld(values: Float64Array): number {
  for (let i = values.length - 1; i >= 0; i--) if ((values[i] as number) > 0) return i;
  return values.length - 1;
}

// The growth per second of a cumulative count up to sample `at` of its column, since the last sample with a known value.
export function slopeAt(counts: Float64Array, first: number, seconds: Float64Array, at: number): number {
  let before = at - 1;
  const count = counts[at] ?? NaN;
  if (count !== count) return NaN;
  while (before >= 0 && Number.isNaN(counts[before])) before--;
  if (before < 0) return NaN;
  const passed = (seconds[first + at] as number) - (seconds[first + before] as number);
  return passed > 0 ? (count - (counts[before] as number)) / passed : NaN;
}

// The last known value at or before sample `at`; null if there is none.
export function valueAt(values: Float64Array, at: number): Point {
  return lastOf(values, at + 1);
}

// What a cumulative column gained within the span; null if unknown at its end.
export function gainOf(values: Float64Array, first: number, page: Page, span: Span): number | null {
  const end = valueAt(values, lastBefore(page.seconds, span[1]) - first);
  return end === null ? null : Math.max(0, end - (valueAt(values, lastBefore(page.seconds, span[0]) - first) ?? 0));
}

// Null if unknown. A cause that never occurred has no column; before a process began, it copied nothing.
export function causesWithin(columns: CauseColumns, first: number, page: Page, span: Span): Causes | null {
  const begun = lastBefore(page.seconds, span[1]) >= first;
  const gains = [...columns].map(([cause, column]) => [cause, begun ? gainOf(column.values, first, page, span) : 0] as const);
  return gains.every(([, gain]) => gain === null) ? null : new Map(gains.map(([cause, gain]) => [cause, gain ?? 0]));
}
