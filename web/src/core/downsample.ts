// Owns the cut of a column that a chart draws: which samples, and what stands for those that share a pixel.
// Called by: lines.ts and rates.ts at every zoom, pan and change of what is shown.
// Does not: draw. A bucket keeps its lowest and its highest value in their order, so that no peak and no dip is hidden.
export type Point = number | null;
export interface Cut { low: number; high: number; step: number } // numbers of samples low..high-1; step of them a bucket

export function lowerBound(values: Float64Array, wanted: number): number {
  let low = 0;
  let high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((values[middle] as number) < wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}

export function nearestSample(seconds: Float64Array, wanted: number): number {
  const after = Math.min(lowerBound(seconds, wanted), seconds.length - 1);
  const before = Math.max(0, after - 1);
  return wanted - (seconds[before] ?? 0) < (seconds[after] ?? 0) - wanted ? before : after;
}

// Buckets are powers of two and begin at multiples of themselves: while one pans, each bucket stays what it is.
export function planCut(seconds: Float64Array, range: [number, number], buckets: number): Cut {
  const low = Math.max(0, lowerBound(seconds, range[0]) - 1); // one more on either side: lines run off the edge
  const high = Math.min(seconds.length, lowerBound(seconds, range[1]) + 2);
  const step = 2 ** Math.max(0, Math.ceil(Math.log2((high - low) / buckets)));
  return { low: low - (low % step), high, step };
}

// Two instants a bucket, one for each of its two values.
export function cutTimes(seconds: Float64Array, { low, high, step }: Cut): number[] {
  const times: number[] = [];
  for (let i = low; i < high; i += step) {
    times.push(seconds[i] as number);
    if (step > 1) times.push(seconds[Math.min(i + (step >> 1), high - 1)] as number);
  }
  return times;
}

// One instant a bucket, where its highest value stands for all of it.
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

// The last sample that found anything: at the very end all may have ended, and nothing is left to be shared.
export function lastHeld(values: Float64Array): number {
  for (let i = values.length - 1; i >= 0; i--) if ((values[i] as number) > 0) return i;
  return values.length - 1;
}

// How fast a cumulative count grew up to sample `at` of its column, per second, since the last sample that knew it.
export function slopeAt(counts: Float64Array, first: number, seconds: Float64Array, at: number): number {
  let before = at - 1;
  const count = counts[at] ?? NaN;
  if (count !== count) return NaN;
  while (before >= 0 && Number.isNaN(counts[before])) before--;
  if (before < 0) return NaN;
  return (count - (counts[before] as number)) / ((seconds[first + at] as number) - (seconds[first + before] as number));
}
