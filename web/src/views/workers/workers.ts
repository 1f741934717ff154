// Owns the table of processes: what each copied and holds, at the end or within a selected span.
// Uses the report's figures for the whole recording, and the columns' values for a selected span.
import "./workers.css";
import { spanInWords } from "../../core/filter";
import { exitInWords, isWorker, processesOf, trackOf } from "../../core/processes";
import type { Page } from "../../data/decode";
import { make, makeButton, makeSection, mark } from "../../ui/dom";
import { formatBytes, formatCount } from "../../core/format";
import type { Process, Report } from "../../data/report";
import type { Store } from "../../store";
import { DataTable, makeSearchBox, type Column } from "../../ui/table";
import { type Span, valueAt, gainOf, causesWithin } from "../../core/column_values";
import { lastBefore } from "../../core/search";
import { makeThinCauseBar } from "../../ui/cause_bar";
import { followFilter } from "../../ui/follow_filter";

const kFirst = 1000;
const kFew = 6; // with fewer rows there is no search box

// What a process copied within the span and held at its end. Figures without a column are unknown.
function processWithin(page: Page, process: Process, [from, to]: Span): Process {
  const track = trackOf(page, process);
  if (track === null) return process;
  const { columns, first } = track;
  const [start, end] = [Math.max(0, lastBefore(page.seconds, from) - first), lastBefore(page.seconds, to) - first];
  const bytesAt = (values: Float64Array): number | null => {
    const kib = end < 0 || (track.ended !== null && track.ended <= to) ? null : valueAt(values, end);
    return kib === null ? null : kib * 1024;
  };
  const held = columns.private.values.subarray(start, Math.max(start, end + 1)).filter((kib) => !Number.isNaN(kib));
  const copies = gainOf(columns.copies.values, first, page, [from, to]);
  const ended = track.ended !== null && track.ended <= to;
  return {
    ...process,
    copies,
    copiedBytes: copies === null || page.run.pageBytes === null ? null : copies * page.run.pageBytes,
    privateBytes: bytesAt(columns.private.values),
    peakPrivateBytes: held.length === 0 ? null : held.reduce((most, kib) => Math.max(most, kib)) * 1024,
    stillSharedBytes: bytesAt(columns.stillShared.values),
    reuses: null,
    zeroFills: null,
    causes: causesWithin(track.causes, first, page, [from, to]),
    exit: ended ? process.exit : null,
    endedAt: ended ? process.endedAt : null,
  };
}

const bytes = (title: string, key: (row: Process) => number | null): Column<Process> => ({
  title,
  key,
  text: (row) => formatBytes(key(row)),
  csv: [{ head: `${title.replaceAll(" ", "_")}_bytes`, value: key }],
});
const count = (title: string, key: (row: Process) => number | null): Column<Process> => ({
  title,
  key,
  text: (row) => formatCount(key(row)),
});

// Never a few: a report lists thousands that have ended.
function unlistedInWords({ unlisted }: Report): string {
  if (unlisted === null) return "";
  const copied = unlisted.copiedBytes === null ? "" : ` Together they copied ${formatBytes(unlisted.copiedBytes)}.`;
  return `${formatCount(unlisted.processes)} more processes that have ended are not listed, and the flame graph lacks them.${copied}`;
}

class Workers {
  readonly element = makeSection("workers", "Workers", "");
  private readonly lead = make("p", "lead");
  private readonly empty = make("p", "empty");
  private readonly unlisted = make("p", "note");
  private readonly table: DataTable<Process>;
  private readonly search: HTMLElement;
  private most = 0;

  constructor(private readonly store: Store) {
    this.table = new DataTable<Process>({
      id: "workers-table",
      rowsClass: "workers",
      caption: "Workers and their parent, one row each",
      columns: this.planColumns(),
      sortBy: "copied",
      first: kFirst,
      keyOf: (row) => `${row.index ?? ""} ${row.pid ?? ""}`,
      onTop: (row) => row === store.page.report.parent || row.role === "parent",
    });
    this.search = makeSearchBox("Search workers", (text) => this.table.search(text), this.table.count);
    this.element.append(this.lead, make("div", "table-tools", this.search, this.table.copy), this.empty, this.table.element, this.unlisted);
    followFilter(store, () => this.show());
    this.show();
  }

  private planColumns(): Column<Process>[] {
    const exit = (row: Process): string => {
      const end = this.store.view.selection?.[1] ?? Infinity;
      return (row.startedAt ?? 0) > end ? "not started yet" : exitInWords(row.exit, row.endedAt);
    };
    return [
      { title: "pid", key: (row) => row.pid, text: (row) => (row.pid === null ? "—" : String(row.pid)), fill: (row) => this.makePin(row) },
      { title: "role", key: (row) => row.role, text: (row) => row.role, words: true },
      count("index", (row) => row.index),
      count("copies", (row) => row.copies),
      {
        ...bytes("copied", (row) => row.copiedBytes),
        fill: (row) =>
          make(
            "td",
            "number",
            formatBytes(row.copiedBytes),
            this.most > 0 ? makeThinCauseBar(row.causes, (row.copiedBytes ?? 0) / this.most) : null,
          ),
      },
      bytes("private", (row) => row.privateBytes),
      bytes("peak", (row) => row.peakPrivateBytes),
      bytes("still shared", (row) => row.stillSharedBytes),
      count("reuses", (row) => row.reuses),
      count("zero-fills", (row) => row.zeroFills),
      {
        title: "exit",
        key: exit,
        text: exit,
        words: true,
        fill: (row) => mark(make("td", row.exit?.kind === "signaled" ? "words bad" : "words", exit(row)), { title: exit(row) }),
      },
    ];
  }

  private makePin(row: Process): HTMLElement {
    const track = trackOf(this.store.page, row);
    const pinned = track !== null && this.store.view.pinned === track.index;
    const button = makeButton("row-button", row.pid === null ? "—" : String(row.pid), () =>
      this.store.set({ pinned: pinned ? null : (track?.index ?? null) }),
    );
    return make(
      "th",
      "number",
      mark(button, { "aria-pressed": String(pinned), "title": "Show only this process; click again to show all" }),
    );
  }

  private show(): void {
    const { page, view } = this.store;
    const all = processesOf(page.report);
    const span = view.selection;
    const rows = span === null ? all : all.map((row) => processWithin(page, row, span));
    this.most = rows.reduce((most, row) => Math.max(most, row.copiedBytes ?? 0), 0);
    this.lead.textContent = this.words(page.report.workers, span);
    this.empty.textContent = page.report.workers.length === 0 ? "No workers were seen in this recording." : "";
    this.unlisted.textContent = unlistedInWords(page.report);
    this.table.element.hidden = rows.length === 0;
    this.search.hidden = rows.length < kFew;
    this.table.copy.hidden = rows.length === 0;
    this.table.update(rows.map((row) => ({ ...row })));
  }

  private words(rows: Process[], span: Span | null): string {
    if (rows.length === 0) return "";
    const workers = rows.filter(isWorker).length;
    const others = rows.length - workers;
    const why = rows.some((row) => row.causes !== null) ? " (the bar shows why, in the colours above)" : "";
    const who =
      (workers === 1 ? "One worker" : `${formatCount(workers)} workers`) +
      (others === 0 ? "" : `, ${formatCount(others)} other process${others === 1 ? "" : "es"}`);
    const when = span === null ? "what each copied and holds" : `what each copied from ${spanInWords(span)}, and held at the end of it`;
    return `${who} and the parent: ${when}${why}. Click a column to sort, a pid to show one process only.`;
  }
}

export function makeWorkersSection(store: Store): HTMLElement {
  return new Workers(store).element;
}
