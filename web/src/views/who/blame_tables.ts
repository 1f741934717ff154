// Owns the tables below the icicle: lines, types, native code and regions that pass the filter.
// Does not: sum (aggregate.ts, regions.ts), or format a row (blame_columns.ts, table.ts).
import type { BlameRow } from "../../data/blame";
import type { Span } from "../../core/column_values";
import { planBlameColumns, type BlameHeads, type Units } from "./blame_columns";
import { isWhole, spanInWords, type Filter } from "../../core/filter";
import { make, mark } from "../../ui/dom";
import { processOf } from "../../core/processes";
import { formatBytes, formatCount } from "../../core/format";
import { ofDifferentTimes, regionsOmittedInWords, regionsWithin, type RegionRow } from "../../core/regions";
import { aggregatePlaces, type BlameRows } from "../../core/aggregate";
import { seesCode } from "../../core/stacks";
import { DataTable, makeTitle, type Column } from "../../ui/table";

interface Part extends BlameHeads {
  id: string;
  title: string;
  first: number;
}

const kParts: Record<keyof BlameRows | "regions", Part> = {
  lines: { id: "by-line", title: "Python lines that ran", name: "line", detail: "function", first: 12 },
  types: { id: "by-type", title: "Objects on the copied pages", name: "type", detail: "", first: 8 },
  native: { id: "by-native", title: "Native code that wrote", name: "symbol", detail: "module", first: 8 },
  regions: { id: "by-region", title: "Memory regions", name: "region", detail: "start", first: 8, sized: true },
};
const kProcessRows = 10; // as many as the report lists for one process

function regionColumns(units: Units): Column<RegionRow>[] {
  const figure = (title: string, pages: (row: RegionRow) => number | null): Column<RegionRow> => {
    const bytes = (row: RegionRow): number | null => {
      const [count, size] = [pages(row), units.pageBytes()];
      return count === null || size === null ? null : count * size;
    };
    return {
      title,
      key: pages,
      text: (row) => (units.countsBytes() ? formatBytes(bytes(row)) : formatCount(pages(row))),
      csv: [{ head: `${title.replaceAll(" ", "_")}_bytes`, value: bytes }],
    };
  };
  const start = (row: RegionRow): string => `0x${row.start.toString(16)}`;
  return [
    { title: "region", className: "code name-cell", words: true, key: (row) => row.name, text: (row) => row.name },
    {
      title: "start",
      className: "code detail-cell",
      words: true,
      key: (row) => row.start,
      text: start,
      csv: [{ head: "start", value: start }],
    },
    figure("gained", (row) => row.gained),
    figure("private", (row) => row.privatePages),
    figure("new", (row) => row.newPages),
    figure("still shared", (row) => row.sharedPages),
  ];
}

class BlamePart {
  readonly element: HTMLElement;
  readonly table: DataTable<BlameRow>;
  private readonly empty = make("p", "empty");
  private readonly note = make("p", "note");

  constructor({ id, title, first, ...heads }: Part, units: Units) {
    this.table = new DataTable({
      id,
      className: "blame",
      caption: title,
      columns: planBlameColumns(heads, units),
      sortBy: "share",
      first,
      keyOf: (row) => `${row.name}\0${row.detail}`,
    });
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

// For a single process the report has only the largest lines and types, and no native code, which is summed from the stacks.
function rowsOfFilter(filter: Filter, weights: Float64Array): BlameRows & { cut: boolean } {
  const { page, pinned, span } = filter;
  if (isWhole(filter)) return { ...page.report, cut: false };
  const summed = aggregatePlaces(page, weights);
  const row = span !== null || pinned === null ? null : processOf(page.report, pinned);
  if (row === null || row.lines.length + row.types.length === 0) return { ...summed, cut: false };
  return { types: row.types, lines: row.lines, native: summed.native, cut: true };
}

export class BlameTables {
  readonly element: HTMLElement;
  private readonly parts: Record<keyof typeof kParts, BlamePart>;
  private readonly regions: DataTable<RegionRow>;
  private readonly regionBox: HTMLElement;
  private readonly regionNote = make("p", "note");

  constructor(units: Units) {
    this.parts = {
      lines: new BlamePart(kParts.lines, units),
      types: new BlamePart(kParts.types, units),
      native: new BlamePart(kParts.native, units),
      regions: new BlamePart(kParts.regions, units),
    };
    this.regions = new DataTable({
      id: "by-region-then",
      className: "blame",
      caption: "Memory regions, from the page map",
      columns: regionColumns(units),
      sortBy: "gained",
      first: 8,
      keyOf: (row) => String(row.start),
    });
    const regionTitle = makeTitle("Memory regions, from the page map", this.regions);
    this.regionBox = mark(make("div", "blame-box", regionTitle, this.regions.element, this.regionNote), { id: "by-region-then" });
    this.element = make(
      "div",
      "blame-grid",
      this.parts.lines.element,
      this.parts.types.element,
      this.parts.native.element,
      this.parts.regions.element,
      this.regionBox,
    );
  }

  search(text: string): void {
    for (const part of Object.values(this.parts)) part.table.search(text);
    this.regions.search(text);
  }

  // `weights`: copies by place that pass the filter; `known`: the span that they are of.
  show(filter: Filter, weights: Float64Array, known: Span | null): void {
    const rows = rowsOfFilter(filter, weights);
    const { report } = filter.page;
    const what = known === null ? filter.label : `${filter.label}, ${spanInWords(known)}`;
    for (const name of ["lines", "types", "native"] as const) {
      const recorded = report[name].length > 0 && !(rows.cut && name === "native");
      const note =
        rows.cut && name !== "native" && rows[name].length >= kProcessRows
          ? `The ${kProcessRows} largest of ${filter.label}${seesCode(filter.page) ? "; the graph above has all" : ""}.`
          : "";
      this.parts[name].show(rows[name], recorded ? `None known of ${what}.` : "", note);
    }
    const byReport = isWhole(filter);
    this.parts.regions.show(byReport ? report.regions : [], "");
    const found = byReport ? [] : regionsWithin(filter);
    this.regionBox.hidden = found.length === 0;
    this.regions.update(found);
    const held = ofDifferentTimes(filter)
      ? "What they held is shown only for a selection or a single process: they did not all live at one time."
      : "";
    this.regionNote.textContent = [held, regionsOmittedInWords(filter.page)].join(" ").trim();
  }
}
