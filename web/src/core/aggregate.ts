// Owns the blame rows of a part of the recording: copies by place, summed by line, type and native code.
// Does not: scale, or know the span; it gets copies by place.
import { lineNames, type BlameRow } from "../data/blame";
import type { Page, Place } from "../data/decode";

type NameOf = (place: Place, page: Page) => Pick<BlameRow, "name" | "detail" | "path"> | null; // null: it has no row

const nameType: NameOf = (place) => (place.type === "" ? null : { name: place.type, detail: "", path: "" });
const nameNative: NameOf = (place) =>
  place.module === "" ? null : { name: place.symbol || "(no symbol)", detail: place.module, path: "" };
const nameLine: NameOf = (place, page) => {
  const frame = page.frames[place.line];
  return frame === undefined || frame.file === "" ? null : lineNames(frame.file, frame.line, frame.function, place.via);
};

// Copies are rounded down as in the report; shares refer to all copies of the selection.
function sumBy(page: Page, weights: Float64Array, nameOf: NameOf): BlameRow[] {
  const sums = new Map<string, { row: BlameRow; copies: number; causes: Map<string, number> }>();
  let total = 0;
  weights.forEach((weight, number) => {
    const place = page.places[number];
    if (weight <= 0 || place === undefined) return;
    total += weight;
    const names = nameOf(place, page);
    if (names === null) return;
    const key = `${names.name}\0${names.detail}`;
    let sum = sums.get(key);
    if (sum === undefined) {
      sum = {
        row: { ...names, copies: 0, bytes: null, pages: null, share: null, estimated: true, uncertainty: null, causes: null },
        copies: 0,
        causes: new Map(),
      };
      sums.set(key, sum);
    }
    sum.copies += weight;
    sum.causes.set(place.cause, (sum.causes.get(place.cause) ?? 0) + weight);
  });
  return [...sums.values()]
    .map(({ row, copies, causes }) => ({ ...row, copies: Math.floor(copies), share: copies / total, causes }))
    .filter((row) => row.copies > 0)
    .sort((a, b) => b.copies - a.copies);
}

export interface BlameRows {
  types: BlameRow[];
  lines: BlameRow[];
  native: BlameRow[];
}

export function aggregatePlaces(page: Page, weights: Float64Array): BlameRows {
  return { types: sumBy(page, weights, nameType), lines: sumBy(page, weights, nameLine), native: sumBy(page, weights, nameNative) };
}
