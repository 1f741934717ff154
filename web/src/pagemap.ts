// Owns the page map section: the address space of one process as a picture, a pixel a page, and the replay of the recording.
// Called by: main.ts makes it; the store tells it what is looked at.
// Does not: know the format of the data (mapmodel.ts), places (maplayout.ts) or pixels (mappaint.ts).
import "./map.css";
import { kCauseOrder, type Page, type Track } from "./decode";
import { make, makeButton, makeSection, mark } from "./dom";
import { exactnessInWords, formatBytes, formatClock, visibleText } from "./format";
import { CellCursor } from "./mapcell";
import { figuresOf, Legend, legendOf, makeRegionsTable, notesOf } from "./mapfigures";
import { makeLayout, type Layout } from "./maplayout";
import { buildModel, copiedPagesByProcess, type MapModel } from "./mapmodel";
import { Painter, type Palette } from "./mappaint";
import { makePicture, save } from "./mappicture";
import { calm, Replay } from "./mapreplay";
import type { Change, Store } from "./store";
import { colour, onTheme } from "./theme";

const kHeight = 600;        // CSS pixels that the map keeps to where it can
const kFlashShare = 0.06;   // of the replay: how long a fresh copy stands out
const kLead = "Every square is a page of memory, in the order of addresses: grey as long as it is not copied, then in the colour of the cause. Play shows how it went.";

function readPalette(): Palette {
  return {
    causes: kCauseOrder.map((cause) => colour(cause.replace("_", "-"))), flash: colour("map-flash"), shared: colour("map-shared"),
    new: colour("map-new"), private: colour("map-private"), text: colour("text"), muted: colour("muted"),
  };
}

function whatIsMissing(page: Page): string {
  if (page.processes.length === 0) return "No process was recorded, so there is no memory to draw.";
  if (page.report.copies === 0) return "Nothing was copied while this was recorded, so every page stayed as it was.";
  return `This recording does not say which pages were copied, only how many (${exactnessInWords(page.run.exactness)}). Pages are noted one by one where cowprof's probes of the kernel tell causes: “cowprof doctor” says what is missing for that.`;
}

class PageMap {
  readonly element = makeSection("map", "Page map", "");
  private model: MapModel | null = null;
  private layout: Layout | null = null;
  private painter: Painter | null = null;
  private chosen: number | null = null;   // index of the process that the reader chose here since the last pinning
  private own: number | null = null;      // where the scrubber was left; null: at the end
  private canvas = make("canvas", "map-canvas");
  private frame = mark(make("div", "map-frame", this.canvas), { tabindex: "0", role: "application", "aria-describedby": "map-summary" });
  private chooser = mark(make("select", "chooser"), { "aria-label": "Process of the page map" });
  private replay = new Replay((seconds) => this.moveTo(seconds));
  private cursor = new CellCursor(this.frame, this.canvas);
  private legend = new Legend();
  private figures = mark(make("p", "map-figures"), { id: "map-summary" });
  private notes = make("p", "map-notes");
  private empty = make("p", "empty");
  private table = make("details", "map-table", make("summary", "", "The regions as a table"));
  private dialog = mark(make("dialog", "map-dialog"), { "aria-label": "Page map" });
  private large = makeButton("map-button", "Large", () => this.toggleLarge());
  private body = make("div", "map-body");

  constructor(private store: Store) {
    const picture = makeButton("map-button", "Save picture", () => void this.savePicture());
    const head = make("div", "map-head", this.figures, make("label", "choose", "Process ", this.chooser));
    this.replay.element.append(this.large, picture);
    this.body.append(head, this.frame, this.replay.element, this.legend.element);
    this.element.append(make("p", "lead", kLead), this.empty, this.body, this.notes, this.table, this.dialog);
    this.chooser.addEventListener("change", () => {
      this.chosen = Number(this.chooser.value);
      this.load();
    });
    this.table.addEventListener("toggle", () => this.fillTable());
    this.dialog.addEventListener("close", () => this.leaveLarge());
    this.frame.addEventListener("keydown", (event) => {
      if (event.key !== " ") return;
      event.preventDefault();
      this.replay.toggle();
    });
    store.on((changed) => this.listen(changed));
    onTheme(() => this.restart());
    new ResizeObserver(() => this.fit()).observe(this.frame);
    addEventListener("resize", () => this.fit());
  }

  load(): void {
    const { page } = this.store;
    const sums = copiedPagesByProcess(page);
    const process = this.pick(page, sums);
    const something = process !== null && (sums.get(process.index) ?? 0) > 0;
    this.fillChooser(page, sums, process);
    this.empty.hidden = something;
    this.element.classList.toggle("map-nothing", !something);
    const any = [...sums.values()].some((pages) => pages > 0);
    this.empty.textContent = something ? "" : any ? "No copied page of this process was noted." : whatIsMissing(page);
    this.body.hidden = !any;
    this.frame.hidden = this.replay.element.hidden = this.legend.element.hidden = this.table.hidden = !something;
    this.model = something ? buildModel(page, process) : null;
    this.layout = null;
    this.notes.textContent = this.model === null ? "" : visibleText(notesOf(page, this.model).join(" "));
    if (this.model === null) {
      this.figures.replaceChildren();
      return;
    }
    this.frame.setAttribute("aria-label", `Page map of ${this.processName(this.model.process)}: arrow keys go from page to page, Home and End to the first and the last, space plays`);
    this.fit();
  }

  private pick(page: Page, sums: Map<number, number>): Track | null {
    const of = (index: number | null): Track | undefined => (index === null ? undefined : page.processes.find((process) => process.index === index));
    const most = [...page.processes].sort((a, b) => Number(a.role === "parent") - Number(b.role === "parent") || (sums.get(b.index) ?? 0) - (sums.get(a.index) ?? 0));
    return of(this.chosen) ?? of(this.store.view.pinned) ?? most.find((process) => (sums.get(process.index) ?? 0) > 0) ?? most[0] ?? null;
  }

  private processName(process: Track): string {
    return `${process.role} ${process.pid}`;
  }

  private fillChooser(page: Page, sums: Map<number, number>, process: Track | null): void {
    const pageBytes = page.run.pageBytes ?? 4096;
    this.chooser.replaceChildren(...page.processes.map((one) => mark(make("option", "", `${this.processName(one)}: ${formatBytes((sums.get(one.index) ?? 0) * pageBytes)} copied`), { value: String(one.index) })));
    if (process !== null) this.chooser.value = String(process.index);
  }

  private listen(changed: Set<Change>): void {
    if (changed.has("pinned")) this.chosen = null;
    if (changed.has("page") || changed.has("pinned")) return this.load();
    if (changed.has("cursor") && this.replay.playing && this.store.view.cursor !== this.own) this.replay.stop();
    if (changed.has("cursor") || changed.has("selection")) this.paint();
  }

  private moveTo(seconds: number | null): void {
    this.own = seconds;
    if (this.store.view.cursor === seconds) this.paint(); // else the store tells
    else this.store.set({ cursor: seconds });
  }

  // The time that the scrubber goes over: the process's life, or what of it is selected.
  private range(model: MapModel): [number, number] {
    const { selection } = this.store.view;
    const [from, to] = selection === null ? model.life : [Math.max(model.life[0], selection[0]), Math.min(model.life[1], selection[1])];
    return to > from ? [from, to] : [from, from + 0.001];
  }

  // A new layout, if the place it has is another one.
  private fit(): void {
    const { model } = this;
    const width = this.frame.clientWidth;
    if (model === null || width === 0) return;
    const around = this.dialog.open ? this.body.scrollHeight - this.canvas.offsetHeight + 24 : 0;
    const height = this.dialog.open ? Math.max(200, innerHeight - around) : kHeight;
    const scale = devicePixelRatio;
    const { layout } = this;
    if (layout !== null && layout.width === Math.floor(width * scale) && layout.scale === scale && this.fitted === height) return;
    this.fitted = height;
    this.layout = makeLayout(model, width, height, scale);
    this.restart();
  }
  private fitted = 0;

  private restart(): void {
    const { model, layout } = this;
    if (model === null || layout === null) return;
    [this.canvas.width, this.canvas.height] = [layout.width, layout.height];
    Object.assign(this.canvas.style, { width: `${layout.width / layout.scale}px`, height: `${layout.height / layout.scale}px` });
    const context = this.canvas.getContext("2d", { willReadFrequently: true });
    if (context === null) return;
    this.painter = new Painter(model, layout, context, readPalette());
    this.paint();
  }

  // From, to, and how long copies stand out: at the end nothing does, it is the result.
  private instant(model: MapModel): { from: number; to: number; flash: number } {
    const [from, to] = this.range(model);
    const at = Math.min(to, Math.max(from, this.store.view.cursor ?? this.own ?? to));
    return { from: this.store.view.selection === null ? -Infinity : from, to: at, flash: at >= to || calm.matches ? 0 : (to - from) * kFlashShare };
  }

  private paint(): void {
    const { model, painter, layout, store } = this;
    if (model === null || painter === null || layout === null) return;
    const { from, to, flash } = this.instant(model);
    painter.show(from, to, flash);
    const { copied, rest, words } = figuresOf(store.page, model, painter, to, store.view.selection === null ? null : [from, to]);
    this.figures.replaceChildren(make("strong", "", copied), ` ${rest}`);
    this.replay.show(this.range(model), to, words);
    this.legend.show(legendOf(model, painter));
    this.cursor.refresh({ model, layout, painter });
    if (this.table.open && !this.replay.playing) this.fillTable();
  }

  private fillTable(): void {
    this.table.querySelector(".scroll")?.remove();
    if (this.table.open && this.model !== null && this.painter !== null) this.table.append(makeRegionsTable(this.model, this.painter));
  }

  private toggleLarge(): void {
    if (this.dialog.open) return this.dialog.close();
    this.dialog.append(this.body);
    this.large.textContent = "Close";
    this.dialog.showModal();
    this.frame.focus();
    this.fit();
  }

  private leaveLarge(): void {
    this.large.textContent = "Large";
    this.notes.before(this.body);
    this.fit();
    this.large.focus();
  }

  private async savePicture(): Promise<void> {
    const { model, painter } = this;
    if (model === null || painter === null) return;
    const instant = this.instant(model);
    const palette = readPalette();
    const legend = new Map([...kCauseOrder.map((cause, i): [string, string] => [cause, palette.causes[i] as string]), ["rest-shared", palette.shared], ["rest-new", palette.new], ["rest-private", palette.private]]);
    const command = this.store.page.report.command;
    const words = {
      title: `Pages copied by ${this.processName(model.process)}`, subtitle: command === "" ? model.process.name : command,
      clock: `${formatClock(instant.to, 0.1)} of ${formatClock(this.range(model)[1], 0.1)}`,
      figures: figuresOf(this.store.page, model, painter, instant.to, this.store.view.selection).words, legend: legendOf(model, painter),
    };
    try {
      save(await makePicture(model, instant, words, { palette, back: colour("surface"), legend }), `cowprof-map-${model.process.pid}-${instant.to.toFixed(1)}s.png`);
    } catch (failure) {
      this.figures.textContent = visibleText(`The picture can't be saved: ${failure instanceof Error ? failure.message : String(failure)}.`);
    }
  }
}

export function makePageMap(store: Store): HTMLElement {
  const map = new PageMap(store);
  // After the first picture of the page: what is further down may come a moment later.
  requestAnimationFrame(() => setTimeout(() => map.load()));
  return map.element;
}
