// Owns one table of blame: rows by type, line, native code or region, sorted, cut to the largest, and copyable.
// Called by: why.ts, once for each table and each choice of a process.
// Does not: compute a figure, or make a row's elements before it is shown: there may be a thousand.
import type { BlameRow } from "./blame";
import { causesInWords, makeThinCauseBar } from "./causes";
import { makeCopyButton } from "./clipboard";
import { make, makeButton, mark } from "./dom";
import { formatBytes, formatCount, formatShare, formatUncertainty, shortenPath, visibleText } from "./format";
import { makeSortableHeads, type Compare, type Sortable } from "./sorting";

const kPathLetters = 54;
const kPathLettersNarrow = 29;
const kPiece = 100;            // rows laid out in one frame

interface Column extends Sortable<BlameRow> { className: string; text: (row: BlameRow) => string; fill?: (row: BlameRow) => HTMLElement }
export interface TableSpec {
  id: string;
  title: string;
  name: string;                // head of the first column
  detail: string;              // head of the second; "" where there is none
  sized?: boolean;             // rows have a size of their own, of which a part was copied
  first: number;               // rows shown before one asks for all
  pageBytes: number | null;
}

// Where there is no room the folder gives way; file and line stay.
function makeName(row: BlameRow): HTMLElement {
  if (row.path === "") return make("span", "name", make("span", "folder", row.name));
  const path = shortenPath(row.path, innerWidth < 800 ? kPathLettersNarrow : kPathLetters);
  const file = path.lastIndexOf("/") + 1;
  return make("span", "name", make("span", "folder", path.slice(0, file)), make("span", "file", path.slice(file) + row.name.slice(row.path.length)));
}

function shareText(row: BlameRow): string {
  const uncertain = row.estimated && row.uncertainty !== null && row.share !== null;
  return formatShare(row.share) + (uncertain ? ` ${formatUncertainty(row.uncertainty ?? 0, row.share)}` : "");
}

function makeShareCell(row: BlameRow): HTMLElement {
  const [share = "", uncertain = ""] = shareText(row).split(" ±");
  const figures = make("span", "share-figures", make("span", "", share), uncertain === "" ? null : make("span", "uncertain", ` ±${uncertain}`));
  return make("td", "share-cell", make("span", "share-pair", makeThinCauseBar(row.causes, row.share), figures));
}

function planColumns(spec: TableSpec): Column[] {
  const bytes = (row: BlameRow): number | null => row.bytes ?? (row.copies === null || spec.pageBytes === null ? null : row.copies * spec.pageBytes);
  const size = (row: BlameRow): number | null => (row.pages === null || spec.pageBytes === null ? null : row.pages * spec.pageBytes);
  const columns: Column[] = [
    { title: spec.name, className: "code name-cell", words: true, key: (row) => row.name, text: (row) => row.name },
    { title: spec.detail, className: "code detail-cell", words: true, key: (row) => row.detail, text: (row) => row.detail },
    { title: "copied", className: "number", key: bytes, text: (row) => formatBytes(bytes(row)) },
    { title: "of", className: "number", key: size, text: (row) => formatBytes(size(row)) },
    { title: "share", className: "", key: (row) => row.share, text: shareText, fill: makeShareCell },
  ];
  return columns.filter((column) => column.title !== "" && (column.title !== "of" || spec.sized === true));
}

export class BlameTable {
  readonly element: HTMLElement;
  private readonly columns: Column[];
  private readonly body = make("tbody");
  private readonly made = new Map<BlameRow, HTMLElement>();
  private readonly more: HTMLButtonElement;
  private readonly frame: HTMLElement;
  private sorted: BlameRow[];
  private shown: BlameRow[] = [];
  private all = false;

  constructor(private readonly spec: TableSpec, rows: BlameRow[]) {
    this.columns = planColumns(spec);
    this.sorted = rows;
    this.more = makeButton("more", "", () => this.toggle());
    const heads = makeSortableHeads(this.columns, "share", (order) => this.sort(order));
    const head = make("thead", "", make("tr", "", ...heads));
    this.frame = make("div", "scroll short", make("table", `blame ${spec.id}`, make("caption", "", spec.title), head, this.body));
    mark(this.frame, { tabindex: "0", role: "region", "aria-label": spec.title });
    const copy = makeCopyButton("copy-all", "copy all", () => this.sorted.map((row) => this.line(row)).join("\n"));
    this.element = make("div", "blame-part", copy, this.frame, this.more);
  }

  private sort(order: Compare<BlameRow>): void {
    this.sorted = [...this.sorted].sort(order);
    this.show();
  }

  private toggle(): void {
    this.all = !this.all;
    this.frame.classList.toggle("short", !this.all);
    this.show();
  }

  private show(): void {
    const count = this.sorted.length;
    this.body.replaceChildren();
    this.append(this.sorted.slice(0, this.all ? count : this.spec.first), 0);
    this.more.hidden = count <= this.spec.first;
    this.more.textContent = this.all ? `Show the first ${this.spec.first}` : `Show all ${formatCount(count)}`;
  }

  // A piece a frame; a newer order takes over from an older one that is still being laid out.
  private append(rows: BlameRow[], from: number): void {
    this.shown = rows;
    this.body.append(...rows.slice(from, from + kPiece).map((row) => this.row(row)));
    if (from + kPiece < rows.length) requestAnimationFrame(() => { if (this.shown === rows) this.append(rows, from + kPiece); });
  }

  // What is copied: all cells as text, with the whole path.
  private line(row: BlameRow): string {
    return this.columns.map((column) => visibleText(column.text(row))).join("\t");
  }

  private row(row: BlameRow): HTMLElement {
    const kept = this.made.get(row);
    if (kept !== undefined) return kept;
    const line = make("tr", "", ...this.columns.map((column, i) => (i === 0 ? this.head(row) : this.cell(column, row))));
    this.made.set(row, line);
    return line;
  }

  private head(row: BlameRow): HTMLElement {
    const name = make("th", "code name-cell", makeName(row), makeCopyButton("", "copy", () => this.line(row)));
    return mark(name, { scope: "row", title: row.name });
  }

  private cell(column: Column, row: BlameRow): HTMLElement {
    if (column.fill !== undefined) return column.fill(row);
    const cell = make("td", column.className, column.text(row));
    if (column.words === true) return mark(cell, { title: row.detail });
    return row.causes === null ? cell : mark(cell, { title: `${formatCount(row.copies)} copies: ${causesInWords(row.causes)}` });
  }
}
