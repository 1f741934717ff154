// Owns the page under the pointer or the keyboard cursor: the frame around it, and the tip with what is known about it.
// Does not: paint the map.
import { causeName } from "../../core/causes";
import { kCauseOrder } from "../../data/decode";
import { make, mark } from "../../ui/dom";
import { formatBytes, formatClock, formatCount } from "../../core/format";
import { spotAt, type Layout, type Spot } from "./layout";
import type { MapModel, Part } from "./model";
import type { Painter } from "./paint";

const kKinds: Record<string, string> = {
  "pymalloc-arena": "pymalloc arena",
  "heap": "heap",
  "mmap": "anonymous mapping",
  "file": "file",
  "stack": "stack",
  "other": "memory that no sweep saw as a region",
};
const kLeastBox = 7; // CSS pixels

interface Shown {
  model: MapModel;
  layout: Layout;
  painter: Painter;
}

export function hex(address: number): string {
  return `0x${address.toString(16)}`;
}

export function partName(part: Part): string {
  const kind = kKinds[part.kind] ?? part.kind;
  return part.name === "" ? kind : part.name.startsWith("[") ? part.name : `${kind} ${part.name}`;
}

// A page lights up at the first record after its copy, so it was copied between that record and the previous one.
function when(model: MapModel, copy: number): string {
  const batch = model.copies.batch[copy] as number;
  const [to, from] = [model.batches[batch] as number, model.batches[batch - 1] ?? model.life[0]];
  return from < to
    ? `between ${formatClock(Math.max(from, model.life[0]), 0.1)} and ${formatClock(to, 0.1)}`
    : `until ${formatClock(to, 0.1)}`;
}

const kRests = {
  new: "New since the fork: not copied",
  private: "Private, but the cause was not seen",
  shared: "Not copied: shared, or not inspected",
};

function stateLines({ model, painter }: Shown, part: Part, cell: number): string[] {
  const copy = painter.copyOf(cell);
  if (copy >= 0) return [`Copied: ${causeName(kCauseOrder[model.copies.cause[copy] as number] ?? "unknown")}`, when(model, copy)];
  const ever = model.copies.cell.subarray(0, model.copies.length).indexOf(cell);
  if (ever < 0) return [kRests[painter.stateOf(part).rest]];
  return [
    "Not copied at this time",
    `Copied ${when(model, ever)}: ${causeName(kCauseOrder[model.copies.cause[ever] as number] ?? "unknown")}`,
  ];
}

function sweepLine({ painter }: Shown, part: Part): string[] {
  const { seconds, privatePages, sharedPages, newPages } = painter.stateOf(part);
  if (seconds === null) return [];
  return [
    `Sweep at ${formatClock(seconds, 0.1)}: ${formatCount(privatePages)} private${newPages > 0 ? ` (${formatCount(newPages)} new)` : ""}, ${formatCount(sharedPages)} shared`,
  ];
}

// The tip's lines: first the state, then the region.
function linesOf(shown: Shown, { piece, page }: Spot): string[] {
  const { stretch } = piece;
  const { part } = stretch;
  const bytes = shown.model.pageBytes;
  const from = part.region?.start ?? part.first * bytes;
  if (page < 0)
    return [
      `${formatCount(stretch.pages)} pages without copies, folded (${formatBytes(stretch.pages * bytes)})`,
      `${partName(part)} at ${hex(from)}`,
    ];
  const offset = stretch.offset + piece.from + page;
  const address = (part.first + offset) * bytes;
  const number = Math.floor((address - from) / bytes) + 1;
  const [state = "", ...times] = stateLines(shown, part, stretch.firstCell + piece.from + page);
  return [
    state,
    `${partName(part)} at ${hex(from)}`,
    `page ${formatCount(number)} of ${formatCount(Math.round((part.region?.bytes ?? part.pages * bytes) / bytes))}, ${hex(address)}`,
    ...times,
    ...sweepLine(shown, part),
  ];
}

export class CellCursor {
  private box = mark(make("div", "map-cell"), { "aria-hidden": "true", hidden: "" });
  private tip = mark(make("div", "map-tip"), { "aria-hidden": "true", hidden: "" });
  private spoken = mark(make("p", "map-unseen"), { "aria-live": "polite" });
  private at: [number, number] | null = null; // device pixels, within the page
  private shown: Shown | null = null;

  constructor(
    private frame: HTMLElement,
    canvas: HTMLCanvasElement,
  ) {
    frame.append(this.box, this.tip, this.spoken);
    canvas.addEventListener("pointermove", (event) => this.point(event));
    canvas.addEventListener("pointerdown", (event) => this.point(event));
    canvas.addEventListener("pointerleave", () => this.hide());
    frame.addEventListener("keydown", (event) => this.press(event));
    frame.addEventListener("blur", () => this.hide());
  }

  // Call after the map was repainted: what is under the cursor may have changed.
  refresh(shown: Shown): void {
    if (this.shown?.layout !== shown.layout) this.hide();
    this.shown = shown;
    if (this.at !== null) this.showAt(this.at);
  }

  hide(): void {
    this.at = null;
    this.box.hidden = this.tip.hidden = true;
  }

  private point(event: PointerEvent): void {
    const scale = this.shown?.layout.scale ?? 1;
    this.showAt([event.offsetX * scale, event.offsetY * scale]);
  }

  private showAt([x, y]: [number, number]): boolean {
    const spot = this.shown === null ? null : spotAt(this.shown.layout, x, y);
    if (this.shown === null || spot === null) {
      this.hide();
      return false;
    }
    this.at = [x, y];
    this.place(spot, this.shown.layout);
    const lines = linesOf(this.shown, spot);
    this.tip.replaceChildren(...lines.map((line, i) => make("p", i === 0 ? "map-tip-head" : "", line)));
    this.placeTip();
    return true;
  }

  private place({ piece, page }: Spot, layout: Layout): void {
    const { scale, side, cell } = layout;
    let [x, y, width, height] = [piece.x / scale, piece.y / scale, piece.width / scale, (side * cell) / scale];
    if (page >= 0) {
      const position = layout.position[piece.stretch.firstCell + piece.from + page] as number;
      [x, y] = [(position % layout.width) / scale, Math.floor(position / layout.width) / scale];
      width = height = cell / scale;
    }
    const grow = Math.max(0, kLeastBox - width) / 2 + 1;
    Object.assign(this.box.style, {
      left: `${x - grow}px`,
      top: `${y - grow}px`,
      width: `${width + 2 * grow}px`,
      height: `${height + 2 * grow}px`,
    });
    this.box.hidden = this.tip.hidden = false;
  }

  // Places the tip beside the page, on the side with room.
  private placeTip(): void {
    const { offsetLeft, offsetTop, offsetWidth, offsetHeight } = this.box;
    const [width, height] = [this.tip.offsetWidth, this.tip.offsetHeight];
    const right = offsetLeft + offsetWidth + 12;
    const left = right + width <= this.frame.clientWidth ? right : Math.max(0, offsetLeft - width - 12);
    const below = left === 0 && right + width > this.frame.clientWidth; // no room on either side: below it
    const top = below ? offsetTop + offsetHeight + 12 : Math.min(offsetTop - 8, Math.max(0, this.frame.clientHeight - height));
    Object.assign(this.tip.style, { left: `${left}px`, top: `${top}px` });
  }

  private press(event: KeyboardEvent): void {
    const steps: Record<string, [number, number]> = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const step = steps[event.key];
    const { shown } = this;
    if (event.key === "Escape" && this.at !== null) {
      event.stopPropagation();
      event.preventDefault();
      return this.hide();
    }
    if (
      shown === null ||
      (step === undefined && event.key !== "Home" && event.key !== "End") ||
      event.altKey ||
      event.ctrlKey ||
      event.metaKey
    )
      return;
    event.preventDefault();
    event.stopPropagation();
    if (step === undefined || this.at === null) this.jump(event.key === "End" ? shown.model.cells - 1 : 0, shown.layout);
    else for (let count = event.shiftKey ? shown.layout.side : 1; count > 0; count--) this.walk(step, shown.layout);
    if (this.at !== null) this.spoken.textContent = [...this.tip.children].map((line) => line.textContent).join(". ");
  }

  private jump(cell: number, layout: Layout): void {
    const position = layout.position[cell];
    if (position === undefined) return;
    this.showAt([(position % layout.width) + layout.cell / 2, Math.floor(position / layout.width) + layout.cell / 2]);
  }

  // Moves to the next page in that direction, across gaps; stays at the edge.
  private walk([right, down]: [number, number], layout: Layout): void {
    let [x, y] = this.at ?? [0, 0];
    const before = spotAt(layout, x, y);
    for (;;) {
      x += right * layout.cell;
      y += down * layout.cell;
      if (x < 0 || y < 0 || x >= layout.width || y >= layout.height) return;
      const spot = spotAt(layout, x, y);
      if (spot === null || (spot.piece === before?.piece && spot.page === before.page)) continue;
      this.showAt([x, y]);
      return;
    }
  }
}
