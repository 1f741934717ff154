// Owns the details of a synthetic recording: which line made which copies when, and which pages of which region they were.
// Totals by cause are those of the given workers, so that both views sum to the same copies.

export const kFrames = [
  ["/srv/train/dataset.py", "__getitem__", 41],
  ["/srv/train/dataset.py", "decode", 88],
  ["/srv/train/collate.py", "collate", 12],
  ["/usr/lib/python3/dist-packages/torch/utils/data/_utils/fetch.py", "fetch", 51],
  ["/usr/lib/python3/dist-packages/torch/utils/data/_utils/worker.py", "_worker_loop", 308],
  ["/srv/train/train.py", "main", 120],
];
const place = (cause, type, module, symbol, frames) => ({ cause, type, module, symbol, frames });
export const kPlaces = [
  place("refcount", "str", "libpython3.11.so.1.0", "unicode_hash", [0, 3, 4, 5]),
  place("refcount", "dict", "libpython3.11.so.1.0", "dict_subscript", [1, 0, 3, 4, 5]),
  place("refcount", "tuple", "libpython3.11.so.1.0", "tuplealloc", [2, 3, 4, 5]),
  place("gc_header", "dict", "libpython3.11.so.1.0", "update_refs", [2, 3, 4, 5]),
  place("allocator", "", "libpython3.11.so.1.0", "_PyObject_Malloc", [2, 3, 4, 5]),
  place("data", "numpy.ndarray", "libc.so.6", "__memmove_avx_unaligned", [4, 5]),
];
const kPart = [0.6, 0.3, 0.1, 1, 1, 1]; // of the copies of its cause
const kCauses = ["refcount", "gc_header", "allocator", "bytecode", "hash", "data", "free", "kernel", "unknown"];
const kPageBytes = 4096;
const kArena = { refcount: 0, gc_header: 4, allocator: 7, data: 9 }; // number of the region where copies of a cause begin

// Numbers of samples, at most `most` of them, the last one included.
function checkpoints(samples, most) {
  const step = Math.max(1, Math.ceil(samples / most));
  const picked = Array.from({ length: Math.floor((samples - 1) / step) + 1 }, (_, i) => i * step);
  return picked.at(-1) === samples - 1 ? picked : [...picked, samples - 1];
}

const valueAt = (values, i) => (i < 0 ? 0 : values[Math.min(i, values.length - 1)]);

export function makeBlame(workers, samples) {
  const points = checkpoints(samples, 60);
  const blame = { times_ms: points.map((i) => i * 1000), index: [], place: [], steps: [], at: [], copies: [] };
  workers.forEach((one, nth) =>
    kPlaces.forEach(({ cause }, number) => {
      let [before, steps] = [0, 0];
      points.forEach((sample, at) => {
        const copies = Math.round(valueAt(one.causes[cause], sample - one.first) * kPart[number]);
        if (copies === before) return;
        before = copies;
        steps++;
        blame.at.push(at);
        blame.copies.push(copies);
      });
      if (steps === 0) return;
      blame.index.push(nth + 1);
      blame.place.push(number);
      blame.steps.push(steps);
    }),
  );
  return blame;
}

export function makeRegions() {
  const arenas = Array.from({ length: 8 }, (_, i) => ({
    kind: "pymalloc-arena",
    name: "",
    start: 0x7f0000000000 + i * 0x8000000,
    bytes: 96 * 2 ** 20,
    space: 0,
  }));
  return [
    ...arenas,
    { kind: "heap", name: "[heap]", start: 0x55d000000000, bytes: 64 * 2 ** 20, space: 0 },
    { kind: "mmap", name: "", start: 0x7f8000000000, bytes: 120 * 2 ** 20, space: 0 },
    { kind: "file", name: "/usr/lib/x86_64-linux-gnu/libpython3.11.so.1.0", start: 0x7fa000000000, bytes: 6 * 2 ** 20, space: 0 },
  ];
}

export function makeRegionCounts(workers, regions, samples) {
  const counts = { t_ms: [], index: [], region: [], private_pages: [], shared_pages: [], new_pages: [] };
  for (const sample of checkpoints(samples, 20))
    workers.forEach((one, nth) => {
      if (sample < one.first || sample >= one.first + one.copies.length) return;
      const share = (valueAt(one.copies, sample - one.first) * 4) / one.shared;
      regions.forEach((region, number) => {
        const pages = region.bytes / kPageBytes;
        const own = Math.floor(pages * share * (region.kind === "file" ? 0.1 : 1));
        for (const [key, value] of Object.entries({
          t_ms: sample * 1000,
          index: nth + 1,
          region: number,
          private_pages: own,
          shared_pages: pages - own,
          new_pages: Math.floor(own / 20),
        }))
          counts[key].push(value);
      });
    });
  return counts;
}

// The pages of a cause are eaten one run after the other, each some pages behind the last.
export function makePageRuns(workers, regions, samples) {
  const runs = { t_ms: [], index: [], cause: [], first_page: [], pages: [] };
  const eaten = workers.map(() => ({}));
  for (const sample of checkpoints(samples, 60).slice(1))
    workers.forEach((one, nth) => {
      for (const cause of Object.keys(one.causes)) {
        const before = eaten[nth][cause] ?? 0;
        const pages = valueAt(one.causes[cause], sample - one.first) - before;
        if (pages <= 0) continue;
        eaten[nth][cause] = before + pages;
        for (const [key, value] of Object.entries({
          t_ms: sample * 1000,
          index: nth + 1,
          cause: kCauses.indexOf(cause),
          first_page: pageAt(regions, cause, before),
          pages,
        }))
          runs[key].push(value);
      }
    });
  return runs;
}

function pageAt(regions, cause, offset) {
  let number = kArena[cause] ?? 8;
  let rest = offset + 16;
  while (rest >= regions[number].bytes / kPageBytes && number < regions.length - 1) rest -= regions[number++].bytes / kPageBytes;
  return regions[number].start / kPageBytes + rest;
}
