// Owns made-up recordings: page data of any shape, put into the built template as `cowprof view` does it.
// Called by: the tests here; by hand: node synthetic.mjs [workers] [samples] > page.html
// Does not: stand in for real recordings; real.test.mjs takes those.
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";

export const kTemplate = new URL("../../web/dist/template.html", import.meta.url);
const kPlaceholder = "__COWPROF_DATA__";

// First value absolute, then deltas; null stays null.
export function encode(values) {
  let level = 0;
  return values.map((value) => {
    if (value === null) return null;
    const delta = value - level;
    level = value;
    return delta;
  });
}

export function fillTemplate(page, template = readFileSync(kTemplate, "utf8")) {
  const text = typeof page === "string" ? page : gzipSync(JSON.stringify(page)).toString("base64");
  return template.replace(kPlaceholder, () => text);
}

// The same "random" numbers in every run.
function makeNoise(seed) {
  let state = seed;
  return () => {
    state = (state * 1103515245 + 12345) & 0x7fffffff;
    return state / 0x7fffffff;
  };
}

function makeWorker(nth, samples, noise) {
  const pid = 4200 + nth;
  const first = Math.min(samples - 1, Math.floor(samples * 0.06) + (nth % 5));
  const killed = nth === 1;
  const count = Math.max(1, Math.floor((samples - first) * (killed ? 0.7 : 1)));
  const shared = (820 + 90 * noise()) * 1024;
  const pace = 4 + 3 * noise();
  const columns = { private_kib: [], still_shared_kib: [], copied_kib: [], copies_per_second: [] };
  let before = 0;
  for (let i = 0; i < count; i++) {
    const copied = Math.round((shared * (1 - Math.exp((-pace * i) / samples))) / 4) * 4;
    columns.private_kib.push(Math.round(copied + 36 * 1024 + 8 * 1024 * noise()));
    columns.still_shared_kib.push(Math.round(shared - copied));
    columns.copied_kib.push(copied);
    columns.copies_per_second.push(i === 0 ? 0 : Math.round(((copied - before) / 4) * (0.7 + 0.6 * noise())));
    before = copied;
  }
  return { pid, first, count, columns, killed };
}

function makeParent(samples, noise) {
  const columns = { private_kib: [], still_shared_kib: [], copied_kib: [], copies_per_second: [] };
  for (let i = 0; i < samples; i++) {
    columns.private_kib.push(Math.round((i < samples * 0.06 ? 890 : 130) * 1024 + 4096 * noise()));
    columns.still_shared_kib.push(i < samples * 0.06 ? 0 : 770 * 1024);
    columns.copied_kib.push(Math.round(i * 3) * 4);
    columns.copies_per_second.push(Math.round(6 * noise()));
  }
  return { pid: 4199, first: 0, count: samples, columns, killed: false };
}

function reportRow(one, role, index) {
  const last = (name) => one.columns[name].at(-1) * 1024;
  return {
    pid: one.pid, index, role, started_at: one.first, ended_at: one.killed ? one.first + one.count : null,
    faults: 50000 + index, write_protect_faults: 48000, copies: last("copied_kib") / 4096, reuses: 1200 + index, zero_fills: 3400 + index,
    copied_bytes: last("copied_kib"), private_bytes: last("private_kib"), peak_private_bytes: Math.max(...one.columns.private_kib) * 1024,
    pss_bytes: last("private_kib") + 1e6, still_shared_bytes: last("still_shared_kib"), ceiling_bytes: 900 * 2 ** 20,
    exit: one.killed ? { kind: "signaled", code: null, signal: "SIGKILL", cause: "oom-cgroup" } : null,
  };
}

function sumColumns(processes, samples) {
  const totals = {};
  for (const name of ["private_kib", "still_shared_kib", "copied_kib", "copies_per_second"]) {
    totals[name] = Array.from({ length: samples }, (_, i) =>
      processes.reduce((sum, one) => sum + (i >= one.first ? one.columns[name][i - one.first] ?? 0 : 0), 0));
  }
  return totals;
}

function encodeColumns(columns) {
  return Object.fromEntries(Object.entries(columns).map(([name, values]) => [name, encode(values)]));
}

function makeEvents(workers) {
  const events = workers.map((one, i) => ({ t: one.first + 0.1, kind: "process", index: i + 1, pid: one.pid, text: `worker ${one.pid} was started` }));
  const dead = workers.find((one) => one.killed);
  if (dead !== undefined) {
    const t = dead.first + dead.count;
    events.push({ t: t - 25, kind: "signal", index: 1, pid: 4200, text: "SIGUSR1 was sent to worker 4200 by pid 1" });
    events.push({ t: t - 0.2, kind: "oom", index: 2, pid: dead.pid, text: `the kernel ran out of memory in /job1 and chose worker ${dead.pid}` });
    events.push({ t, kind: "exit", index: 2, pid: dead.pid, text: `worker ${dead.pid} was killed by SIGKILL` });
  }
  return events;
}

const kMib = 2 ** 20;

function makeReport(workers, parent, totals, samples) {
  const copied = totals.copied_kib.at(-1) * 1024;
  const copies = copied / 4096;
  const used = totals.private_kib.at(-1) * 1024;
  const limit = Math.ceil(Math.max(...totals.private_kib) / 2 ** 20 + 0.4) * 2 ** 30;
  return {
    schema: "cowprof.report/1",
    target: { pid: 4199, command: "python3 train.py --workers 8 --data /data/imagenet", python: "3.11.2", start_method: "fork" },
    duration_seconds: samples, samples, exactness: { copies: "exact", rung: "btf-tracepoints" },
    parent: reportRow(parent, "parent", 0), workers: workers.map((one, i) => reportRow(one, "worker", i + 1)),
    totals: { copies, copied_bytes: copied, copy_seconds: 1.3, by_cause: { refcount: Math.round(copies * 0.86), gc_header: Math.round(copies * 0.09), allocator: Math.round(copies * 0.03), bytecode: 0, hash: 0, data: Math.round(copies * 0.02), free: 0, kernel: 0, unknown: 0 } },
    by_type: [{ type: "str", copies: Math.round(copies * 0.6), bytes: copied * 0.6, share: 0.6 }, { type: "dict", copies: Math.round(copies * 0.26), bytes: copied * 0.26, share: 0.26, estimated: true }, { type: "tuple", copies: Math.round(copies * 0.08), bytes: copied * 0.08, share: 0.08 }],
    by_line: [{ file: "/srv/train/dataset.py", function: "__getitem__", line: 41, copies: Math.round(copies * 0.8), bytes: copied * 0.8, share: 0.8 }, { file: "/srv/train/collate.py", function: "collate", line: 12, copies: Math.round(copies * 0.11), bytes: copied * 0.11, share: 0.11 }],
    by_region: [],
    limits: [
      { kind: "cgroup-v1", name: "/job1", unit: "bytes", limit, used, peak: used * 1.04, ratio: (used * 1.04) / limit },
      { kind: "host", name: "MemTotal", unit: "bytes", limit: 256 * 2 ** 30, used: 30 * 2 ** 30, peak: 31 * 2 ** 30, ratio: 31 / 256 },
      { kind: "shm", name: "/dev/shm", unit: "bytes", limit: 64 * kMib, used: 12 * kMib, peak: 20 * kMib, ratio: 20 / 64 },
      { kind: "fds", name: "RLIMIT_NOFILE", unit: "count", limit: 1024, used: 87, peak: 90, ratio: 90 / 1024 },
      { kind: "cgroup-v1", name: "/", unit: "bytes", limit: null, used: 30 * 2 ** 30, peak: 31 * 2 ** 30, ratio: null },
    ],
    forecast: { shape: "bounded", ceiling_bytes: 8 * 2 ** 30, eta_ceiling_seconds: 80, first_limit: "cgroup-v1", eta_limit_seconds: 95, verdict: "will-exceed" },
    diagnoses: [{ id: "cow-refcount", confidence: 0.94, summary: "Reading Python objects copies the pages they live in, because every read writes a reference count.", evidence: ["86 % of the copies hit the reference count of an object", "dataset.py:41 __getitem__ made 80 % of them"], advice: ["Keep the samples in one numpy array or an Arrow table instead of millions of Python objects.", "gc.freeze() before the fork does not help here: it removes only the 9 % made by the garbage collector."], pids: workers.map((one) => one.pid) }],
    verify: null, losses: { events_dropped: 0, maps_full: 0, unreadable: 0 },
  };
}

export function makePage({ workers: workerCount = 3, samples = 180 } = {}) {
  const noise = makeNoise(7);
  const parent = makeParent(samples, noise);
  const workers = Array.from({ length: workerCount }, (_, i) => makeWorker(i, samples, noise));
  const totals = sumColumns([parent, ...workers], samples);
  const report = makeReport(workers, parent, totals, samples);
  return {
    schema: "cowprof.page/1", report,
    verdict: `${workerCount} workers lost ${(report.totals.copied_bytes / 2 ** 30).toFixed(1)} GiB to copies: reading Python objects in dataset.py:41 writes their reference counts. One worker was killed when /job1 ran out of memory.`,
    run: { tool: "cowprof 0.1.0", kernel: "6.18.44", started: "2026-11-21T12:00:00Z", interval_seconds: 1, page_bytes: 4096, complete: true, rung: "btf-tracepoints", exactness: "exact" },
    times_ms: encode(Array.from({ length: samples }, (_, i) => i * 1000)),
    processes: [parent, ...workers].map((one, index) => ({ index, pid: one.pid, role: index === 0 ? "parent" : "worker", name: "python3 train.py", first: one.first, count: one.count, columns: encodeColumns(one.columns) })),
    totals: encodeColumns(totals),
    limits: report.limits.filter((limit) => limit.unit === "bytes" && limit.kind !== "fds").map((limit) => ({
      kind: limit.kind, name: limit.name, unit: limit.unit,
      limit: encode(Array.from({ length: samples }, () => (limit.limit === null ? null : limit.limit / 1024))),
      used: encode(totals.private_kib),
    })),
    events: makeEvents(workers),
  };
}

export function makeEmptyPage() {
  const page = makePage({ workers: 1, samples: 2 });
  const nothing = { private_kib: [], still_shared_kib: [], copied_kib: [], copies_per_second: [] };
  Object.assign(page, { verdict: "Nothing was recorded.", times_ms: [], processes: [], totals: nothing, limits: [], events: [] });
  Object.assign(page.report, { workers: [], samples: 0, duration_seconds: 0, limits: [], diagnoses: [], by_type: [], by_line: [] });
  page.report.totals = { copies: null, copied_bytes: null, copy_seconds: null, by_cause: {} };
  return page;
}

export const kHostile = [
  `<img src=x onerror="globalThis.pwned=1">`, `</script><script>globalThis.pwned=1</script>`, `"'\`><svg onload=globalThis.pwned=1>`,
  "\u202egnp.exe\u2066 \u0000\u0007 name", "javascript:globalThis.pwned=1", "x".repeat(4000),
];

export function makeHostilePage() {
  const page = makePage({ workers: kHostile.length, samples: 40 });
  const [image, script, quotes, bidi, link, long] = kHostile;
  page.verdict = `${image} ${script} ${bidi}`;
  page.report.target.command = kHostile.join(" ");
  page.report.exactness.rung = quotes;
  kHostile.forEach((name, i) => Object.assign(page.processes[i + 1], { name, role: i === 4 ? link : "worker" }));
  kHostile.forEach((name, i) => Object.assign(page.report.workers[i], { role: name, exit: { kind: "signaled", code: null, signal: name, cause: name } }));
  page.report.limits.forEach((limit, i) => Object.assign(limit, { name: kHostile[i], kind: i === 1 ? long : script }));
  page.limits.forEach((limit, i) => Object.assign(limit, { name: kHostile[i] }));
  page.events = kHostile.map((name, i) => ({ t: i * 5, kind: i === 3 ? image : "note", index: null, pid: null, text: name }));
  page.report.by_type = kHostile.map((type) => ({ type, copies: 1, bytes: 4096, share: 0.1 }));
  page.report.by_line = kHostile.map((file) => ({ file, function: quotes, line: 1, copies: 1, bytes: 4096, share: 0.1 }));
  page.report.diagnoses = kHostile.map((text) => ({ id: text, confidence: 0.5, summary: text, evidence: [text], advice: [text], pids: [] }));
  page.report.losses = { [image]: 3 };
  Object.assign(page.run, { tool: image, kernel: bidi, started: script });
  return page;
}

export function makeNullPage() {
  const page = makePage({ workers: 3, samples: 30 });
  for (const row of [page.report.parent, ...page.report.workers]) {
    for (const key of Object.keys(row)) if (!["pid", "index", "role", "exit"].includes(key)) row[key] = null;
    row.exit = null;
  }
  page.report.totals = { copies: null, copied_bytes: null, copy_seconds: null, by_cause: { refcount: null } };
  Object.assign(page.report.exactness, { copies: "unavailable", rung: "none" });
  Object.assign(page.report.forecast, { shape: null, ceiling_bytes: null, eta_limit_seconds: null, first_limit: null, verdict: "unknown" });
  for (const limit of page.report.limits) Object.assign(limit, { limit: null, used: null, peak: null, ratio: null });
  for (const one of page.processes) one.columns.copies_per_second = one.columns.copies_per_second.map(() => null);
  page.processes[1].columns.private_kib = page.processes[1].columns.private_kib.map((delta, i) => (i % 2 === 1 ? null : delta));
  page.totals.copies_per_second = page.totals.copies_per_second.map(() => null);
  page.run.complete = false;
  page.report.losses = { events_dropped: 12, maps_full: 0 };
  return page;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [workers = 3, samples = 180] = process.argv.slice(2).map(Number);
  process.stdout.write(fillTemplate(makePage({ workers, samples })));
}
