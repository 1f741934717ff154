// Owns the page map section: the address space of one process or of several as a picture, one square per page, and the
// replay of the recording.
// Does not: know the data's format (model.ts), positions (layout.ts) or pixels (paint.ts).
import "./map.css";
import { kCauseOrder, type Page, type Track } from "../../data/decode";
import { make, makeButton, makeSection, mark } from "../../ui/dom";
import { exactnessInWords, formatBytes, formatClock, visibleText } from "../../core/format";
import { copiedBytesAt, figuresOf, isPartial, Legend, legendOf, makeRegionsTable, notesOf, type View } from "./figures";
import { buildModel, copiedPagesByProcess } from "./model";
import type { Palette } from "./paint";
import { MapPanel, type Instant } from "./panel";
import { makePicture, save } from "./picture";
import { calm, Replay } from "./replay";
import type { Change, Store } from "../../store";
import { colour, onTheme } from "../../ui/theme";
import { causeColour } from "../../core/causes";
import { countInWords, processLabel } from "../../core/processes";

const kHeight = 600; // CSS pixels, kept if the pages stay visible
const kSeveralHeight = 800;
const kFlashShare = 0.06; // of the replay: how long a fresh copy is highlighted
const kMostPanels = 4;
const kTwoColumns = 700; // CSS pixels: the least width at which maps are side by side
const kSeveral = "several";
const kLead =
  "Every square is a page of memory, in address order: grey until it is copied, then in the colour of the cause. Press Play to watch it happen.";

function readPalette(): Palette {
  return {
    causes: kCauseOrder.map((cause) => colour(causeColour(cause))),
    flash: colour("map-flash"),
    shared: colour("map-shared"),
    new: colour("map-new"),
    private: colour("map-private"),
    text: colour("text"),
    muted: colour("muted"),
  };
}

function whatIsMissing(page: Page): string {
  if (page.processes.length === 0) return "No process was recorded, so there is no memory to draw.";
  if (page.report.copies === 0) return "Nothing was copied during this recording, so every page stayed as it was.";
  return `This recording does not say which pages were copied, only how many (${exactnessInWords(page.run.exactness)}). Single pages are recorded by cowprof's probes in the kernel: “cowprof doctor” says what they need on that host.`;
}

class PageMap {
  readonly element = makeSection("map", "Page map", "");
  private panels: MapPanel[] = [];
  private picked: string | null = null; // what the reader picked here since the last pin: an index, or kSeveral
  private own: number | null = null; // where the scrubber was left; null: at the end
  private fitted = ""; // the space that the maps were laid out for
  private chooser = mark(make("select", "chooser"), { "aria-label": "Process of the page map" });
  private maps = make("div", "map-panels");
  private replay = new Replay((seconds) => this.moveTo(seconds));
  private legend = new Legend();
  private figures = mark(make("p", "map-figures"), { id: "map-summary" });
  private notes = make("p", "map-notes");
  private empty = make("p", "empty");
  private table = make("details", "map-table", make("summary", "", "Regions as a table"));
  private dialog = mark(make("dialog", "map-dialog"), { "aria-label": "Page map" });
  private large = makeButton("map-button", "Large", () => this.toggleLarge());
  private body = make("div", "map-body");

  constructor(private store: Store) {
    this.replay.element.append(
      this.large,
      makeButton("map-button", "Save picture", () => void this.savePicture()),
    );
    this.body.append(
      make("div", "map-head", this.figures, make("label", "choose", "Process ", this.chooser)),
      this.maps,
      this.replay.element,
      this.legend.element,
    );
    this.element.append(make("p", "lead", kLead), this.empty, this.body, this.notes, this.table, this.dialog);
    this.chooser.addEventListener("change", () => {
      this.picked = this.chooser.value;
      this.load();
    });
    this.table.addEventListener("toggle", () => this.fillTable());
    this.dialog.addEventListener("close", () => this.leaveLarge());
    store.on((changed) => this.listen(changed));
    onTheme(() => this.recolour());
    new ResizeObserver(() => this.fit()).observe(this.maps);
    addEventListener("resize", () => this.fit());
  }

  load(): void {
    const { page } = this.store;
    const sums = copiedPagesByProcess(page);
    const copied = (process: Track): number => sums.get(process.index) ?? 0;
    const ranked = page.processes
      .filter((one) => copied(one) > 0)
      .sort((a, b) => Number(a.role === "parent") - Number(b.role === "parent") || copied(b) - copied(a));
    const several = ranked
      .filter((one) => one.role !== "parent")
      .slice(0, kMostPanels)
      .sort((a, b) => a.index - b.index);
    const shown = this.pick(page, ranked, several);
    const drawn = shown.filter((one) => copied(one) > 0);
    this.fillChooser(page, copied, several, shown);
    this.empty.textContent =
      drawn.length > 0 ? "" : ranked.length > 0 ? "No copied page of this process was recorded." : whatIsMissing(page);
    this.empty.hidden = drawn.length > 0;
    this.body.hidden = ranked.length === 0;
    for (const one of [this.maps, this.replay.element, this.legend.element, this.table, this.figures]) one.hidden = drawn.length === 0;
    this.fillPanels(drawn);
    this.maps.classList.toggle("several", drawn.length > 1);
    this.notes.textContent =
      drawn.length === 0
        ? ""
        : visibleText(
            notesOf(
              page,
              this.panels.map((panel) => panel.model),
            ).join(" "),
          );
    this.fitted = "";
    this.fit();
  }

  // In a live run the same processes get newer data: keep their panels, and with them focus and cursor.
  private fillPanels(processes: Track[]): void {
    const models = processes.map((process) => buildModel(this.store.page, process));
    const same =
      models.length === this.panels.length && models.every((model, i) => model.process.index === this.panels[i]?.model.process.index);
    if (same) return this.panels.forEach((panel, i) => (panel.model = models[i] ?? panel.model));
    this.panels = models.map((model) => new MapPanel(model, processLabel(model.process), () => this.replay.toggle()));
    this.maps.replaceChildren(...this.panels.map((panel) => panel.element));
  }

  // The process picked here, else the pinned one, else the one that copied most, the parent last.
  private pick(page: Page, ranked: Track[], several: Track[]): Track[] {
    if (this.picked === kSeveral) return several;
    const of = (index: number | null): Track | undefined =>
      index === null ? undefined : page.processes.find((process) => process.index === index);
    const one = of(this.picked === null ? null : Number(this.picked)) ?? of(this.store.view.pinned) ?? ranked[0] ?? page.processes[0];
    return one === undefined ? [] : [one];
  }

  private fillChooser(page: Page, copied: (process: Track) => number, several: Track[], shown: Track[]): void {
    const pageBytes = page.run.pageBytes ?? 4096;
    const partial = isPartial(page);
    const amount = (one: Track): string => {
      const drawn = copied(one) * pageBytes;
      if (!partial) return `${formatBytes(drawn)} copied`;
      const all = copiedBytesAt(page, one, Infinity);
      return `${drawn > 0 || all === 0 ? formatBytes(drawn) : "none"} drawn${all === null ? "" : `, of ${formatBytes(all)} copied`}`;
    };
    const options = page.processes.map((one) => [String(one.index), `${processLabel(one)}: ${amount(one)}`]);
    if (several.length > 1) options.push([kSeveral, `${countInWords(several)} side by side`]);
    if (this.chooser.options.length !== options.length) this.chooser.replaceChildren(...options.map(() => make("option")));
    options.forEach(([value = "", text = ""], i) => Object.assign(this.chooser.options[i] ?? {}, { value, text: visibleText(text) }));
    this.chooser.value = this.picked === kSeveral ? kSeveral : String(shown[0]?.index ?? "");
  }

  private listen(changed: Set<Change>): void {
    if (changed.has("pinned")) this.picked = null;
    if (changed.has("page") || changed.has("pinned")) return this.load();
    if (changed.has("cursor") && this.replay.playing && this.store.view.cursor !== this.own) this.replay.stop();
    if (changed.has("cursor") || changed.has("selection")) this.paint();
  }

  private moveTo(seconds: number | null): void {
    this.own = seconds;
    if (this.store.view.cursor === seconds)
      this.paint(); // otherwise the store notifies us
    else this.store.set({ cursor: seconds });
  }

  // The span of the scrubber: the processes' lifetimes, limited to the selection.
  private range(): [number, number] {
    const lives = this.panels.map((panel) => panel.model.life);
    const [first, last] = [Math.min(...lives.map(([from]) => from)), Math.max(...lives.map(([, to]) => to))];
    const [from, to] = this.store.view.selection ?? [first, last];
    return [Math.max(first, from), Math.max(first + 0.001, from + 0.001, Math.min(last, to))];
  }

  // Nothing is highlighted at the end, which is the result.
  private instant(): Instant {
    const { cursor, selection } = this.store.view;
    const [from, to] = this.range();
    const at = Math.min(to, Math.max(from, cursor ?? this.own ?? to));
    return { from: selection === null ? -Infinity : from, to: at, flash: at >= to || calm.matches ? 0 : (to - from) * kFlashShare };
  }

  // Lays the maps out again if the space changed, all with pages of one size.
  private fit(): void {
    const [first] = this.panels;
    if (first === undefined || this.maps.clientWidth === 0) return;
    this.maps.classList.toggle("columns", this.panels.length > 1 && this.maps.clientWidth >= kTwoColumns);
    const rows = this.maps.classList.contains("columns") ? Math.ceil(this.panels.length / 2) : 1;
    const around = this.dialog.open ? this.body.scrollHeight - first.canvasHeight * rows + 44 : 0;
    const height = (this.dialog.open ? Math.max(200, innerHeight - around) : this.panels.length > 1 ? kSeveralHeight : kHeight) / rows;
    const room = { width: first.width, height, scale: devicePixelRatio };
    if (this.fitted === Object.values(room).join()) return;
    this.fitted = Object.values(room).join();
    const cell = Math.min(...this.panels.map((panel) => panel.fittingCell(room)));
    for (const panel of this.panels) panel.lay(room, cell, readPalette());
    this.paint();
  }

  private recolour(): void {
    for (const panel of this.panels) panel.recolour(readPalette());
    this.paint();
  }

  private views(): View[] {
    return this.panels.flatMap(({ model, painter }) => (painter === null ? [] : [{ model, painter }]));
  }

  // Of the selection, what the picture shows.
  private selectionUntil(instant: Instant): [number, number] | null {
    return this.store.view.selection === null ? null : [instant.from, instant.to];
  }

  private paint(): void {
    const { store } = this;
    if (this.panels.length === 0) return;
    const instant = this.instant();
    const selection = this.selectionUntil(instant);
    for (const panel of this.panels) {
      panel.show(instant);
      const { model, painter } = panel;
      if (this.panels.length > 1 && painter !== null)
        panel.caption.textContent = visibleText(
          `${panel.name}: ${figuresOf(store.page, [{ model, painter }], instant.to, selection).words}`,
        );
    }
    const { copied, rest, words } = figuresOf(store.page, this.views(), instant.to, selection);
    this.figures.replaceChildren(make("strong", "", copied), ` ${rest}`);
    this.replay.show(this.range(), instant.to, words);
    this.legend.show(legendOf(this.views()));
    if (this.table.open && !this.replay.playing) this.fillTable();
  }

  private fillTable(): void {
    for (const old of this.table.querySelectorAll(".scroll")) old.remove();
    if (this.table.open) this.views().forEach((view, i) => this.table.append(makeRegionsTable(view, this.panels[i]?.name ?? "")));
  }

  private toggleLarge(): void {
    if (this.dialog.open) return this.dialog.close();
    this.dialog.append(this.body);
    this.large.textContent = "Close";
    this.dialog.showModal();
    this.panels[0]?.focus();
    this.fit();
  }

  private leaveLarge(): void {
    this.large.textContent = "Large";
    this.notes.before(this.body);
    this.fit();
    this.large.focus();
  }

  private async savePicture(): Promise<void> {
    const instant = this.instant();
    const palette = readPalette();
    const [first] = this.panels;
    if (first === undefined) return;
    const { page } = this.store;
    const one = this.panels.length === 1;
    const words = {
      title: `Pages copied by ${one ? first.name : countInWords(this.panels.map((panel) => panel.model.process))}`,
      subtitle: page.report.command || first.model.process.name,
      clock: `${formatClock(instant.to, 0.1)} of ${formatClock(this.range()[1], 0.1)}`,
      figures: figuresOf(page, this.views(), instant.to, this.selectionUntil(instant)).words.replace(/ by \d+ processes/, ""),
      legend: legendOf(this.views()),
    };
    const legend = new Map([
      ...kCauseOrder.map((cause, i): [string, string] => [cause, palette.causes[i] as string]),
      ["rest-shared", palette.shared],
      ["rest-new", palette.new],
      ["rest-private", palette.private],
    ]);
    const maps = this.panels.map(({ model, caption }) => ({ model, caption: one ? "" : (caption.textContent ?? "") }));
    try {
      save(
        await makePicture(maps, instant, words, { palette, back: colour("surface"), legend }),
        `cowprof-map-${one ? first.model.process.pid : kSeveral}-${instant.to.toFixed(1)}s.png`,
      );
    } catch (failure) {
      this.figures.textContent = visibleText(
        `The picture can't be saved: ${failure instanceof Error ? failure.message : String(failure)}.`,
      );
    }
  }
}

export function makePageMap(store: Store): HTMLElement {
  const map = new PageMap(store);
  // Loads when the page is idle after its first paint: the map is far down and can come a moment later.
  const load = (): void => map.load();
  requestAnimationFrame(() => ("requestIdleCallback" in globalThis ? requestIdleCallback(load, { timeout: 500 }) : setTimeout(load)));
  return map.element;
}
