// Owns one table: columns, sorting, text filter, the limit to the first rows, and copying as CSV.
// Does not: compute a figure, or build a row before it is shown; there may be thousands.
import { makeCopyButton } from "./clipboard";
import { spellCsv, type CsvCell } from "../core/csv";
import { make, makeButton, mark } from "./dom";
import { formatCount, visibleText } from "../core/format";
import type { Compare } from "../core/sorting";
import { type Sortable, makeSortableHeads } from "./sortable_heads";

const kMore = 100; // rows added per click; thousands at once would freeze the page

export interface Column<Row> extends Sortable<Row> {
  className?: string;
  text: (row: Row) => string;
  fill?: (row: Row) => HTMLElement; // builds the whole cell, if it is more than text
  csv?: { head: string; value: (row: Row) => CsvCell }[]; // defaults to title and key
}

interface TableSpec<Row> {
  id: string;
  className?: string;
  rowsClass?: string; // class of their tbody
  caption: string;
  columns: Column<Row>[]; // the first one is the row header
  sortBy: string; // title of the column sorted initially
  first: number; // rows shown before "more" is clicked
  keyOf: (row: Row) => string; // identifies a row across updates
  onTop?: (row: Row) => boolean; // pinned above the others, whatever the sorting
}

export class DataTable<Row> {
  readonly element: HTMLElement;
  readonly count = make("span", "filter-count");
  readonly copy: HTMLButtonElement; // placed by the caller, beside the title or in a toolbar
  private readonly top = make("tbody", "parent");
  private readonly body: HTMLTableSectionElement;
  private readonly more = makeButton("more", "", () => this.showMore());
  private readonly frame = make("div", "scroll short");
  private readonly made = new Map<Row, HTMLTableRowElement>();
  private rows: Row[] = [];
  private order: Compare<Row> = () => 0;
  private filter = "";
  private most: number; // rows shown

  constructor(private readonly spec: TableSpec<Row>) {
    this.most = spec.first;
    this.body = make("tbody", spec.rowsClass ?? "");
    const heads = makeSortableHeads(spec.columns, spec.sortBy, (order) => {
      this.order = order;
      this.show();
    });
    const table = make(
      "table",
      `data ${spec.className ?? ""} ${spec.id}`,
      make("caption", "", spec.caption),
      make("thead", "", make("tr", "", ...heads)),
      this.top,
      this.body,
    );
    mark(this.frame, { tabindex: "0", role: "region", "aria-label": spec.caption }).append(table);
    this.copy = mark(
      makeCopyButton("copy-all", "copy CSV", () => this.csv()),
      { "aria-label": `Copy the table as CSV: ${spec.caption}` },
    );
    this.element = make("div", "table-part", this.frame, this.more);
  }

  // Replaces the rows; keeps sorting, filter and focus.
  update(rows: Row[]): void {
    this.rows = rows;
    this.made.clear();
    const focused = this.focusedKey();
    this.show();
    if (focused !== null) this.focusAgain(focused);
  }

  // Shows the rows that contain the text in any column.
  search(text: string): void {
    const wanted = text.trim().toLowerCase();
    if (wanted === this.filter) return;
    this.filter = wanted;
    this.show();
  }

  private matching(): Row[] {
    const held =
      this.filter === ""
        ? this.rows
        : this.rows.filter((row) => this.spec.columns.some((column) => column.text(row).toLowerCase().includes(this.filter)));
    return [...held].sort(this.order);
  }

  private showMore(): void {
    this.most = this.most >= this.matching().length ? this.spec.first : this.most + kMore;
    this.show();
  }

  private moreWords(count: number): string {
    if (this.most >= count) return `Show the first ${formatCount(this.spec.first)}`;
    return this.most + kMore >= count ? `Show all ${formatCount(count)}` : `Show ${kMore} more of ${formatCount(count)}`;
  }

  private show(): void {
    const rows = this.matching();
    const above = rows.filter((row) => this.spec.onTop?.(row) === true);
    const below = above.length === 0 ? rows : rows.filter((row) => !above.includes(row));
    this.top.replaceChildren(...above.map((row) => this.line(row)));
    this.top.hidden = above.length === 0;
    this.body.replaceChildren(...below.slice(0, this.most).map((row) => this.line(row)));
    this.frame.classList.toggle("short", this.most <= this.spec.first);
    this.more.hidden = below.length <= this.spec.first;
    this.more.textContent = this.moreWords(below.length);
    this.count.textContent = this.filter === "" ? "" : `${formatCount(rows.length)} of ${formatCount(this.rows.length)} rows`;
    if (rows.length === 0 && this.rows.length > 0)
      this.body.append(
        make("tr", "", mark(make("td", "none", "No row contains that text."), { colspan: String(this.spec.columns.length) })),
      );
  }

  private csv(): string {
    const parts = this.spec.columns.flatMap((column) => column.csv ?? [{ head: column.title.replaceAll(" ", "_"), value: column.key }]);
    const cells = this.matching().map((row) => parts.map((part) => part.value(row)));
    return spellCsv(
      [parts.map((part) => part.head), ...cells].map((row) => row.map((cell) => (typeof cell === "string" ? visibleText(cell) : cell))),
    );
  }

  private line(row: Row): HTMLTableRowElement {
    const kept = this.made.get(row);
    if (kept !== undefined) return kept;
    const line = make("tr", "", ...this.spec.columns.map((column, i) => this.cell(column, row, i === 0)));
    mark(line, { "data-key": this.spec.keyOf(row) });
    this.made.set(row, line);
    return line;
  }

  private cell(column: Column<Row>, row: Row, heads: boolean): HTMLElement {
    const name = `${column.words === true ? "words" : "number"} ${column.className ?? ""}`.trim();
    const cell = column.fill?.(row) ?? make(heads ? "th" : "td", name, column.text(row));
    if (column.words === true && !cell.hasAttribute("title")) mark(cell, { title: column.text(row) });
    return heads ? mark(cell, { scope: "row" }) : cell;
  }

  private focusedKey(): string | null {
    const focused = document.activeElement;
    return focused !== null && (this.body.contains(focused) || this.top.contains(focused))
      ? (focused.closest("tr")?.dataset["key"] ?? null)
      : null;
  }

  private focusAgain(key: string): void {
    const line = [...this.top.rows, ...this.body.rows].find((row) => row.dataset["key"] === key);
    line?.querySelector("button")?.focus({ preventScroll: true });
  }
}

// A table's title, with the number of matching rows and the copy button beside it.
export function makeTitle<Row>(title: string, { count, copy }: DataTable<Row>): HTMLElement {
  return make("div", "table-title", make("h3", "", title), count, copy);
}

// A text box that passes on what is typed; `results` show the outcome beside it.
export function makeSearchBox(label: string, apply: (text: string) => void, ...results: HTMLElement[]): HTMLElement {
  const box = mark(make("input", "search-box"), {
    "type": "search",
    "placeholder": label,
    "aria-label": label,
    "spellcheck": "false",
    "autocomplete": "off",
  });
  box.addEventListener("input", () => apply(box.value));
  for (const result of results) mark(result, { "aria-live": "polite" });
  return make("span", "search", box, ...results);
}

// A group of buttons, exactly one of which is pressed.
export function makeSwitch<Value>(label: string, entries: [string, Value][], first: Value, apply: (value: Value) => void): HTMLElement {
  const group = mark(make("span", "switch"), { "role": "group", "aria-label": label });
  for (const [name, value] of entries) {
    const button = makeButton("switch-entry", name, () => {
      for (const other of group.children) mark(other, { "aria-pressed": String(other === button) });
      apply(value);
    });
    group.append(mark(button, { "aria-pressed": String(value === first) }));
  }
  return group;
}
