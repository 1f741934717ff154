// Owns the parts of one process's address space: regions seen at different times, merged without overlaps.
// Does not: know how a part is drawn, or interpret the sweeps' counts.
import { lowerBound } from "../../core/search";
import type { Page, Track } from "../../data/decode";

const kClusterPages = 256; // copied pages outside all known regions become one part if they are this close
const kMostRegionPages = 2 ** 36; // the whole of a 48-bit address space

// What the sweeps counted in a region, in time order.
export interface Counts {
  seconds: number[];
  privatePages: number[];
  sharedPages: number[];
  newPages: number[];
}

export interface Run {
  batch: number;
  cause: number;
  first: number;
  pages: number;
}
export interface Range {
  number: number;
  kind: string;
  first: number;
  end: number;
}

export function countsOf(page: Page, index: number): Map<number, Counts> {
  const columns = page.regionCounts;
  const [indices, regions, times] = [columns.index.values, columns.region.values, columns.timesMs.values];
  const [own, shared, fresh] = [columns.privatePages.values, columns.sharedPages.values, columns.newPages.values];
  const counts = new Map<number, Counts>();
  for (let i = 0; i < indices.length; i++) {
    if (indices[i] !== index) continue;
    const region = regions[i] as number;
    let row = counts.get(region);
    if (row === undefined) counts.set(region, (row = { seconds: [], privatePages: [], sharedPages: [], newPages: [] }));
    row.seconds.push((times[i] as number) / 1000);
    row.privatePages.push(own[i] || 0);
    row.sharedPages.push(shared[i] || 0);
    row.newPages.push(fresh[i] || 0);
  }
  return counts;
}

// Regions seen at different times overlap: a mapping was cut into arenas, or replaced by another. The finer
// kind wins, then the later region.
function carve(ranges: Range[]): Range[] {
  const over = (a: Range, b: Range): boolean =>
    a.kind === b.kind ? a.number > b.number : a.kind === "pymalloc-arena" || (b.kind !== "pymalloc-arena" && a.number > b.number);
  const todo = ranges.filter((range) => range.end > range.first).sort((a, b) => b.first - a.first);
  const put = (range: Range): void => {
    if (range.end <= range.first) return;
    let at = todo.length;
    while (at > 0 && (todo[at - 1] as Range).first < range.first) at--;
    todo.splice(at, 0, range);
  };
  const carved: Range[] = [];
  for (let next = todo.pop(); next !== undefined; next = todo.pop()) {
    const last = carved.at(-1);
    if (last === undefined || next.first >= last.end) {
      carved.push({ ...next });
    } else if (over(next, last)) {
      put({ ...last, first: next.end });
      last.end = next.first;
      if (last.end <= last.first) carved.pop();
      put(next);
    } else {
      put({ ...next, first: last.end });
    }
  }
  return carved;
}

// Makes ranges for copied pages outside all ranges, together with their neighbours: a heap that grew, a short-lived mapping.
function strays(runs: Run[], ranges: Range[]): Range[] {
  const found: (Range & { before: number })[] = []; // `before`: the index of the range that follows
  const add = (first: number, end: number, before: number): void => {
    const last = found.at(-1);
    if (last !== undefined && last.before === before && first <= last.end + kClusterPages) last.end = Math.max(last.end, end);
    else found.push({ number: -1, kind: "other", first, end, before });
  };
  let at = 0;
  for (const run of [...runs].sort((a, b) => a.first - b.first)) {
    let first = run.first;
    const end = run.first + run.pages;
    while (at < ranges.length && (ranges[at] as Range).end <= first) at++;
    let next = at;
    for (; next < ranges.length && (ranges[next] as Range).first < end; next++) {
      const range = ranges[next] as Range;
      if (first < range.first) add(first, range.first, next);
      first = Math.max(first, range.end);
    }
    if (first < end) add(first, end, next);
  }
  return found;
}

// The runs not contained in one of the ranges, which are sorted and disjoint.
function outsideOf(ranges: Range[], runs: Run[]): Run[] {
  const firsts = Float64Array.from(ranges, (range) => range.first);
  return runs.filter((run) => run.first + run.pages > (ranges[lowerBound(firsts, run.first + 1) - 1]?.end ?? -1));
}

// The ranges that the process has, or inherited at fork, in which a sweep found pages or a copy happened.
export function rangesOf(page: Page, process: Track, counts: Map<number, Counts>, runs: Run[]): Range[] {
  const space = process.space ?? process.index;
  const pageBytes = page.run.pageBytes ?? 4096;
  const inherited = space === process.index ? counts : countsOf(page, space);
  const found = ({ number }: Range): boolean =>
    [counts.get(number), inherited.get(number)].some((rows) =>
      rows?.privatePages.some((pages, i) => pages + (rows.sharedPages[i] ?? 0) > 0),
    );
  const all = page.regions
    .map((region, number): Range => ({
      number,
      kind: region.kind,
      first: Math.floor(region.start / pageBytes),
      end: Math.ceil((region.start + region.bytes) / pageBytes),
    }))
    .filter((range) => page.regions[range.number]?.space === space && range.end - range.first < kMostRegionPages);
  const outside = outsideOf(carve(all.filter(found)), runs);
  const firsts = Float64Array.from(outside, (run) => run.first).sort();
  const ends = Float64Array.from(outside, (run) => run.first + run.pages).sort();
  const known = carve(all.filter((range) => found(range) || lowerBound(firsts, range.end) > lowerBound(ends, range.first + 1)));
  return [...known, ...strays(outside, known)];
}
