// Owns durations that benchmarks read from the browser's timeline: of each name the last ones, as a live page runs for days.

const kMost = 100;

export function measureSince(name: string, start: number): void {
  if (performance.getEntriesByName(name).length >= kMost) performance.clearMeasures(name);
  performance.measure(name, { start });
}
