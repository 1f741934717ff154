// Owns the tables beneath the icicle: lines, types, native code and regions, of what is chosen.
// Called by: who.ts.
// Does not: sum (rows.ts, regions.ts), or spell a row (blamecolumns.ts, table.ts).
import type { BlameRow } from "./blame";
import { planBlameColumns, type BlameHeads, type Units } from "./blamecolumns";
import { isWhole, spanInWords, type Chosen } from "./chosen";
import { make, mark } from "./dom";
import { formatBytes, formatCount } from "./format";
import { regionsWithin, type RegionRow } from "./regions";
import { rowsOf, type BlameRows } from "./rows";
import { DataTable, makeTitle, type Column } from "./table";

interface Part extends BlameHeads { id: string; title: string; first: number }

const kParts: Record<keyof BlameRows | "regions", Part> = {
  lines: { id: "by-line", title: "Python lines that ran", name: "line", detail: "function", first: 12 },
  types: { id: "by-type", title: "Objects that were written", name: "type", detail: "", first: 8 },
  native: { id: "by-native", title: "Native code that wrote", name: "symbol", detail: "module", first: 8 },
  regions: { id: "by-region", title: "Memory regions", name: "region", detail: "start", first: 8, sized: true },
};
const kProcessRows = 10;       // as many as the report lists for one process

function regionColumns(units: Units): Column<RegionRow>[] {
  const figure = (title: string, pages: (row: RegionRow) => number): Column<RegionRow> => {
    const bytes = (row: RegionRow): number | null => (units.pageBytes() === null ? null : pages(row) * (units.pageBytes() ?? 0));
    return { title, key: pages, text: (row) => (units.countsBytes() ? formatBytes(bytes(row)) : formatCount(pages(row))), csv: [{ head: `${title.replaceAll(" ", "_")}_bytes`, value: bytes }] };
  };
  const start = (row: RegionRow): string => `0x${row.start.toString(16)}`;
  return [
    { title: "region", className: "code name-cell", words: true, key: (row) => row.name, text: (row) => row.name },
    { title: "start", className: "code detail-cell", words: true, key: (row) => row.start, text: start, csv: [{ head: "start", value: start }] },
    figure("gained", (row) => row.gained), figure("private", (row) => row.privatePages),
    figure("new", (row) => row.newPages), figure("still shared", (row) => row.sharedPages),
  ];
}

class BlamePart {
  readonly element: HTMLElement;
  readonly table: DataTable<BlameRow>;
  private readonly empty = make("p", "empty");
  private readonly note = make("p", "note");

  constructor({ id, title, first, ...heads }: Part, units: Units) {
    this.table = new DataTable({ id, className: "blame", caption: title, columns: planBlameColumns(heads, units), sortBy: "share", first, keyOf: (row) => `${row.name}\0${row.detail}` });
    this.element = mark(make("div", "blame-box", makeTitle(title, this.table), this.table.element, this.empty, this.note), { id });
  }

  show(rows: BlameRow[], empty: string, note = ""): void {
    this.element.hidden = rows.length === 0 && empty === "";
    this.table.element.hidden = rows.length === 0;
    this.empty.textContent = rows.length === 0 ? empty : "";
    this.note.textContent = note;
    this.table.update(rows);
  }
}

// Of one process the report has the largest lines and types only, and no native code: that is summed from the stacks.
function rowsOfChosen(chosen: Chosen, weights: Float64Array): BlameRows & { cut: boolean } {
  const { page, pinned, span } = chosen;
  if (isWhole(chosen)) return { ...page.report, cut: false };
  const summed = rowsOf(page, weights);
  const row = span !== null || pinned === null ? undefined : [page.report.parent, ...page.report.workers].find((one) => one?.index === pinned.index || one?.pid === pinned.pid);
  if (row == null || row.lines.length + row.types.length === 0) return { ...summed, cut: false };
  return { types: row.types, lines: row.lines, native: summed.native, cut: true };
}

export class BlameTables {
  readonly element: HTMLElement;
  private readonly parts: Record<keyof typeof kParts, BlamePart>;
  private readonly regions: DataTable<RegionRow>;
  private readonly regionBox: HTMLElement;

  constructor(units: Units) {
    this.parts = { lines: new BlamePart(kParts.lines, units), types: new BlamePart(kParts.types, units), native: new BlamePart(kParts.native, units), regions: new BlamePart(kParts.regions, units) };
    this.regions = new DataTable({ id: "by-region-then", className: "blame", caption: "Memory regions at the end of the selection", columns: regionColumns(units), sortBy: "gained", first: 8, keyOf: (row) => String(row.start) });
    this.regionBox = mark(make("div", "blame-box", makeTitle("Memory regions, as the page map showed them", this.regions), this.regions.element), { id: "by-region-then" });
    this.element = make("div", "blame-grid", this.parts.lines.element, this.parts.types.element, this.parts.native.element, this.parts.regions.element, this.regionBox);
  }

  search(text: string): void {
    for (const part of Object.values(this.parts)) part.table.search(text);
    this.regions.search(text);
  }

  // `weights`: copies by place, of what is chosen.
  show(chosen: Chosen, weights: Float64Array): void {
    const rows = rowsOfChosen(chosen, weights);
    const { report } = chosen.page;
    const what = chosen.span === null ? chosen.label : `${chosen.label}, ${spanInWords(chosen.span)}`;
    for (const name of ["lines", "types", "native"] as const) {
      const recorded = report[name].length > 0 && !(rows.cut && name === "native");
      const note = rows.cut && name !== "native" && rows[name].length >= kProcessRows ? `The ${kProcessRows} largest of ${chosen.label}; the graph above has all.` : "";
      this.parts[name].show(rows[name], recorded ? `None known of ${what}.` : "", note);
    }
    const byReport = isWhole(chosen);
    this.parts.regions.show(byReport ? report.regions : [], "");
    const found = byReport ? [] : regionsWithin(chosen, chosen.span ?? [-Infinity, Infinity]);
    this.regionBox.hidden = found.length === 0;
    this.regions.update(found);
  }
}
