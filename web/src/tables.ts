// Owns the tables of workers and of limits: their columns, and the link from a row to its line.
// Called by: main.ts, once.
// Does not: compute a figure; each cell spells one value of the report.
import { makeThinCauseBar } from "./causes";
import { make, makeBar, makeButton, makeSection, mark, ratioTone } from "./dom";
import { formatBytes, formatCount, formatQuantity, formatShare } from "./format";
import type { Page } from "./decode";
import type { Exit, Limit, Process } from "./report";
import type { Store } from "./store";
import { compareKeys, makeSortableHeads, type Sortable } from "./sorting";

interface ColumnSpec extends Sortable<Process> { text: (row: Process) => string; bar?: boolean }

export function exitInWords(exit: Exit | null, endedAt: number | null): string {
  if (exit === null) return endedAt === null ? "running" : "ended";
  const cause = exit.cause === "" ? "" : ` (${exit.cause})`;
  if (exit.kind === "signaled") return `killed by ${exit.signal || "a signal"}${cause}`;
  return `exit ${exit.code ?? "—"}${cause}`;
}

const kColumns: ColumnSpec[] = [
  { title: "pid", key: (row) => row.pid, text: (row) => (row.pid === null ? "—" : String(row.pid)) },
  { title: "role", key: (row) => row.role, text: (row) => row.role, words: true },
  { title: "index", key: (row) => row.index, text: (row) => formatCount(row.index) },
  { title: "copies", key: (row) => row.copies, text: (row) => formatCount(row.copies) },
  { title: "copied", key: (row) => row.copiedBytes, text: (row) => formatBytes(row.copiedBytes), bar: true },
  { title: "private", key: (row) => row.privateBytes, text: (row) => formatBytes(row.privateBytes) },
  { title: "peak", key: (row) => row.peakPrivateBytes, text: (row) => formatBytes(row.peakPrivateBytes) },
  { title: "still shared", key: (row) => row.stillSharedBytes, text: (row) => formatBytes(row.stillSharedBytes) },
  { title: "reuses", key: (row) => row.reuses, text: (row) => formatCount(row.reuses) },
  { title: "zero-fills", key: (row) => row.zeroFills, text: (row) => formatCount(row.zeroFills) },
  { title: "exit", key: (row) => exitInWords(row.exit, row.endedAt), text: (row) => exitInWords(row.exit, row.endedAt), words: true },
];

const kFirstSort = "copied"; // whoever ate the memory stands on top

function makeCell(spec: ColumnSpec, row: Process, most: number): HTMLElement {
  const cell = make("td", spec.words === true ? "words" : "number", spec.text(row));
  if (spec.words === true) mark(cell, { title: spec.text(row) });
  if (spec.bar === true && most > 0) cell.append(makeThinCauseBar(row.causes, (row.copiedBytes ?? 0) / most));
  if (spec.title === "exit" && row.exit?.kind === "signaled") cell.classList.add("bad");
  return cell;
}

// A pid can come back in a long recording: then the report's index decides.
function indexOf(row: Process, page: Page): number | null {
  return row.index ?? page.processes.find((track) => track.pid === row.pid)?.index ?? null;
}

function makeRow(row: Process, most: number, store: Store): HTMLTableRowElement {
  const line = make("tr");
  const index = indexOf(row, store.page);
  const choose = makeButton("row-button", row.pid === null ? "—" : String(row.pid), () => store.set({ pinned: store.view.pinned === index ? null : index }));
  mark(choose, { "aria-pressed": "false", "title": "Pin in the timeline" });
  store.on(() => mark(choose, { "aria-pressed": String(index !== null && store.view.pinned === index) }));
  const head = mark(make("th", "number", choose), { scope: "row" });
  line.append(head, ...kColumns.slice(1).map((spec) => makeCell(spec, row, most)));
  return line;
}

function workersLead(rows: Process[]): string {
  const count = rows.filter((row) => row.role === "worker").length;
  const others = rows.length - count;
  const why = rows.some((row) => row.causes !== null) ? " (the bar shows why, in the colours from above)" : "";
  const words = (count === 1 ? "One worker" : `${formatCount(count)} workers`) + (others === 0 ? "" : `, ${formatCount(others)} other process${others === 1 ? "" : "es"}`);
  return rows.length === 0 ? "" : `${words} and the parent: what each copied${why} and holds. Click a column to sort, a pid to pin it in the timeline.`;
}

export function makeWorkersSection(store: Store): HTMLElement {
  const { workers, parent } = store.page.report;
  const section = makeSection("workers", "Workers", workersLead(workers));
  if (workers.length === 0) section.append(make("p", "empty", "No workers were seen in this recording."));
  if (workers.length === 0 && parent === null) return section;
  const most = [...workers, ...(parent === null ? [] : [parent])].reduce((top, row) => Math.max(top, row.copiedBytes ?? 0), 0);
  const rows = workers.map((row) => ({ row, line: makeRow(row, most, store) }));
  const body = make("tbody", "workers", ...rows.map((entry) => entry.line));
  const top = make("tbody", "parent", parent === null ? null : makeRow(parent, most, store));
  const heads = makeSortableHeads(kColumns, kFirstSort, (order) => body.replaceChildren(...[...rows].sort((a, b) => order(a.row, b.row)).map((entry) => entry.line)));
  const table = make("table", "", make("caption", "", "Workers and their parent, one row each"), make("thead", "", make("tr", "", ...heads)), top, body);
  section.append(mark(make("div", "scroll", table), { tabindex: "0", role: "region", "aria-label": "Table of workers" }));
  return section;
}

function makeLimitRow(limit: Limit): HTMLElement {
  const ratio = make("td", `ratio ${ratioTone(limit.ratio)}`, makeBar(limit.ratio, ratioTone(limit.ratio)), make("span", "ratio-text", formatShare(limit.ratio)));
  return make(
    "tr", "",
    mark(make("th", "words", make("span", "limit-kind", limit.kind), " ", make("span", "limit-name", limit.name)), { scope: "row" }),
    make("td", "number", formatQuantity(limit.used, limit.unit)),
    make("td", "number", formatQuantity(limit.peak, limit.unit)),
    make("td", "number", limit.limit === null ? "no limit" : formatQuantity(limit.limit, limit.unit)),
    ratio,
  );
}

export function makeLimitsSection(limits: Limit[]): HTMLElement {
  const section = makeSection("limits", "Limits", "What bounds these processes, and how near they came.");
  if (limits.length === 0) {
    section.append(make("p", "empty", "No limit was found that bounds these processes."));
    return section;
  }
  const titles = ["limit on", "used", "peak", "limit", "used of the limit"];
  const heads = titles.map((title, i) => mark(make("th", i === 0 || i === 4 ? "words" : "number", title), { scope: "col" }));
  const rows = [...limits].sort((a, b) => compareKeys(a.ratio, b.ratio, -1)).map(makeLimitRow);
  const table = make("table", "", make("caption", "", "Limits, the nearest first"), make("thead", "", make("tr", "", ...heads)), make("tbody", "", ...rows));
  section.append(mark(make("div", "scroll", table), { tabindex: "0", role: "region", "aria-label": "Table of limits" }));
  return section;
}
