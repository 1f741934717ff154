// Owns downsampling for charts: which samples are drawn, and what represents those that share a pixel.
// A bucket keeps its lowest and its highest value in their order, so that no peak and no dip is hidden.
import type { Point } from "./column_values";
import { lowerBound } from "./search";

export interface Cut {
  low: number;
  high: number;
  step: number;
} // samples low..high-1, `step` of them per bucket

// Buckets are powers of two, aligned to their size, so panning doesn't change which samples share a bucket.
export function planCut(seconds: Float64Array, range: [number, number], buckets: number): Cut {
  const low = Math.max(0, lowerBound(seconds, range[0]) - 1); // one more on either side, so that lines reach the edge
  const high = Math.min(seconds.length, lowerBound(seconds, range[1]) + 2);
  const step = 2 ** Math.max(0, Math.ceil(Math.log2((high - low) / buckets)));
  return { low: low - (low % step), high, step };
}

// Two instants per bucket, one for each of its two values.
export function cutTimes(seconds: Float64Array, { low, high, step }: Cut): number[] {
  const times: number[] = [];
  for (let i = low; i < high; i += step) {
    times.push(seconds[i] as number);
    if (step > 1) times.push(seconds[Math.min(i + (step >> 1), high - 1)] as number);
  }
  return times;
}

// One instant per bucket, for its highest value.
export function peakTimes(seconds: Float64Array, { low, high, step }: Cut): number[] {
  const times: number[] = [];
  for (let i = low; i < high; i += step) times.push(seconds[Math.min(i + (step >> 1), high - 1)] as number);
  return times;
}

// The column begins at sample `first`; NaN is unknown, and not equal to itself.
export function cutColumn(values: Float64Array, first: number, scale: number, { low, high, step }: Cut): Point[] {
  const points: Point[] = [];
  for (let i = low; i < high; i += step) {
    const end = Math.min(values.length, Math.min(i + step, high) - first);
    let [least, most] = [-1, -1];
    for (let j = Math.max(0, i - first); j < end; j++) {
      const value = values[j] as number;
      if (value !== value) continue;
      if (least < 0 || value < (values[least] as number)) least = j;
      if (most < 0 || value > (values[most] as number)) most = j;
    }
    const [one, other] = least < most ? [least, most] : [most, least];
    points.push(one < 0 ? null : (values[one] as number) * scale);
    if (step > 1) points.push(other < 0 ? null : (values[other] as number) * scale);
  }
  return points;
}
