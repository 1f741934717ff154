// Owns the text around the map: how much was copied, the legend, what the picture can't show, the table of regions.
// Does not: count; the painter does.
import { causeName } from "../../core/causes";
import { valueAt } from "../../core/column_values";
import { regionsOmittedInWords } from "../../core/regions";
import { lastBefore } from "../../core/search";
import { kCauseOrder, type Page, type PageEvent, type Track } from "../../data/decode";
import { make, mark } from "../../ui/dom";
import { formatBytes, formatClock, formatCount, formatSeconds, formatShare } from "../../core/format";
import { hex, partName } from "./cell";
import { kMostCells, type MapModel, type Part } from "./model";
import { kLeastBar, type Painter, type Rest } from "./paint";

const kMostRows = 300;
const kRestNames: [Rest, string][] = [
  ["shared", "Not copied: shared, or not inspected"],
  ["new", "New since the fork"],
  ["private", "Private, exact pages unknown"],
];

interface Figures {
  copied: string;
  rest: string;
  words: string;
}
export interface LegendEntry {
  key: string;
  name: string;
  amount: string;
}

// What the process still shared at the last sample before that time; null if unknown.
function stillSharedBytes(page: Page, model: MapModel, seconds: number): number | null {
  const { columns, first } = model.process;
  const kib = valueAt(columns.stillShared.values, lastBefore(page.seconds, seconds + 1e-6) - first);
  return kib === null ? null : kib * 1024;
}

// A recording keeps a bounded number of copied pages.
function endOfMap(page: Page): PageEvent | undefined {
  return page.events.find((event) => event.kind === "note" && event.text.startsWith("the map of copied pages ends"));
}

// Whether copied pages are missing from the map, so that it must not be taken for all that was copied.
export function isPartial(page: Page): boolean {
  return endOfMap(page) !== undefined || page.pagesOmitted > 0 || page.report.pagesDropped > 0;
}

// What the process had copied by that time, whether or not the map has it; null if unknown.
export function copiedBytesAt(page: Page, { columns, first }: Track, seconds: number): number | null {
  const copies = valueAt(columns.copies.values, lastBefore(page.seconds, seconds + 1e-6) - first);
  return copies === null || page.run.pageBytes === null ? null : copies * page.run.pageBytes;
}

// "drawn, of 2.0 GiB copied by 4 processes; the map ends at 0:41"
function partInWords(page: Page, views: View[], seconds: number, by: string): string {
  const all = views.map(({ model }) => copiedBytesAt(page, model.process, seconds));
  const known = all.every((bytes) => bytes !== null);
  const end = endOfMap(page);
  const ends = end === undefined || end.seconds > seconds ? "" : `; the map ends at ${formatClock(end.seconds)}`;
  return `drawn, ${known ? `of ${formatBytes(all.reduce((sum, bytes) => sum + bytes, 0))} ` : ""}copied${by}${ends}`;
}

export interface View {
  model: MapModel;
  painter: Painter;
}

// For one process, or several together. Several may share pages with each other, so what they share is not summed.
export function figuresOf(page: Page, views: View[], seconds: number, selection: [number, number] | null): Figures {
  const copied = views.reduce((all, { model, painter }) => all + painter.shown.reduce((sum, pages) => sum + pages, 0) * model.pageBytes, 0);
  const shared = views.length === 1 && views[0] !== undefined ? stillSharedBytes(page, views[0].model, seconds) : null;
  const by = views.length > 1 ? ` by ${formatCount(views.length)} processes` : "";
  const part = isPartial(page) || views.some(({ model }) => model.beyond.regions > 0);
  const rest =
    selection !== null
      ? `recorded as copied from ${formatClock(selection[0], 0.1)} to ${formatClock(selection[1], 0.1)}${by}`
      : part
        ? partInWords(page, views, seconds, by)
        : shared === null
          ? `copied${by}`
          : `of ${formatBytes(copied + shared)} copied, ${formatShare(copied + shared > 0 ? copied / (copied + shared) : 0)}${by}`;
  return { copied: formatBytes(copied), rest, words: `${formatBytes(copied)} ${rest}` };
}

// Causes that ever occur, then the other kinds of pages, with the amounts shown now.
export function legendOf(views: View[]): LegendEntry[] {
  const entries = kCauseOrder.flatMap((key, cause) => {
    const occurs = views.some(({ model }) => model.occurring.has(cause));
    const bytes = views.reduce((sum, { model, painter }) => sum + (painter.shown[cause] ?? 0) * model.pageBytes, 0);
    return occurs ? [{ key, name: causeName(key), amount: formatBytes(bytes) }] : [];
  });
  const rests = kRestNames.flatMap(([rest, name]) => {
    const bytes = rest === "shared" ? 0 : views.reduce((sum, view) => sum + restBytes(view, rest), 0);
    return rest === "shared" || bytes > 0 ? [{ key: `rest-${rest}`, name, amount: bytes > 0 ? formatBytes(bytes) : "" }] : [];
  });
  return [...entries, ...rests];
}

// Counts only regions in which it is more than the page or two that fall between a sweep and a record.
function restBytes({ model, painter }: View, rest: "new" | "private"): number {
  const regions = new Map(model.parts.map((part) => [part.number, painter.stateOf(part)]));
  const pages = [...regions.values()].map((state) =>
    rest === "new" ? (state.newShare >= kLeastBar ? state.newPages : 0) : state.privateShare >= kLeastBar ? state.unseenPages : 0,
  );
  return pages.reduce((sum, count) => sum + count, 0) * model.pageBytes;
}

export class Legend {
  readonly element = mark(make("ul", "map-legend"), { "aria-label": "Colours of the page map" });
  private keys = "";

  show(entries: LegendEntry[]): void {
    const keys = entries.map((entry) => entry.key).join();
    if (keys !== this.keys) {
      this.element.replaceChildren(
        ...entries.map((entry) =>
          make(
            "li",
            "",
            mark(make("span", `map-swatch map-${entry.key}`), { "aria-hidden": "true" }),
            make("span", "", entry.name),
            make("span", "map-amount"),
          ),
        ),
      );
    }
    this.keys = keys;
    [...this.element.querySelectorAll(".map-amount")].forEach((amount, i) => (amount.textContent = entries[i]?.amount ?? ""));
  }
}

// Caveats about the picture, each only if it applies.
export function notesOf(page: Page, models: MapModel[]): string[] {
  const sum = (figure: (model: MapModel) => number): number => models.reduce((all, model) => all + figure(model), 0);
  const bound = endOfMap(page);
  const dropped = page.report.pagesDropped;
  const [regions, bytes] = [sum((model) => model.untouched.regions), sum((model) => model.untouched.pages * model.pageBytes)];
  const [beyond, beyondBytes] = [sum((model) => model.beyond.regions), sum((model) => model.beyond.pages * model.pageBytes)];
  const strays = sum((model) => model.parts.reduce((all, part) => all + (part.region === null ? part.copiedPages : 0), 0));
  const batches = models[0]?.batches ?? new Float64Array(); // those of all processes
  const gap = batches.reduce((most, seconds, i) => (i === 0 ? 0 : Math.max(most, seconds - (batches[i - 1] as number))), 0);
  return [
    bound === undefined ? "" : `At ${formatClock(bound.seconds)} ${bound.text}.`,
    page.pagesOmitted > 0 ? `${formatCount(page.pagesOmitted)} copied pages are not in this page: there are too many.` : "",
    regionsOmittedInWords(page),
    dropped > 0 ? `${formatCount(dropped)} copied pages are missing: they came faster than they could be recorded.` : "",
    regions > 0
      ? `Not drawn: ${formatCount(regions)} other region${regions === 1 ? "" : "s"} (${formatBytes(bytes)}), none of whose pages was copied.`
      : "",
    beyond > 0
      ? `Not drawn: ${formatCount(beyond)} region${beyond === 1 ? "" : "s"} (${formatBytes(beyondBytes)}), as a map has at most ${formatCount(kMostCells)} pages; copies in there are not counted here.`
      : "",
    strays > 0
      ? `${formatCount(strays)} copied pages lie outside every region that a sweep saw: a heap that grew, or a short-lived mapping.`
      : "",
    models.some((model) => model.counts.size > 0)
      ? "A bar below a region shows how much of it is new or private as of the last sweep, which only counts pages."
      : "",
    `A page lights up at the first record after its copy.${gap > 0 ? ` Records with copies are up to ${formatSeconds(gap)} apart.` : ""}`,
  ].filter((note) => note !== "");
}

function rowOf(name: string, start: string, parts: Part[], copied: Map<Part, number>): HTMLElement {
  const pages = parts.reduce((sum, part) => sum + part.pages, 0);
  const sum = parts.reduce((all, part) => all + (copied.get(part) ?? 0), 0);
  const figures = [formatCount(pages), formatCount(sum), formatShare(sum / pages)];
  return make(
    "tr",
    "",
    mark(make("th", "", name), { scope: "row" }),
    make("td", "code", start),
    ...figures.map((figure) => make("td", "number", figure)),
  );
}

// The picture as text, for readers who can't see it: arenas in one row, the others one by one.
export function makeRegionsTable({ model, painter }: View, name: string): HTMLElement {
  const copied = painter.copiedPages();
  const arenas = model.parts.filter((part) => part.kind === "pymalloc-arena");
  const others = model.parts.filter((part) => part.kind !== "pymalloc-arena").sort((a, b) => (copied.get(b) ?? 0) - (copied.get(a) ?? 0));
  const rows = others.slice(0, kMostRows).map((part) => rowOf(partName(part), hex(part.first * model.pageBytes), [part], copied));
  if (arenas.length > 0)
    rows.unshift(
      rowOf(`${formatCount(arenas.length)} pymalloc arenas`, `from ${hex((arenas[0] as Part).first * model.pageBytes)}`, arenas, copied),
    );
  if (others.length > kMostRows)
    rows.push(rowOf(`${formatCount(others.length - kMostRows)} more regions`, "", others.slice(kMostRows), copied));
  const head = ["Region", "Address", "Pages", "Copied", "Share"].map((name, i) =>
    mark(make("th", i > 1 ? "number" : "", name), { scope: "col" }),
  );
  return make(
    "div",
    "scroll",
    make("table", "", make("caption", "", `Regions of ${name}`), make("thead", "", make("tr", "", ...head)), make("tbody", "", ...rows)),
  );
}
