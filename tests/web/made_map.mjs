// Owns synthetic recordings for the page map: every copied page of the address space is known in advance.
// By hand: node made_map.mjs [arenas] > page.html
// Does not: replace real recordings.
import { fileURLToPath } from "node:url";
import { fillTemplate, makePage } from "./synthetic.mjs";

export const kArenaPages = 256;
export const kBase = 0x7f0000000000 / 4096; // first page of the first arena
const kCauses = [
  "refcount",
  "gc_header",
  "allocator",
  "bytecode",
  "hash",
  "data",
  "free",
  "kernel",
  "unknown",
  "native_refcount",
  "malloc_reuse",
];
const kHeap = 0x55d000000000 / 4096,
  kFile = 0x7fa000000000 / 4096,
  kQuiet = 0x7f8000000000 / 4096;

function regionsOf(arenas, fileName) {
  const row = (kind, name, first, pages) => ({ kind, name, start: first * 4096, bytes: pages * 4096, space: 0 });
  return [
    ...Array.from({ length: arenas }, (_, i) => row("pymalloc-arena", "", kBase + i * kArenaPages, kArenaPages)),
    row("heap", "[heap]", kHeap, 300),
    row("file", fileName, kFile, 2000),
    row("mmap", "", kQuiet, 5000),
  ];
}

// Columns of rows like { t: seconds, index, cause: name, page, pages }.
export function runsToColumns(runs) {
  const sorted = [...runs].sort((a, b) => a.t - b.t);
  return {
    t_ms: sorted.map((run) => run.t * 1000),
    index: sorted.map((run) => run.index),
    cause: sorted.map((run) => kCauses.indexOf(run.cause)),
    first_page: sorted.map((run) => run.page),
    pages: sorted.map((run) => run.pages ?? 1),
  };
}

export function countsToColumns(rows) {
  const column = (key) => rows.map((row) => row[key]);
  return {
    t_ms: rows.map((row) => row.t * 1000),
    index: column("index"),
    region: column("region"),
    private_pages: column("own"),
    shared_pages: column("shared"),
    new_pages: column("fresh"),
  };
}

// Worker 1 reads in the order of addresses: arena 1 at 30 s, arena 2 at 60 s, half of arena 3 at 90 s; at 120 s its collector
// runs through arena 4. It writes data into the heap and one page of the file. Worker 2 copies every third page of arena 1.
export function makeMapPage({ arenas = 6, fileName = "libpython3.11.so" } = {}) {
  const page = makePage({ workers: 2, samples: 180 });
  page.regions = regionsOf(arenas, fileName);
  const arena = (number) => kBase + number * kArenaPages;
  const runs = [
    { t: 30, index: 1, cause: "refcount", page: arena(1), pages: 256 },
    { t: 60, index: 1, cause: "refcount", page: arena(2), pages: 256 },
    { t: 90, index: 1, cause: "refcount", page: arena(3), pages: 128 },
    { t: 120, index: 1, cause: "gc_header", page: arena(4), pages: 256 },
    { t: 60, index: 1, cause: "data", page: kHeap + 10, pages: 20 },
    { t: 60, index: 1, cause: "data", page: kFile + 1000 },
    ...Array.from({ length: 80 }, (_, i) => ({ t: 60, index: 2, cause: "refcount", page: arena(1) + 3 * i })),
  ];
  page.pages = runsToColumns(runs);
  const count = (region, own, shared, fresh, t = 20) => ({ t, index: 1, region, own, shared, fresh });
  page.region_counts = countsToColumns([
    ...Array.from({ length: arenas }, (_, i) => count(i, 0, 256, 0)),
    count(arenas, 0, 300, 0),
    count(arenas + 1, 0, 100, 0),
    count(arenas + 2, 0, 5000, 0),
    count(5, 256, 0, 256, 150), // this arena was made by the worker itself
    count(0, 250, 6, 0, 160), // and of this one nobody saw the copies
  ]);
  return page;
}

// As many pages as a large worker has, copied in random order.
export function makeLargeMapPage(arenas, batches = 100) {
  const page = makeMapPage({ arenas });
  const order = Uint32Array.from({ length: arenas * kArenaPages }, (_, i) => i);
  for (let i = order.length - 1, state = 7; i > 0; i--) {
    state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
    const other = state % (i + 1);
    [order[i], order[other]] = [order[other], order[i]];
  }
  const perBatch = Math.ceil(order.length / batches);
  const runs = [];
  for (let batch = 0; batch < batches; batch++) {
    const pages = order.slice(batch * perBatch, (batch + 1) * perBatch).sort();
    for (const one of pages)
      runs.push({
        t: 20 + batch * 1.5,
        index: 1,
        cause: one % 50 === 0 ? "data" : one % 11 === 0 ? "gc_header" : "refcount",
        page: kBase + one,
      });
  }
  page.pages = runsToColumns(runs);
  return page;
}

if (process.argv[1] === fileURLToPath(import.meta.url))
  process.stdout.write(fillTemplate(makeLargeMapPage(Number(process.argv[2] ?? 1200))));
