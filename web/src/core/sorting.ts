// Owns the order of rows by a key, whatever its type.

export type Key = number | string | null;
export type Compare<Row> = (a: Row, b: Row) => number;

const kWords = new Intl.Collator("en"); // much faster than localeCompare

// Unknown values come last in either direction.
export function compareKeys(a: Key, b: Key, direction: 1 | -1): number {
  if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1;
  if (typeof a === "number" && typeof b === "number") return (a - b) * direction;
  return kWords.compare(String(a), String(b)) * direction;
}
