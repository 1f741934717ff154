// Owns the section that answers which code copied: the icicle, the search, and the tables, for what passes the filter.
// Does not: lay out or draw (icicle.ts), or know a table's columns (blame_tables.ts).
import "./who.css";
import { BlameTables } from "./blame_tables";
import { filterOf, isWhole, spanInWords, type Filter } from "../../core/filter";
import { make, makeButton, makeSection, mark } from "../../ui/dom";
import { formatShare } from "../../core/format";
import { Icicle } from "./icicle";
import { estimateInWords } from "../../core/footnotes";
import { measureSince } from "../../core/measure";
import { checkpointsOf, spanBetween, weighPlaces } from "../../core/spans";
import type { Span } from "../../core/column_values";
import { plantTree, seesCode, weighTree, type Levels, type StackTree } from "../../core/stacks";
import type { Store } from "../../store";
import { makeSearchBox, makeSwitch } from "../../ui/table";
import { followFilter } from "../../ui/follow_filter";

function makeToggle(name: string, title: string, on: boolean, apply: (on: boolean) => void): HTMLElement {
  const button = makeButton("toggle", name, () => {
    const pressed = button.getAttribute("aria-pressed") !== "true";
    mark(button, { "aria-pressed": String(pressed) });
    apply(pressed);
  });
  return mark(button, { "aria-pressed": String(on), title });
}

// `known`: the span of the figures, which is wider or narrower than the selected one as lines are recorded at intervals.
function whenInWords(selected: Span | null, known: Span | null): string {
  if (selected === null) return "over the whole recording";
  const [words, wanted] = [spanInWords(known), spanInWords(selected)];
  return words === wanted ? `from ${words}` : `from ${words} (lines are recorded at intervals; selected: ${wanted})`;
}

class Who {
  readonly element = makeSection("who", "Who did it", "");
  private readonly lead = make("p", "lead");
  private readonly empty = make("p", "empty");
  private readonly found = make("span", "found");
  private readonly workersButton: HTMLElement;
  private readonly unpin: HTMLButtonElement;
  private readonly graph: HTMLElement;
  private readonly icicle: Icicle;
  private readonly tables: BlameTables;
  private readonly levels: Levels = { native: true, types: true };
  private bytes = true;
  private workersOnly = false;
  private wanted = "";
  private planted: { places: unknown; tree: StackTree } | null = null;

  constructor(private readonly store: Store) {
    const countsBytes = (): boolean => this.bytes;
    this.icicle = new Icicle(countsBytes);
    this.tables = new BlameTables({ pageBytes: () => store.page.run.pageBytes, countsBytes });
    this.workersButton = makeToggle("workers only", "Leave out the parent and helpers", false, (on) => {
      this.workersOnly = on;
      this.show();
    });
    this.unpin = makeButton("unpin", "", () => store.set({ pinned: null }));
    this.graph = make("div", "who-graph", this.makeLevels(), this.icicle.element);
    this.element.append(this.lead, this.makeTools(), this.empty, this.graph, this.tables.element, make("p", "note estimate"));
    followFilter(store, () => this.show());
    this.show();
  }

  private makeTools(): HTMLElement {
    const units = makeSwitch(
      "Figures",
      [
        ["Bytes", true],
        ["Copies", false],
      ],
      true,
      (bytes) => {
        this.bytes = bytes;
        this.show();
      },
    );
    const search = makeSearchBox("Search functions, files, types, modules", (text) => this.search(text), this.found);
    return make("div", "who-tools", search, this.unpin, this.workersButton, units);
  }

  private makeLevels(): HTMLElement {
    const toggle = (name: string, title: string, level: keyof Levels): HTMLElement =>
      makeToggle(name, title, this.levels[level], (on) => {
        this.levels[level] = on;
        this.planted = null;
        this.icicle.reset();
        this.show();
      });
    const words = make(
      "span",
      "note",
      "Outermost call on top. Bold lines made copies themselves, pale ones only called them. The strip shows the causes, in the colours above. Click a box to zoom, Esc goes back.",
    );
    return make(
      "div",
      "who-levels",
      words,
      toggle("native code", "The native function that wrote, beneath each stack", "native"),
      toggle("types", "The type of the object that was written, beneath it", "types"),
    );
  }

  private search(text: string): void {
    this.wanted = text;
    const share = this.icicle.search(text);
    this.tables.search(text);
    this.found.textContent = share === null ? "" : `${formatShare(share)} matched`;
  }

  private tree(): StackTree {
    const { page } = this.store;
    if (this.planted?.places !== page.places) this.planted = { places: page.places, tree: plantTree(page, this.levels) };
    return this.planted.tree;
  }

  private show(): void {
    const { page } = this.store;
    const filter = filterOf(this.store.page, this.store.view, this.workersOnly);
    const start = performance.now();
    const checkpoints = checkpointsOf(page.blame, filter.span);
    const known = filter.span === null ? null : (spanBetween(page.blame, checkpoints) ?? filter.span);
    const weights = weighPlaces(page, checkpoints, filter.holds);
    const tree = this.tree();
    const weighed = weighTree(tree, page, weights);
    measureSince("icicle-sums", start);
    this.element.hidden =
      (page.report.copies ?? 0) === 0 &&
      page.places.length + page.report.lines.length + page.report.types.length + page.report.native.length + page.report.regions.length ===
        0;
    const when = whenInWords(filter.span, known);
    this.name(filter, when);
    const drawn = weighed.total > 0 && seesCode(page);
    this.graph.hidden = !drawn;
    this.empty.textContent = drawn ? "" : this.emptyWords(filter, when);
    if (drawn) this.icicle.show({ page, tree, weights: weighed });
    this.tables.show(filter, weights, known);
    if (this.wanted !== "") this.search(this.wanted);
  }

  private name(filter: Filter, when: string): void {
    const { report } = filter.page;
    const what = seesCode(filter.page) ? "Lines that made copies" : "What was copied";
    const estimated = [...report.lines, ...report.types, ...report.native].some((row) => row.estimated);
    this.lead.textContent = `${what} in ${filter.label}, ${when}${estimated && !isWhole(filter) ? "; estimated from samples" : ""}.`;
    this.unpin.hidden = filter.pinned === null;
    this.unpin.textContent = filter.pinned === null ? "" : `${filter.label} ×`;
    mark(this.unpin, { "aria-label": `Only ${filter.label} is shown. Show all processes.` });
    this.workersButton.hidden = filter.pinned !== null;
    const note = this.element.querySelector(".estimate");
    if (note !== null) note.textContent = isWhole(filter) ? estimateInWords(report) : "";
  }

  private emptyWords(filter: Filter, when: string): string {
    const { page } = filter;
    if ((page.report.copies ?? 0) > 0 && !seesCode(page))
      return "It is not known which lines made copies: the page map does not show that (cowprof doctor says what it takes).";
    if (page.places.length > 0) return `No line is known to have made copies in ${filter.label}, ${when}.`;
    if ((page.report.copies ?? 0) === 0) return "";
    return "No stacks were recorded: the recording was made --without stacks, or cowprof can't see on this host where a copy is made (cowprof doctor says why).";
  }
}

export function makeWhoSection(store: Store): HTMLElement {
  return new Who(store).element;
}
