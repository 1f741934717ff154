// Owns what all charts' axes share.

export const kKibSteps = Array.from({ length: 45 }, (_, power) => 2 ** power);
export const kAxisFont = "12px system-ui, sans-serif";

// The width of the axis at the left of a chart.
export function axisSize(): number {
  return innerWidth < 600 ? 58 : 74;
}
