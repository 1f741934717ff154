// Owns the map's pixels: which copy each page shows at an instant, and its colour. A step costs what it changes, in either
// direction.
// Does not: choose the instant, or lay out.
import { visibleText } from "../../core/format";
import { upperBound, lowerBound } from "../../core/search";
import type { Label, Layout } from "./layout";
import type { MapModel, Part, Stretch } from "./model";

const kAges = 5; // shades from just copied to at rest

// What is known about a region's pages that weren't seen being copied.
export type Rest = "shared" | "new" | "private";
export interface Palette {
  causes: string[];
  flash: string;
  shared: string;
  new: string;
  private: string;
  text: string;
  muted: string;
}
interface RegionState {
  rest: Rest;
  newShare: number;
  privateShare: number;
  seconds: number | null;
  newPages: number;
  privatePages: number;
  sharedPages: number;
  unseenPages: number;
}

const kGapFrom = 5; // CSS pixels: the least size of a page with a gap to the next
const kLeastUnseen = 4; // private pages; fewer may fall between a sweep and a record, even in small regions
export const kLeastBar = 0.03; // of a region; less is a page or two between a sweep and a record
const kFlash = 0.7; // share of the flash colour in a fresh copy; the cause's colour still shows

const kUncounted: RegionState = {
  rest: "shared",
  newShare: 0,
  privateShare: 0,
  seconds: null,
  newPages: 0,
  privatePages: 0,
  sharedPages: 0,
  unseenPages: 0,
};

function rgb(colour: string): [number, number, number] {
  const code = Number.parseInt(colour.replace("#", ""), 16);
  return [(code >> 16) & 255, (code >> 8) & 255, code & 255];
}

// A pixel as a canvas stores it on a little-endian machine; no browser runs on another.
function packed(colour: string, towards = colour, share = 0): number {
  const [from, to] = [rgb(colour), rgb(towards)];
  const [red, green, blue] = from.map((level, i) => Math.round(level + ((to[i] as number) - level) * share)) as [number, number, number];
  return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

export class Painter {
  readonly shown: number[]; // pages by number of the cause
  private lit: Int32Array; // the copy that a cell shows, or -1
  private window: [number, number] = [0, 0]; // copies that are shown
  private older: number[]; // copies before older[k] have at least age k
  private ends: Float64Array; // copies of all batches before this one
  private perStretch: Float64Array; // copied pages shown
  private stretchOf: Uint32Array; // of a cell
  private states = new Map<Part, RegionState>();
  private image: ImageData;
  private pixels: Uint32Array;
  private colours: Uint32Array; // by cause, then age
  private rests: Record<Rest, number>;
  private restOf: Rest[]; // by stretch: the state of its pages that aren't copied
  private side: number; // of a page, without the gap

  constructor(
    private model: MapModel,
    readonly layout: Layout,
    private context: CanvasRenderingContext2D,
    private palette: Palette,
  ) {
    this.shown = palette.causes.map(() => 0);
    this.lit = new Int32Array(model.cells).fill(-1);
    this.older = new Array<number>(kAges + 1).fill(0);
    this.ends = new Float64Array(model.batches.length + 1);
    this.perStretch = new Float64Array(model.stretches.length);
    this.stretchOf = new Uint32Array(model.cells);
    this.colours = Uint32Array.from(
      palette.causes.flatMap((colour) =>
        Array.from({ length: kAges + 1 }, (_, age) => packed(colour, palette.flash, kFlash * (1 - age / kAges))),
      ),
    );
    this.rests = { shared: packed(palette.shared), new: packed(palette.new), private: packed(palette.private) };
    this.restOf = model.stretches.map(() => "shared");
    this.side = layout.cell - (layout.cell >= kGapFrom * layout.scale ? Math.max(1, Math.round(layout.scale / 2)) : 0);
    this.index();
    this.drawStill();
    this.image = context.getImageData(0, 0, layout.width, layout.height);
    this.pixels = new Uint32Array(this.image.data.buffer);
    for (let cell = 0; cell < model.cells; cell++) this.paint(cell);
  }

  // Shows the copies of (from, to]; those of the last `flash` seconds before `to` are highlighted.
  show(from: number, to: number, flash: number): void {
    const upTo = (seconds: number): number => this.ends[upperBound(this.model.batches, seconds)] ?? 0;
    const begin = Number.isFinite(from) ? upTo(from) : 0;
    const end = Math.max(begin, upTo(to));
    const before = this.older;
    this.older = before.map((_, age) => (flash > 0 ? upTo(to - (flash * age) / kAges) : end));
    this.relight(begin, end);
    this.age(before);
    this.restate(to);
    this.context.putImageData(this.image, 0, 0);
    this.drawBars();
  }

  // The copy that a cell shows, or -1.
  copyOf(cell: number): number {
    return this.lit[cell] ?? -1;
  }

  stateOf(part: Part): RegionState {
    return this.states.get(part) ?? kUncounted;
  }

  // Copied pages that are shown, by part.
  copiedPages(): Map<Part, number> {
    const copied = new Map<Part, number>();
    this.model.stretches.forEach((stretch, i) =>
      copied.set(stretch.part, (copied.get(stretch.part) ?? 0) + (this.perStretch[i] as number)),
    );
    return copied;
  }

  private index(): void {
    const { copies, stretches } = this.model;
    for (let i = 0; i < copies.length; i++) (this.ends[(copies.batch[i] as number) + 1] as number)++;
    for (let i = 1; i < this.ends.length; i++) (this.ends[i] as number) += this.ends[i - 1] as number;
    stretches.forEach((stretch, i) => this.stretchOf.fill(i, stretch.firstCell, stretch.firstCell + stretch.pages));
  }

  // Moves the shown window from [first, last) to [begin, end), so that each page shows its latest copy in it.
  private relight(begin: number, end: number): void {
    const { cell, before } = this.model.copies;
    let [first, last] = this.window;
    if (end <= first || begin >= last) {
      for (let i = first; i < last; i++) this.light(cell[i] as number, -1);
      first = last = begin;
    }
    for (let i = last - 1; i >= end; i--) {
      const earlier = before[i] as number;
      if (this.lit[cell[i] as number] === i) this.light(cell[i] as number, earlier >= first ? earlier : -1);
    }
    for (let i = last; i < end; i++) this.light(cell[i] as number, i);
    for (let i = first; i < begin; i++) if (this.lit[cell[i] as number] === i) this.light(cell[i] as number, -1);
    for (let i = first - 1; i >= begin; i--) if (this.lit[cell[i] as number] === -1) this.light(cell[i] as number, i);
    this.window = [begin, end];
  }

  private light(cell: number, copy: number): void {
    const { cause } = this.model.copies;
    const old = this.lit[cell] as number;
    if (old >= 0) (this.shown[cause[old] as number] as number)--;
    if (copy >= 0) (this.shown[cause[copy] as number] as number)++;
    if (old >= 0 !== copy >= 0) (this.perStretch[this.stretchOf[cell] as number] as number) += copy >= 0 ? 1 : -1;
    this.lit[cell] = copy;
    this.paint(cell);
  }

  // Repaints the copies whose shade changed with their age.
  private age(before: number[]): void {
    const { cell } = this.model.copies;
    const [begin, end] = this.window;
    for (let age = 1; age <= kAges; age++) {
      const [old, now] = [before[age] as number, this.older[age] as number];
      for (let i = Math.max(begin, Math.min(old, now)); i < Math.min(end, Math.max(old, now)); i++)
        if (this.lit[cell[i] as number] === i) this.paint(cell[i] as number);
    }
  }

  private colourOf(cell: number): number {
    const copy = this.lit[cell] as number;
    if (copy < 0) return this.restColour(cell);
    let age = 0;
    while (age < kAges && copy < (this.older[age + 1] as number)) age++;
    return this.colours[(this.model.copies.cause[copy] as number) * (kAges + 1) + age] as number;
  }

  // Pages that aren't copies get a texture: stripes for new, a chequerboard for private pages of which only the count is known.
  private restColour(cell: number): number {
    const stretch = this.stretchOf[cell] as number;
    const rest = this.restOf[stretch] as Rest;
    if (rest === "shared") return this.rests.shared;
    const { firstCell, offset } = this.model.stretches[stretch] as Stretch;
    const page = offset + cell - firstCell;
    const line = Math.floor(page / this.model.side);
    return (rest === "new" ? line : line + (page % this.model.side)) % 2 === 0 ? this.rests[rest] : this.rests.shared;
  }

  private paint(cell: number): void {
    const { pixels, side } = this;
    const { width, position } = this.layout;
    const colour = this.colourOf(cell);
    let at = position[cell] as number;
    for (let row = 0; row < side; row++, at += width - side) for (let column = 0; column < side; column++) pixels[at++] = colour; // few pixels: fill() would cost more
  }

  // Derives each region's state from the last sweep before `seconds`, for pages that weren't seen being copied.
  private restate(seconds: number): void {
    const copied = this.copiedPages();
    for (const part of this.model.parts) {
      const counts = this.model.counts.get(part.number);
      const at = counts === undefined ? -1 : lowerBound(counts.seconds, seconds + 1e-9) - 1;
      const old = this.stateOf(part);
      if (counts === undefined || at < 0) {
        if (old !== kUncounted) this.states.delete(part);
      } else {
        const [newPages, privatePages, sharedPages] = [
          counts.newPages[at] as number,
          counts.privatePages[at] as number,
          counts.sharedPages[at] as number,
        ];
        const pages = Math.max(part.pages, (part.region?.bytes ?? 0) / this.model.pageBytes);
        const unseen = Math.max(0, privatePages - newPages - (copied.get(part) ?? 0));
        const rest: Rest = newPages > 0 && newPages >= privatePages + sharedPages ? "new" : unseen >= pages / 2 ? "private" : "shared";
        this.states.set(part, {
          rest,
          newShare: Math.min(1, newPages / pages),
          privateShare: unseen < kLeastUnseen ? 0 : Math.min(1, unseen / pages),
          seconds: counts.seconds[at] as number,
          newPages,
          privatePages,
          sharedPages,
          unseenPages: unseen,
        });
      }
      if (this.stateOf(part).rest !== old.rest) this.repaint(part);
    }
  }

  private repaint(part: Part): void {
    for (const { firstCell, pages } of part.stretches) {
      if (firstCell < 0) continue;
      this.restOf[this.stretchOf[firstCell] as number] = this.stateOf(part).rest;
      for (let cell = firstCell; cell < firstCell + pages; cell++) if (this.lit[cell] === -1) this.paint(cell);
    }
  }

  // Draws a bar below a region for what is only known as a count: its new and its private share.
  private drawBars(): void {
    const { layout, context } = this;
    const scale = layout.scale;
    for (const line of layout.lines) {
      for (const piece of line.pieces) {
        const state = this.stateOf(piece.stretch.part);
        if (state.rest !== "shared") continue;
        const y = line.y + layout.side * layout.cell + scale;
        context.fillStyle = this.palette.new;
        if (state.newShare >= kLeastBar) context.fillRect(piece.x, y, Math.max(scale, piece.width * state.newShare), 2 * scale);
        context.fillStyle = this.palette.private;
        if (state.privateShare >= kLeastBar)
          context.fillRect(piece.x + piece.width * state.newShare, y, Math.max(scale, piece.width * state.privateShare), 2 * scale);
      }
    }
  }

  // Draws what never changes: titles, names and the marks of folded stretches.
  private drawStill(): void {
    const { layout, context, palette } = this;
    context.clearRect(0, 0, layout.width, layout.height);
    for (const label of layout.labels) this.drawLabel(label);
    context.fillStyle = palette.muted;
    for (const line of layout.lines) {
      for (const piece of line.pieces) {
        if (piece.stretch.firstCell >= 0) continue;
        const [x, y, dot] = [piece.x + piece.width / 2, line.y + (layout.side * layout.cell) / 2, 1.5 * layout.scale];
        for (const step of [-1, 0, 1]) context.fillRect(x - dot / 2, y + step * 3 * dot - dot / 2, dot, dot);
      }
    }
  }

  private drawLabel(label: Label): void {
    const { context, palette, layout } = this;
    const size = (label.strong ? 12.5 : 10.5) * layout.scale;
    context.font = `${label.strong ? 600 : 400} ${size}px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif`;
    context.textBaseline = "alphabetic";
    context.fillStyle = label.strong ? palette.text : palette.muted;
    const text = label.texts.map(visibleText).find((one) => context.measureText(one).width <= label.width);
    if (text !== undefined) context.fillText(text, label.x, label.y + (label.strong ? 15 : 11) * layout.scale);
  }
}
