// Owns each page's position on the map, in device pixels: arenas are squares, other regions ribbons, in lines from left to right.
// Does not: paint, or know which page is copied when.
import { formatBytes, formatCount } from "../../core/format";
import type { MapModel, Part, Stretch } from "./model";

const kMostCell = 8; // CSS pixels of a page's side, with its gap
const kTileGap = 3; // CSS pixels between two arenas; less if they are small
const kBarHeight = 2; // of the bar below a region, for what is only known as a count
const kHeadHeight = 24,
  kLabelHeight = 15;
const kFoldWidth = 7;
const kShortNames: Record<string, string> = { heap: "heap", mmap: "mapping", file: "file", stack: "stack", other: "elsewhere" };

interface Piece {
  stretch: Stretch;
  from: number;
  pages: number;
  columns: number;
  x: number;
  y: number;
  width: number;
}
interface Line {
  y: number;
  pieces: Piece[];
}
export interface Label {
  texts: string[];
  /* the first that fits */ x: number;
  y: number;
  width: number;
  strong: boolean;
}
export interface Layout {
  width: number;
  height: number;
  scale: number;
  cell: number;
  side: number;
  lines: Line[];
  labels: Label[];
  position: Int32Array; // of a cell: y * width + x
}

const isArena = (part: Part): boolean => part.kind === "pymalloc-arena";
const isTile = (piece: Piece, side: number): boolean => isArena(piece.stretch.part) && piece.stretch.part.pages <= side * side;

// An arena is filled row by row like text, so that a front of copies moves down; a ribbon is filled column by column, to the
// right.
function pageAt(piece: Piece, column: number, row: number, side: number): number {
  const page = isTile(piece, side) ? row * side + column : column * side + row;
  return page < piece.pages ? page : -1;
}

class Flow {
  lines: Line[] = [];
  labels: Label[] = [];
  y = 0;
  private x = 0;
  private labelled = false;
  private gap = 0;

  private least: number; // gap between two regions

  constructor(
    private model: MapModel,
    private width: number,
    private cell: number,
    private scale: number,
  ) {
    this.least = Math.round(Math.min(kTileGap, 1 + cell / scale) * scale);
  }

  group(title: string, unit: string, parts: Part[]): void {
    if (parts.length === 0) return;
    const pages = parts.reduce((sum, part) => sum + part.pages, 0);
    const text = `${title}  ·  ${formatCount(parts.length)} ${unit}${parts.length === 1 ? "" : "s"}, ${formatBytes(pages * this.model.pageBytes)}`;
    this.labels.push({ texts: [text, title], x: 0, y: this.y, width: this.width, strong: true });
    this.y += kHeadHeight * this.scale;
    this.labelled = !isArena(parts[0] as Part);
    this.gap = this.labelled ? this.least : this.gapOf(parts.length);
    this.open();
    for (const part of parts) this.add(part);
    this.y += this.pitch() + 6 * this.scale;
  }

  // If arenas take several lines, the gaps are stretched so that lines fill the map's width.
  private gapOf(tiles: number): number {
    const { least } = this;
    const tile = this.model.side * this.cell;
    const perLine = Math.floor((this.width + least) / (tile + least));
    return tiles > perLine && perLine > 1 ? Math.floor((this.width - perLine * tile) / (perLine - 1)) : least;
  }

  private pitch(): number {
    return this.model.side * this.cell + (kBarHeight + 1) * this.scale + this.least;
  }

  private open(): void {
    this.x = 0;
    if (this.labelled) this.y += kLabelHeight * this.scale;
    this.lines.push({ y: this.y, pieces: [] });
  }

  private wrap(): void {
    this.y += this.pitch();
    this.open();
  }

  private add(part: Part): void {
    const tile = isArena(part) && part.pages <= this.model.side ** 2;
    const least = (tile ? this.model.side : 1) * this.cell;
    if (this.x > 0 && this.x + least > this.width) this.wrap();
    const start = this.x;
    const line = this.lines.length;
    for (const stretch of part.stretches) this.addStretch(stretch, tile);
    if (this.labelled) {
      const room = (this.lines.length > line ? this.width : this.x) - start;
      const name = part.name || kShortNames[part.kind] || part.kind;
      this.labels.push({
        texts: [`${name}  ${formatBytes(part.pages * this.model.pageBytes)}`, name],
        x: start,
        y: (this.lines[line - 1] as Line).y - kLabelHeight * this.scale,
        width: room,
        strong: false,
      });
    }
    this.x += this.gap;
  }

  private addStretch(stretch: Stretch, tile: boolean): void {
    const { side } = this.model;
    let from = 0;
    while (from < stretch.pages) {
      const folded = stretch.firstCell < 0;
      const wanted = folded ? kFoldWidth * this.scale : this.cell * (tile ? side : 1);
      if (this.x > 0 && this.x + wanted > this.width) this.wrap();
      const columns = folded
        ? 1
        : tile
          ? side
          : Math.max(1, Math.min(Math.ceil((stretch.pages - from) / side), Math.floor((this.width - this.x) / this.cell)));
      const pages = folded ? stretch.pages : Math.min(stretch.pages - from, columns * side);
      const width = folded ? wanted : columns * this.cell;
      const line = this.lines.at(-1) as Line;
      line.pieces.push({ stretch, from, pages, columns, x: this.x, y: line.y, width });
      this.x += width;
      from += pages;
    }
  }
}

function flow(model: MapModel, width: number, cell: number, scale: number): Flow {
  const laid = new Flow(model, width, cell, scale);
  laid.group("Python's small objects", "pymalloc arena", model.parts.filter(isArena));
  laid.group(
    "Heap, mappings, files, stacks",
    "region",
    model.parts.filter((part) => !isArena(part)),
  );
  return laid;
}

export interface Room {
  width: number;
  height: number;
  scale: number;
} // CSS pixels; scale: device pixels in one

// The largest page size, in device pixels, with which the map fits the height; at least one CSS pixel.
export function fittingCell(model: MapModel, { width, height, scale }: Room): number {
  const least = Math.max(1, Math.round(scale));
  let cell = Math.max(least, Math.round(kMostCell * scale));
  while (cell > least && flow(model, Math.floor(width * scale), cell, scale).y > height * scale) cell--;
  return cell;
}

// The map is as high as pages of that size require.
export function makeLayout(model: MapModel, { width: cssWidth, scale }: Room, cell: number): Layout {
  const width = Math.max(1, Math.floor(cssWidth * scale));
  const laid = flow(model, width, cell, scale);
  const position = new Int32Array(model.cells);
  for (const line of laid.lines)
    for (const piece of line.pieces) if (piece.stretch.firstCell >= 0) placeCells(piece, position, { width, cell, side: model.side });
  return { width, height: Math.max(1, Math.ceil(laid.y)), scale, cell, side: model.side, lines: laid.lines, labels: laid.labels, position };
}

function placeCells(piece: Piece, position: Int32Array, { width, cell, side }: { width: number; cell: number; side: number }): void {
  const corner = piece.y * width + piece.x;
  const [across, along] = isTile(piece, side) ? [cell, cell * width] : [cell * width, cell];
  const first = piece.stretch.firstCell + piece.from;
  for (let page = 0; page < piece.pages; page++) position[first + page] = corner + (page % side) * across + Math.floor(page / side) * along;
}

export interface Spot {
  piece: Piece;
  page: number;
} // `page` is relative to the piece; -1 if the piece is folded

// What is under a point; null between regions.
export function spotAt(layout: Layout, x: number, y: number): Spot | null {
  let [low, high] = [0, layout.lines.length - 1];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if ((layout.lines[middle] as Line).y <= y) low = middle;
    else high = middle - 1;
  }
  const line = layout.lines[low];
  if (line === undefined || y < line.y || y >= line.y + layout.side * layout.cell) return null;
  const piece = line.pieces.find((one) => x >= one.x && x < one.x + one.width);
  if (piece === undefined) return null;
  if (piece.stretch.firstCell < 0) return { piece, page: -1 };
  const page = pageAt(piece, Math.floor((x - piece.x) / layout.cell), Math.floor((y - piece.y) / layout.cell), layout.side);
  return page < 0 ? null : { piece, page };
}
