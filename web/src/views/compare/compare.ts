// Owns the comparison with another recording: how it is opened, and what is said, drawn and listed about both.
// Does not: judge, which cowprof did for two recordings in one page; read a file (file.ts), match rows (rows.ts) or draw (chart.ts).
import "./compare.css";
import { CompareChart } from "./chart";
import { readRecording } from "./file";
import { compareCauses, compareFigures, compareLines, compareTypes, signed, type Difference, type PageBytes } from "./rows";
import type { Comparison } from "../../data/comparison";
import type { Page } from "../../data/decode";
import { make, makeButton, makeSection, mark } from "../../ui/dom";
import { exactnessInWords, formatBytes, formatSeconds, visibleText } from "../../core/format";
import { workersInWords } from "../../core/processes";
import type { Store } from "../../store";
import { kRebuilt } from "../../ui/rerender";
import { DataTable, makeSearchBox, makeSwitch, makeTitle, type Column } from "../../ui/table";
import { makePathName } from "../../ui/path_name";

interface Other {
  page: Page;
  name: string;
}

const kNotJudged =
  "Not judged: two pages don't say whether their runs can be compared. Give both recordings to cowprof diff, or to cowprof view for a page with the verdict.";

function relative(row: Difference): number | null {
  return row.change === null || row.a === null || row.a === 0 ? null : row.change / row.a;
}

function planColumns([name, detail, lines]: string[]): Column<Difference>[] {
  const bytes = (title: string, key: (row: Difference) => number | null): Column<Difference> => ({
    title,
    key,
    text: (row) => (key(row) === 0 ? "none" : formatBytes(key(row))),
    csv: [{ head: `${title}_bytes`, value: key }],
  });
  const tone = (row: Difference): string =>
    row.alike === true ? "number" : (row.change ?? 0) < 0 ? "number less" : (row.change ?? 0) > 0 ? "number more-copied" : "number";
  const columns: Column<Difference>[] = [
    {
      title: name ?? "",
      words: true,
      key: (row) => row.name,
      text: (row) => row.name,
      fill: (row) => mark(make("th", "code name-cell", makePathName(row.name, row.path)), { title: row.name }),
    },
    { title: detail ?? "", words: true, className: "code detail-cell", key: (row) => row.detail, text: (row) => row.detail },
    { title: lines ?? "", words: true, className: "code lines-cell", key: (row) => row.lines, text: (row) => row.lines },
    bytes("A", (row) => row.a),
    bytes("B", (row) => row.b),
    {
      title: "change",
      key: (row) => (row.change === null ? null : Math.abs(row.change)),
      text: (row) => signed(row.change),
      fill: (row) => make("td", tone(row), signed(row.change)),
      csv: [{ head: "change_bytes", value: (row) => row.change }],
    },
    { title: "in %", key: relative, text: (row) => spellRelative(row), csv: [{ head: "change_ratio", value: relative }] },
  ];
  return columns.filter((column) => column.title !== "");
}

function spellRelative(row: Difference): string {
  const ratio = relative(row);
  if (ratio === null) return row.a === 0 && row.change !== null && row.change > 0 ? "new" : "—";
  return `${ratio < 0 ? "−" : ratio > 0 ? "+" : ""}${Math.abs(ratio * 100).toFixed(Math.abs(ratio) >= 0.0995 ? 0 : 1)} %`;
}

interface Part {
  id: string;
  title: string;
  heads: string[];
  rows: (a: Page, b: Page, comparison: Comparison | null) => Difference[];
}

const pageBytesOf = (a: Page, b: Page): PageBytes => ({
  a: a.run.pageBytes ?? b.run.pageBytes,
  b: b.run.pageBytes ?? a.run.pageBytes,
});
const seesLines = (comparison: Comparison | null): Comparison["seesLines"] => comparison?.seesLines ?? { a: false, b: false };

const kParts: Part[] = [
  {
    id: "compare-figures",
    title: "All workers together",
    heads: ["figure", "verdict"],
    rows: (a, b, comparison) => compareFigures(a.report, b.report, comparison),
  },
  {
    id: "compare-lines",
    title: "By Python function",
    heads: ["file", "function", "lines"],
    rows: (a, b, comparison) => compareLines(a.report, b.report, pageBytesOf(a, b), seesLines(comparison)),
  },
  {
    id: "compare-causes",
    title: "By cause",
    heads: ["cause"],
    rows: (a, b) => compareCauses(a.report, b.report, pageBytesOf(a, b)),
  },
  {
    id: "compare-types",
    title: "By type of object",
    heads: ["type"],
    rows: (a, b, comparison) => compareTypes(a.report, b.report, pageBytesOf(a, b), seesLines(comparison)),
  },
];

class DifferencePart {
  readonly element: HTMLElement;
  readonly table: DataTable<Difference>;
  private readonly note = make("p", "note");

  constructor(private readonly part: Part) {
    this.table = new DataTable<Difference>({
      id: part.id,
      className: "blame difference",
      caption: part.title,
      columns: planColumns(part.heads),
      sortBy: "change",
      first: 8,
      keyOf: (row) => `${row.name} ${row.detail}`,
    });
    this.element = mark(make("div", "blame-box", makeTitle(part.title, this.table), this.table.element, this.note), { id: part.id });
  }

  show(a: Page, b: Page, comparison: Comparison | null): void {
    const rows = this.part.rows(a, b, comparison);
    const missing = (["a", "b"] as const).find((side) => rows.every((row) => row[side] === null))?.toUpperCase();
    this.element.hidden = rows.length === 0;
    this.note.textContent = missing === undefined ? "" : `These figures are not known for ${missing}, so the change is not known either.`;
    this.table.update(rows);
  }
}

// `recordings`: what cowprof says of each recording of this side; empty: it compared none. `warnings`: that nothing else on the page shows.
function makeRun(letter: string, when: string, { page, name }: Other, recordings: string[], warnings: string[]): HTMLElement {
  const { report, run } = page;
  const facts = [
    formatSeconds(report.durationSeconds),
    `workers: ${workersInWords(report)}`,
    exactnessInWords(report.exactness || run.exactness),
  ];
  const started = run.started.replace(/^(\d{4}-\d\d-\d\d)T(\d\d:\d\d).*$/, "recorded $1 $2 UTC");
  const notes =
    recordings.length > 0 ? [...recordings, started] : [[...facts, started].filter((fact) => fact !== "").join(" · "), page.verdict];
  return make(
    "div",
    `compare-run run-${letter.toLowerCase()}`,
    make("p", "", make("strong", "", `${letter}, ${when}`), ` ${name}`),
    make("p", "command", report.command || "unknown command"),
    ...notes.filter((note) => note !== "").map((note) => make("p", "note", note)),
    ...warnings.map((text) => make("p", "warning", text)),
  );
}

class Compare {
  readonly section = makeSection("compare", "Before and after", "");
  readonly button: HTMLElement;
  private readonly alert = mark(make("p", "compare-alert"), { role: "alert" });
  private readonly saving = mark(make("p", "saving"), { id: "saving" });
  private readonly notes = make("ul", "doubts");
  private readonly runs = make("div", "compare-runs");
  private readonly chart = new CompareChart();
  private readonly parts = kParts.map((part) => new DifferencePart(part));
  private readonly which = make("p", "note");
  private readonly content: HTMLElement;
  private readonly input = mark(make("input", "compare-input"), {
    "type": "file",
    "accept": ".html,.htm,text/html",
    "id": "compare-file",
    "aria-label": "Compare with another cowprof page",
  });
  private other: Other | null = null;
  private swapped = false;
  private each = false;

  constructor(private readonly store: Store) {
    this.button = make(
      "span",
      "compare-choose",
      makeButton("compare-button", "Compare with…", () => this.input.click()),
      this.input,
    );
    mark(this.input, { hidden: "" });
    this.input.addEventListener("change", () => {
      void this.open(this.input.files?.[0]);
      this.input.value = "";
    });
    const lines = makeSwitch(
      "Lines",
      [
        ["Workers together", false],
        ["Each worker", true],
      ],
      false,
      (each) => {
        this.each = each;
        this.draw();
      },
    );
    const search = makeSearchBox("Search differences", (text) => {
      for (const part of this.parts) part.table.search(text);
    });
    this.content = make(
      "div",
      "",
      this.saving,
      this.notes,
      this.runs,
      make("div", "compare-legend", make("span", "key-a", "A"), make("span", "key-b", "B"), lines),
      this.chart.element,
      make("div", "table-tools", search),
      make("div", "blame-grid", ...this.parts.map((part) => part.element)),
      this.which,
    );
    this.section.append(this.alert, this.content);
    this.section.querySelector("h2")?.after(this.makeTools());
    this.followDrops();
    store.on((changed) => {
      if (changed.has("page")) this.show();
    });
    this.show();
  }

  compareWith(other: Other | null): void {
    this.other = other;
    this.alert.textContent = "";
    this.swapped = false;
    this.show();
  }

  private makeTools(): HTMLElement {
    const swap = makeButton("toggle", "Swap A and B", () => {
      this.swapped = !this.swapped;
      this.show();
    });
    const remove = makeButton("toggle compare-remove", "Remove comparison", () => {
      this.compareWith(null);
      this.button.querySelector("button")?.focus();
    });
    return make("div", "compare-tools", swap, remove);
  }

  // A file dropped beside a drop target would replace the page, so the whole page is one.
  private followDrops(): void {
    const holdsFiles = (event: DragEvent): boolean => event.dataTransfer?.types.includes("Files") === true;
    const follow = (event: DragEvent, over: boolean): void => {
      if (!holdsFiles(event)) return;
      event.preventDefault();
      document.documentElement.classList.toggle("dropping", over);
    };
    addEventListener("dragover", (event) => follow(event, true));
    addEventListener("dragleave", (event) => {
      if (event.relatedTarget === null) follow(event, false);
    });
    addEventListener("drop", (event) => {
      follow(event, false);
      if (holdsFiles(event)) void this.open(event.dataTransfer?.files[0]);
    });
  }

  private async open(file: File | undefined): Promise<void> {
    if (file === undefined) return;
    try {
      this.compareWith({ page: await readRecording(file), name: file.name });
      this.section.scrollIntoView({ block: "start" });
    } catch (failure) {
      this.alert.textContent = `Nothing to compare with: ${failure instanceof Error ? failure.message : "the file can't be read."}`;
      this.show();
    }
  }

  private pair(): [Other, Other] | null {
    const here = { page: this.store.page, name: "this page" };
    if (this.other === null) return null;
    return this.swapped ? [this.other, here] : [here, this.other];
  }

  private show(): void {
    const pair = this.pair();
    this.section.hidden = pair === null && this.alert.textContent === "";
    this.section.classList.toggle("only-alert", pair === null);
    this.content.hidden = pair === null;
    if (pair === null) return;
    const [a, b] = pair;
    const comparison = this.other?.page.comparisons[this.swapped ? 1 : 0] ?? null;
    this.content.classList.toggle("no-verdict", (comparison?.verdict ?? "") === "");
    this.saving.textContent = visibleText(comparison?.sentence ?? kNotJudged);
    const notes = comparison === null ? [] : [comparison.prediction, ...comparison.notes].filter((note) => note !== "");
    this.notes.replaceChildren(...notes.map((note) => make("li", "", note)));
    const warningsOf = (run: Other): string[] => (run.page === this.other?.page ? run.page.warnings : []);
    this.runs.replaceChildren(
      makeRun("A", "before", a, comparison?.a ?? [], warningsOf(a)),
      makeRun("B", "after", b, comparison?.b ?? [], warningsOf(b)),
    );
    const several = comparison !== null && comparison.a.length + comparison.b.length > 2;
    this.which.textContent = [
      "Functions, causes and types are of all processes, the parent included.",
      several
        ? "The verdict and the figures of the workers are of all recordings; the curves and the other tables are of the first recording of each side."
        : "",
      `Everything below shows ${this.swapped ? "B" : "A"}, this page's recording.`,
    ]
      .filter((sentence) => sentence !== "")
      .join(" ");
    for (const part of this.parts) part.show(a.page, b.page, comparison);
    this.draw();
  }

  // Waits for the next frame, when the section has a width.
  private draw(): void {
    requestAnimationFrame(() => {
      const pair = this.pair();
      if (pair !== null) this.chart.show([pair[0].page, pair[1].page], this.each);
    });
  }
}

// The section goes below the header, its button into the header's row, also after a live run rebuilt the header.
export function addCompare(store: Store, second: Page | undefined, main: HTMLElement): void {
  const compare = new Compare(store);
  const place = (): void => {
    if (!compare.button.isConnected) main.querySelector(".theme-button")?.before(compare.button);
  };
  main.firstElementChild?.after(compare.section);
  place();
  main.addEventListener(kRebuilt, place);
  if (second !== undefined) compare.compareWith({ page: second, name: "the second recording" });
}
