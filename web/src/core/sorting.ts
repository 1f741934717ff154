// Owns the sorting of a table by a click on a column head, and what the head says about it.
// Called by: table.ts and tables.ts.
// Does not: own rows; it hands out an order, and the table applies it.
import { make, makeButton, mark } from "./dom";

export type Key = number | string | null;
export type Compare<Row> = (a: Row, b: Row) => number;
export interface Sortable<Row> { title: string; key: (row: Row) => Key; words?: boolean }

const kWords = new Intl.Collator("en"); // many times faster than localeCompare

// Unknown values stay last, whichever way the table is sorted.
export function compareKeys(a: Key, b: Key, direction: 1 | -1): number {
  if (a === null || b === null) return a === b ? 0 : a === null ? 1 : -1;
  if (typeof a === "number" && typeof b === "number") return (a - b) * direction;
  return kWords.compare(String(a), String(b)) * direction;
}

// Sorted by `first` from the beginning. Figures begin with the largest, words with A.
export function makeSortableHeads<Row>(columns: Sortable<Row>[], first: string, apply: (order: Compare<Row>) => void): HTMLElement[] {
  const heads = columns.map((column) => {
    const head = mark(make("th", column.words === true ? "words" : "number"), { "scope": "col", "aria-sort": "none" });
    head.append(makeButton("sort", column.title, () => {
      const now = head.getAttribute("aria-sort");
      const direction = now === "descending" || (now === "none" && column.words === true) ? 1 : -1;
      for (const other of heads) mark(other, { "aria-sort": "none" });
      mark(head, { "aria-sort": direction === 1 ? "ascending" : "descending" });
      apply((a, b) => compareKeys(column.key(a), column.key(b), direction));
    }));
    return head;
  });
  heads[columns.findIndex((column) => column.title === first)]?.querySelector("button")?.click();
  return heads;
}
