// Owns binary search in sorted numbers.

// The number of values below `wanted`, which is where it would be inserted.
export function lowerBound(sorted: ArrayLike<number>, wanted: number): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((sorted[middle] as number) < wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}

// The number of values at or below `wanted`.
export function upperBound(sorted: ArrayLike<number>, wanted: number): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((sorted[middle] ?? Infinity) <= wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}

// The index of the last entry at or before `wanted`; -1 if all are later.
export function lastBefore(sorted: ArrayLike<number>, wanted: number): number {
  return upperBound(sorted, wanted) - 1;
}

export function nearestSample(seconds: Float64Array, wanted: number): number {
  const after = Math.min(lowerBound(seconds, wanted), seconds.length - 1);
  const before = Math.max(0, after - 1);
  return wanted - (seconds[before] ?? 0) < (seconds[after] ?? 0) - wanted ? before : after;
}
