// Owns synthetic blame: a recording whose report has everything that the page can show about causes, lines, types, code and regions.
// Does not: make the rest of the recording (synthetic.mjs), or draw.
import { kHostile, makePage } from "./synthetic.mjs";

export const kCauseShares = {
  refcount: 0.62,
  gc_header: 0.14,
  data: 0.1,
  free: 0.05,
  allocator: 0.04,
  bytecode: 0.02,
  hash: 0.01,
  kernel: 0.015,
  unknown: 0.005,
};

// Whole copies by cause that sum to `copies`.
export function splitCauses(copies, shares = kCauseShares) {
  const causes = Object.fromEntries(Object.entries(shares).map(([cause, share]) => [cause, Math.floor(copies * share)]));
  causes.refcount += copies - Object.values(causes).reduce((sum, count) => sum + count, 0);
  return causes;
}

function counted(copies, total, causes) {
  const share = copies / total;
  return {
    copies,
    bytes: copies * 4096,
    share,
    estimated: true,
    share_uncertainty: 1.96 * Math.sqrt((share * (1 - share)) / 1000),
    by_cause: causes,
  };
}

// Each half of the one before, so that a thousand rows still differ.
function sizes(total, count) {
  return Array.from({ length: count }, (_, i) => Math.max(1, Math.round(total * 0.5 * 0.62 ** i) + count - i));
}

const kFolders = [
  "/srv/train/project/datasets/imagenet/loaders",
  "/usr/lib/python3/dist-packages/torch/utils/data/_utils",
  "/home/somebody/experiments/2026-11/very/deep/folder/of/code",
];

function makeLine(i, copies, total) {
  return {
    file: `${kFolders[i % 3]}/module_${i}.py`,
    function: `Dataset.method_${i}`,
    line: 10 + i,
    ...counted(copies, total, splitCauses(copies)),
  };
}

function makeType(i, copies, total) {
  return {
    type: ["str", "dict", "tuple", "train.records.SampleRecord"][i] ?? `package.module.Type${i}`,
    ...counted(copies, total, { refcount: copies }),
  };
}

function makeBlame(row, total, count) {
  row.by_cause = splitCauses(row.copies);
  row.copy_seconds = row.copies * 2e-6;
  row.by_type = sizes(total, count).map((copies, i) => makeType(i, copies, total));
  row.by_line = sizes(total, count).map((copies, i) => makeLine(i + 1, copies, total));
}

export function makeBlamedPage({ workers = 3, rows = 26 } = {}) {
  const page = makePage({ workers });
  const { report } = page;
  const total = report.totals.copies;
  for (const row of [report.parent, ...report.workers]) makeBlame(row, row.copies, 10);
  Object.assign(report.totals, { by_cause: splitCauses(total), copy_seconds: total * 2e-6 });
  report.exactness.causes = { looked: 17871, told_by_instruction: 4341, audited: 726, contradicted: 0 };
  report.exactness.stacks = { samples: 1132, estimated: true };
  report.by_type = sizes(total, rows).map((copies, i) => makeType(i, copies, total));
  report.by_line = sizes(total, rows).map((copies, i) => makeLine(i, copies, total));
  report.by_native = sizes(total, rows).map((copies, i) => ({
    module: i % 2 ? "libpython3.11.so.1.0" : "_multiarray_umath.cpython-311-x86_64-linux-gnu.so",
    symbol: i === 1 ? "" : `PyObject_Symbol_${i}`,
    ...counted(copies, total, splitCauses(copies)),
  }));
  report.by_region = ["pymalloc-arena", "heap", "mmap", "file"].map((kind, i) => ({
    kind,
    name: i === 3 ? "/usr/lib/libc.so.6" : "",
    start: 0x7f0000000000 + i * 2 ** 28,
    pages: 64000 >> i,
    copied_pages: 30000 >> i,
    share: 0.5 / 2 ** i,
  }));
  report.verify = { pages: 12500, identical: 12000, refcount_only: 300, gc_header_only: 100, hash_only: 0, data: 100 };
  report.diagnoses.push({
    id: "cow-gc-header",
    confidence: 0.71,
    summary: "The cycle collector ran in the workers and wrote the header of every object they inherited.",
    evidence: ["14 % of the copies"],
    advice: ["Call gc.collect() and then gc.freeze() in the parent before it forks the workers."],
    pids: [report.workers[0].pid],
  });
  return page;
}

export function makeHostileBlame() {
  const page = makeBlamedPage({ rows: kHostile.length });
  const { report } = page;
  kHostile.forEach((name, i) => {
    report.by_type[i].type = name;
    Object.assign(report.by_line[i], { file: name, function: name });
    Object.assign(report.by_native[i], { module: name, symbol: name });
    if (report.by_region[i] !== undefined) Object.assign(report.by_region[i], { kind: name, name });
    report.workers[0].by_type[i].type = name;
    Object.assign(report.workers[0].by_line[i], { file: name, function: name });
    report.totals.by_cause[name] = 5 + i;
    report.by_line[i].by_cause = { [name]: 3 };
  });
  report.diagnoses = kHostile.map((text) => ({ id: text, confidence: 0.5, summary: text, evidence: [text], advice: [text], pids: [1, 2] }));
  report.workers[0].role = kHostile[0];
  return page;
}
