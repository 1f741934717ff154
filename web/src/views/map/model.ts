// Owns the page map's model of one process: the parts of its address space, and the pages copied in them, in time order.
// Does not: draw, or guess the state of a page that wasn't seen being copied; the sweeps only give counts.
import { lowerBound } from "../../core/search";
import { kCauseOrder, type Page, type Region, type Track } from "../../data/decode";
import { countsOf, rangesOf, type Counts, type Range, type Run } from "./regions";

const kMostPages = 2 ** 21; // twice what a recording keeps; more means damage
export const kMostCells = 2 ** 24; // 64 GiB in pages of 4 KiB; a browser can hold as many
const kFoldColumns = 8; // the fewest columns without a copied page that are folded

const kGroups = ["pymalloc-arena", "heap", "mmap", "file", "stack", "other"];
const kUnknownCause = kCauseOrder.indexOf("unknown");

// A piece of the address space within one region; `region` is null if no sweep saw one there.
export interface Part {
  region: Region | null;
  number: number;
  kind: string;
  name: string;
  first: number;
  pages: number; // of the page size
  stretches: Stretch[];
  cells: number; // how many of its pages are drawn
  copiedPages: number; // ever
}

// Pages of a part that are drawn (cells firstCell, firstCell + 1, ...), or folded because none is ever copied (-1).
export interface Stretch {
  part: Part;
  offset: number;
  pages: number;
  firstCell: number;
}

// One entry per copied page, in time order; `before` is the entry of an earlier copy of the same page, or -1.
interface Copies {
  length: number;
  cell: Int32Array;
  cause: Uint8Array;
  batch: Uint16Array;
  before: Int32Array;
}

export interface MapModel {
  process: Track;
  pageBytes: number;
  parts: Part[]; // by group, then address; regions without a copied page only if they are arenas
  side: number; // pages in a column: an arena is a square
  stretches: Stretch[];
  cells: number; // those that are drawn, in the order of their cells
  copies: Copies;
  batches: Float64Array; // the seconds at which pages were recorded
  occurring: Set<number>; // numbers of the causes of copies
  counts: Map<number, Counts>; // by number of the region
  untouched: { regions: number; pages: number };
  beyond: { regions: number; pages: number }; // too many to draw
  life: [number, number];
}

export function copiedPagesByProcess(page: Page): Map<number, number> {
  const [index, pages] = [page.pages.index.values, page.pages.pages.values];
  const sums = new Map<number, number>();
  index.forEach((process, i) => sums.set(process, (sums.get(process) ?? 0) + (pages[i] || 0)));
  return sums;
}

function batchTimes(page: Page): Float64Array {
  const times = page.pages.timesMs.values;
  const batches = times
    .filter((ms, i) => ms >= 0 && ms !== times[i - 1])
    .sort()
    .map((ms) => ms / 1000);
  return batches.filter((seconds, i) => seconds !== batches[i - 1]);
}

// The runs of one process, without damaged ones (unknown or absurd figures).
function runsOf(page: Page, index: number, batches: Float64Array): Run[] {
  const columns = page.pages;
  const [times, indices, causes, firsts, lengths] = [
    columns.timesMs.values,
    columns.index.values,
    columns.cause.values,
    columns.firstPage.values,
    columns.pages.values,
  ];
  const number = new Map([...batches].map((seconds, i) => [seconds, i]));
  const runs: Run[] = [];
  let sum = 0;
  for (let i = 0; i < indices.length; i++) {
    if (indices[i] !== index) continue;
    const [first = NaN, pages = NaN, batch] = [firsts[i], lengths[i], number.get((times[i] as number) / 1000)];
    if (!(first >= 0 && pages > 0 && sum + pages <= kMostPages) || batch === undefined || batch > 0xffff) continue;
    sum += pages;
    const cause = causes[i] as number;
    runs.push({ batch, cause: cause >= 0 && cause < kCauseOrder.length ? cause : kUnknownCause, first, pages });
  }
  return runs.sort((a, b) => a.batch - b.batch);
}

// The median arena size gives the side of its square: 1 MiB since CPython 3.10, 256 KiB before.
function sideOf(ranges: Range[], most = 16): number {
  const sizes = ranges
    .filter((range) => range.kind === "pymalloc-arena")
    .map((range) => range.end - range.first)
    .sort((a, b) => a - b);
  const middle = sizes[sizes.length >> 1] ?? most * most;
  return Math.min(most, Math.max(4, 2 ** Math.round(Math.log2(Math.sqrt(middle)))));
}

function makePart(page: Page, range: Range): Part {
  const region = page.regions[range.number] ?? null;
  const kind = kGroups.includes(range.kind) ? range.kind : "other";
  return {
    region,
    number: range.number,
    kind,
    name: region?.name ?? "",
    first: range.first,
    pages: range.end - range.first,
    stretches: [],
    cells: 0,
    copiedPages: 0,
  };
}

// Cuts a part into stretches that are drawn, and folded ones: many columns in a row without a copied page.
function stretch(part: Part, columns: number[], side: number): void {
  const total = Math.ceil(part.pages / side);
  const drawn: [number, number][] = []; // first column, end
  if (part.kind === "pymalloc-arena") drawn.push([0, total]);
  else
    for (const column of columns) {
      const last = drawn.at(-1);
      if (last !== undefined && column - last[1] < kFoldColumns) last[1] = Math.max(last[1], column + 1);
      else drawn.push([column < kFoldColumns ? 0 : column, column + 1]);
    }
  const last = drawn.at(-1);
  if (last !== undefined && total - last[1] < kFoldColumns) last[1] = total;
  const add = (from: number, to: number, firstCell: number): void => {
    const pages = Math.min(to * side, part.pages) - from * side;
    if (pages > 0) part.stretches.push({ part, offset: from * side, pages, firstCell });
    if (firstCell >= 0) part.cells += pages;
  };
  let at = 0;
  for (const [from, to] of drawn) {
    add(at, from, -1);
    add(from, to, 0);
    at = to;
  }
  add(at, total, -1);
}

// Calls `body` for each overlap of a run with a part.
function split(runs: Run[], parts: Part[], body: (run: Run, part: Part, offset: number, pages: number) => void): void {
  const sorted = [...parts].sort((a, b) => a.first - b.first);
  const firsts = Float64Array.from(sorted, (part) => part.first);
  for (const run of runs) {
    const end = run.first + run.pages;
    for (let i = Math.max(0, lowerBound(firsts, run.first + 1) - 1); i < sorted.length && (firsts[i] as number) < end; i++) {
      const part = sorted[i] as Part;
      const first = Math.max(run.first, part.first);
      const pages = Math.min(end, part.first + part.pages) - first;
      if (pages > 0) body(run, part, first - part.first, pages);
    }
  }
}

function touchedColumns(runs: Run[], parts: Part[], side: number): Map<Part, Set<number>> {
  const touched = new Map<Part, Set<number>>();
  split(runs, parts, (_run, part, offset, pages) => {
    let columns = touched.get(part);
    if (columns === undefined) touched.set(part, (columns = new Set()));
    for (let column = Math.floor(offset / side); column <= Math.floor((offset + pages - 1) / side); column++) columns.add(column);
  });
  return touched;
}

// The stretch that contains page `offset` of a part.
function stretchAt(part: Part, offset: number): Stretch | undefined {
  let [low, high] = [0, part.stretches.length - 1];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if ((part.stretches[middle] as Stretch).offset <= offset) low = middle;
    else high = middle - 1;
  }
  return part.stretches[low];
}

function makeCopies(runs: Run[], parts: Part[], cells: number): Copies {
  const most = runs.reduce((sum, run) => sum + run.pages, 0);
  const copies: Copies = {
    length: 0,
    cell: new Int32Array(most),
    cause: new Uint8Array(most),
    batch: new Uint16Array(most),
    before: new Int32Array(most),
  };
  const latest = new Int32Array(cells).fill(-1);
  const add = (run: Run, cell: number): void => {
    const entry = copies.length++;
    copies.cell[entry] = cell;
    copies.cause[entry] = run.cause;
    copies.batch[entry] = run.batch;
    copies.before[entry] = latest[cell] as number;
    latest[cell] = entry;
  };
  split(runs, parts, (run, part, offset, pages) => {
    for (let page = offset; page < offset + pages;) {
      const piece = stretchAt(part, page);
      if (piece === undefined || piece.firstCell < 0) return;
      for (const end = Math.min(offset + pages, piece.offset + piece.pages); page < end; page++) {
        const cell = piece.firstCell + page - piece.offset;
        if (latest[cell] === -1) part.copiedPages++;
        add(run, cell);
      }
    }
  });
  return copies;
}

function lifeOf(page: Page, process: Track, lastCopy: number): [number, number] {
  const from = process.started ?? page.seconds[process.first] ?? 0;
  const to = Math.max(process.ended ?? page.seconds.at(-1) ?? from, lastCopy);
  return [Math.max(0, from), to > from ? to : from + 1];
}

function sizeOf(parts: Part[]): { regions: number; pages: number } {
  return { regions: parts.length, pages: parts.reduce((sum, part) => sum + part.pages, 0) };
}

export function buildModel(page: Page, process: Track): MapModel {
  const batches = batchTimes(page);
  const runs = runsOf(page, process.index, batches);
  const counts = countsOf(page, process.index);
  const ranges = rangesOf(page, process, counts, runs);
  const side = sideOf(ranges);
  const group = (part: Part): number => kGroups.indexOf(part.kind);
  const all = ranges.map((range) => makePart(page, range)).sort((a, b) => group(a) - group(b) || a.first - b.first);
  const touched = touchedColumns(runs, all, side);
  const parts: Part[] = [];
  const beyond: Part[] = [];
  const stretches: Stretch[] = [];
  let cells = 0;
  for (const part of all.filter((one) => one.kind === "pymalloc-arena" || touched.has(one))) {
    stretch(
      part,
      [...(touched.get(part) ?? [])].sort((a, b) => a - b),
      side,
    );
    if (cells + part.cells > kMostCells) {
      beyond.push(part);
      continue;
    }
    parts.push(part);
    for (const piece of part.stretches) {
      if (piece.firstCell < 0) continue;
      piece.firstCell = cells;
      cells += piece.pages;
      stretches.push(piece);
    }
  }
  const copies = makeCopies(runs, parts, cells);
  const rest = all.filter((part) => part.kind !== "pymalloc-arena" && !touched.has(part));
  return {
    process,
    pageBytes: page.run.pageBytes ?? 4096,
    parts,
    side,
    stretches,
    cells,
    copies,
    batches,
    counts,
    occurring: new Set(runs.map((run) => run.cause)),
    untouched: sizeOf(rest),
    beyond: sizeOf(beyond),
    life: lifeOf(page, process, batches[runs.at(-1)?.batch ?? -1] ?? 0),
  };
}
