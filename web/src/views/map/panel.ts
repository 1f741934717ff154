// Owns the map of one process on the page: its canvas, painter, and the cursor that moves from page to page.
// Does not: choose process or instant.
import { make, mark } from "../../ui/dom";
import { CellCursor } from "./cell";
import { fittingCell, makeLayout, type Layout, type Room } from "./layout";
import type { MapModel } from "./model";
import { Painter, type Palette } from "./paint";

export interface Instant {
  from: number;
  to: number;
  flash: number;
}

export class MapPanel {
  readonly caption = make("p", "map-caption");
  readonly element: HTMLElement;
  painter: Painter | null = null;
  private layout: Layout | null = null;
  private canvas = make("canvas", "map-canvas");
  private frame = mark(make("div", "map-frame", this.canvas), { tabindex: "0", role: "application", "aria-describedby": "map-summary" });
  private cursor = new CellCursor(this.frame, this.canvas);

  constructor(
    public model: MapModel,
    readonly name: string,
    play: () => void,
  ) {
    this.element = make("div", "map-panel", this.caption, this.frame);
    mark(this.frame, {
      "aria-label": `Page map of ${name}: arrow keys move from page to page, Home and End to the first and the last, space plays`,
    });
    this.frame.addEventListener("keydown", (event) => {
      if (event.key !== " ") return;
      event.preventDefault();
      play();
    });
  }

  get width(): number {
    return this.frame.clientWidth;
  }

  get canvasHeight(): number {
    return this.canvas.offsetHeight;
  }

  focus(): void {
    this.frame.focus();
  }

  // The page size with which the map fits.
  fittingCell(room: Room): number {
    return fittingCell(this.model, room);
  }

  lay(room: Room, cell: number, palette: Palette): void {
    const layout = (this.layout = makeLayout(this.model, room, cell));
    Object.assign(this.canvas.style, { width: `${layout.width / layout.scale}px`, height: `${layout.height / layout.scale}px` });
    this.recolour(palette);
  }

  recolour(palette: Palette): void {
    const context = this.canvas.getContext("2d", { willReadFrequently: true });
    if (this.layout === null || context === null) return;
    [this.canvas.width, this.canvas.height] = [this.layout.width, this.layout.height];
    this.painter = new Painter(this.model, this.layout, context, palette);
  }

  show({ from, to, flash }: Instant): void {
    if (this.painter === null || this.layout === null) return;
    this.painter.show(from, to, flash);
    this.cursor.refresh({ model: this.model, layout: this.layout, painter: this.painter });
  }
}
