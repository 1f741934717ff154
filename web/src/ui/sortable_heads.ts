// Owns sorting by clicks on column heads, and their aria-sort state.
// Does not: hold rows; it passes a comparison to the table, which applies it.
import { compareKeys, type Compare, type Key } from "../core/sorting";
import { make, makeButton, mark } from "./dom";

export interface Sortable<Row> {
  title: string;
  key: (row: Row) => Key;
  words?: boolean;
}

// Initially sorted by `first`. Figures sort largest first, words from A.
export function makeSortableHeads<Row>(columns: Sortable<Row>[], first: string, apply: (order: Compare<Row>) => void): HTMLElement[] {
  const heads = columns.map((column) => {
    const head = mark(make("th", column.words === true ? "words" : "number"), { "scope": "col", "aria-sort": "none" });
    head.append(
      makeButton("sort", column.title, () => {
        const now = head.getAttribute("aria-sort");
        const direction = now === "descending" || (now === "none" && column.words === true) ? 1 : -1;
        for (const other of heads) mark(other, { "aria-sort": "none" });
        mark(head, { "aria-sort": direction === 1 ? "ascending" : "descending" });
        apply((a, b) => compareKeys(column.key(a), column.key(b), direction));
      }),
    );
    return head;
  });
  heads[columns.findIndex((column) => column.title === first)]?.querySelector("button")?.click();
  return heads;
}
