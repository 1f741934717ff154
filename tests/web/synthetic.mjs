// Owns synthetic recordings with everything that a page can hold; columns are plain arrays until payload.mjs packs them.
// By hand: node synthetic.mjs [workers] [samples] > page.html
// Does not: replace real recordings; real.test.mjs uses those.
import { fileURLToPath } from "node:url";
import { makeBlame, makePageRuns, makeRegionCounts, makeRegions, kFrames, kPlaces } from "./made_detail.mjs";
import { makeReport } from "./made_report.mjs";
import { fillTemplate } from "./payload.mjs";

export { encode, fillTemplate, kTemplate, pack } from "./payload.mjs";

const kShares = { refcount: 0.86, gc_header: 0.09, allocator: 0.03 }; // and the rest is data
const kMib = 1024; // in KiB

// The same "random" numbers in every run.
function makeNoise(seed) {
  let state = seed;
  return () => {
    state = (state * 1103515245 + 12345) & 0x7fffffff;
    return state / 0x7fffffff;
  };
}

// Cumulative copies by cause that sum to `copies` at every sample.
function splitByCause(copies) {
  const causes = Object.fromEntries(
    Object.entries(kShares).map(([cause, share]) => [cause, copies.map((count) => Math.floor(count * share))]),
  );
  causes.data = copies.map((count, i) => Object.keys(kShares).reduce((rest, cause) => rest - causes[cause][i], count));
  return causes;
}

function makeWorker(nth, samples, noise) {
  const first = Math.min(samples - 1, Math.floor(samples * 0.06) + (nth % 5));
  const killed = nth === 1;
  const count = Math.max(1, Math.floor((samples - first) * (killed ? 0.7 : 1)));
  const shared = (820 + 90 * noise()) * kMib;
  const pace = 4 + 3 * noise();
  const one = { pid: 4200 + nth, first, killed, shared, private_kib: [], pss_kib: [], still_shared_kib: [], copies: [] };
  for (let i = 0; i < count; i++) {
    const copies = Math.round((shared * (1 - Math.exp((-pace * i) / samples))) / 4);
    one.copies.push(copies);
    one.private_kib.push(Math.round(copies * 4 + 36 * kMib + 8 * kMib * noise()));
    one.still_shared_kib.push(Math.round(shared - copies * 4));
    one.pss_kib.push(Math.round(one.private_kib.at(-1) + one.still_shared_kib.at(-1) / 4));
  }
  return { ...one, causes: splitByCause(one.copies) };
}

function makeParent(samples, noise) {
  const one = { pid: 4199, first: 0, killed: false, shared: 0, private_kib: [], pss_kib: [], still_shared_kib: [], copies: [] };
  for (let i = 0; i < samples; i++) {
    one.private_kib.push(Math.round((i < samples * 0.06 ? 890 : 130) * kMib + 4096 * noise()));
    one.still_shared_kib.push(i < samples * 0.06 ? 0 : 770 * kMib);
    one.pss_kib.push(Math.round(one.private_kib.at(-1) + one.still_shared_kib.at(-1) / 4));
    one.copies.push(i * 3);
  }
  return { ...one, causes: splitByCause(one.copies) };
}

// Of the living, but copies of all that ever lived.
function sumOf(processes, samples, name, cumulative = false) {
  const sum = new Array(samples).fill(0);
  for (const one of processes) {
    const values = name in one ? one[name] : one.causes[name];
    const last = cumulative ? samples : one.first + values.length;
    for (let i = one.first; i < last; i++) sum[i] += values[i - one.first] ?? values.at(-1);
  }
  return sum;
}

function makeTotals(parent, workers, samples) {
  const all = [parent, ...workers];
  return {
    private_kib: sumOf(all, samples, "private_kib"),
    workers_private_kib: sumOf(workers, samples, "private_kib"),
    still_shared_kib: sumOf(all, samples, "still_shared_kib"),
    pss_kib: sumOf(all, samples, "pss_kib"),
    copies: sumOf(all, samples, "copies", true),
    causes: Object.fromEntries(Object.keys(parent.causes).map((cause) => [cause, sumOf(all, samples, cause, true)])),
  };
}

function makeLimits(totals, samples) {
  const bound = Math.round(Math.max(...totals.private_kib) * 1.04);
  const row = (kind, name, unit, limit, used) => ({ kind, name, unit, limit: new Array(samples).fill(limit), used });
  return [
    row("cgroup-v1", "/job1", "bytes", bound, totals.private_kib),
    row(
      "host",
      "MemTotal",
      "bytes",
      256 * kMib * 1024,
      totals.private_kib.map((kib) => kib + 24 * kMib * 1024),
    ),
    row(
      "shm",
      "/dev/shm",
      "bytes",
      64 * kMib,
      totals.private_kib.map((_, i) => Math.round((12 + 8 * Math.sin(i / 9) ** 2) * kMib)),
    ),
    row(
      "fds",
      "RLIMIT_NOFILE",
      "count",
      1024,
      totals.private_kib.map((_, i) => 60 + Math.floor((30 * i) / samples)),
    ),
  ];
}

// What was said at each sample: first nothing, then a wide band that narrows around what came.
function makeForecasts(workers, limits, samples) {
  const forecasts = { low_kib: [], best_kib: [], high_kib: [], ceiling_kib: [], eta_s: [], limit_eta_s: [], limit: [] };
  for (let i = 0; i < samples; i++) {
    const living = workers.filter((one) => i >= one.first + 3 && i < one.first + one.copies.length);
    const known = living.length > 0;
    const plateau = living.reduce((sum, one) => sum + one.shared + 40 * kMib, 0);
    const unsure = 0.02 + 0.35 * Math.exp((-7 * i) / samples);
    const best = plateau * (1 - 0.3 * unsure * Math.cos(i / 7));
    const eta = Math.max(0, Math.round(samples * 0.8 - i));
    const over = known && best > limits[0].limit[i];
    const rows = {
      low_kib: Math.round(best * (1 - unsure)),
      best_kib: Math.round(best),
      high_kib: Math.round(best * (1 + unsure)),
      ceiling_kib: Math.round(plateau * 1.06),
      eta_s: eta,
    };
    for (const [name, value] of Object.entries(rows)) forecasts[name].push(known ? value : null);
    forecasts.limit_eta_s.push(over ? Math.round(eta / 2) : null);
    forecasts.limit.push(known ? 0 : null);
  }
  return forecasts;
}

function makeEvents(workers) {
  const events = workers.map((one, i) => ({
    t: one.first + 0.1,
    kind: "process",
    index: i + 1,
    pid: one.pid,
    text: `worker ${one.pid} was forked by parent 4199`,
  }));
  const dead = workers.find((one) => one.killed);
  if (dead !== undefined) {
    const t = dead.first + dead.copies.length;
    events.push({ t: t - 25, kind: "signal", index: 1, pid: 4200, text: "SIGUSR1 was sent to worker 4200 by pid 1" });
    events.push({ t: t - 12, kind: "alert", index: 1, pid: 4200, text: "worker memory of /job1 is at 91 % of its limit" });
    events.push({
      t: t - 0.2,
      kind: "oom",
      index: 2,
      pid: dead.pid,
      text: `the kernel ran out of memory in /job1 and chose worker ${dead.pid}`,
    });
    events.push({ t, kind: "exit", index: 2, pid: dead.pid, text: `worker ${dead.pid} was killed by SIGKILL` });
    events.push({ t: t + 6, kind: "alert-over", index: 1, pid: 4200, text: "/job1 is below 75 % of its limit again" });
  }
  return events;
}

function processRow(one, index) {
  const { pid, first, killed, private_kib, pss_kib, still_shared_kib, copies, causes } = one;
  return {
    index,
    pid,
    role: index === 0 ? "parent" : "worker",
    name: "python3 train.py",
    parent: index === 0 ? null : 0,
    space: 0,
    started: first,
    ended: killed ? first + copies.length : null,
    first,
    private_kib,
    pss_kib,
    still_shared_kib,
    copies,
    causes,
  };
}

export function makePage({ workers: workerCount = 3, samples = 180 } = {}) {
  const noise = makeNoise(7);
  const parent = makeParent(samples, noise);
  const workers = Array.from({ length: workerCount }, (_, i) => makeWorker(i, samples, noise));
  const totals = makeTotals(parent, workers, samples);
  const limits = makeLimits(totals, samples);
  const forecasts = makeForecasts(workers, limits, samples);
  const report = makeReport({ workers, parent, totals, limits, forecasts, samples });
  const regions = makeRegions();
  return {
    schema: "cowprof.page/2",
    report,
    verdict: `${workerCount} workers lost ${(report.totals.copied_bytes / 2 ** 30).toFixed(1)} GiB to copies: reading Python objects in dataset.py:41 writes their reference counts. One worker was killed when /job1 ran out of memory.`,
    warnings: [],
    run: {
      tool: "cowprof 0.1.0",
      kernel: "6.18.44",
      started: "2026-11-21T12:00:00Z",
      interval_seconds: 1,
      page_bytes: 4096,
      complete: true,
      rung: "btf-tracepoints",
      exactness: "exact",
      live: false,
    },
    times_ms: Array.from({ length: samples }, (_, i) => i * 1000),
    processes: [parent, ...workers].map(processRow),
    totals,
    limits,
    forecasts,
    events: makeEvents(workers),
    frames: kFrames,
    places: kPlaces,
    blame: makeBlame(workers, samples),
    regions,
    region_counts: makeRegionCounts(workers, regions, samples),
    pages: makePageRuns(workers, regions, samples),
  };
}

const kNoEnd = "This recording has no end: still running, killed, or the file was cut off.";

// The same recording, cut off after `samples` of its samples: what was said then still stands.
export function makeRunningPage({ samples = 70, live = false, ...options } = {}) {
  const page = makePage(options);
  const cut = (record, first = 0) => {
    for (const [key, values] of Object.entries(record))
      if (Array.isArray(values)) record[key] = values.slice(0, Math.max(0, samples - first));
  };
  page.times_ms.length = samples;
  for (const one of [page.totals, ...page.processes]) {
    cut(one, one.first ?? 0);
    cut(one.causes, one.first ?? 0);
    if (one.ended >= samples) one.ended = null;
  }
  for (const limit of page.limits) cut(limit);
  cut(page.forecasts);
  page.events = page.events.filter(({ t }) => t < samples);
  Object.assign(page.run, { complete: false, live });
  if (!live) page.warnings = [kNoEnd];
  return page;
}

export function makeEmptyPage() {
  const page = makePage({ workers: 1, samples: 2 });
  const nothing = { private_kib: [], workers_private_kib: [], still_shared_kib: [], pss_kib: [], copies: [], causes: {} };
  Object.assign(page, {
    verdict: "Nothing was recorded.",
    times_ms: [],
    processes: [],
    totals: nothing,
    limits: [],
    events: [],
    frames: [],
    places: [],
    regions: [],
  });
  for (const table of ["forecasts", "blame", "region_counts", "pages"]) for (const key of Object.keys(page[table])) page[table][key] = [];
  Object.assign(page.report, { workers: [], samples: 0, duration_seconds: 0, limits: [], diagnoses: [], by_type: [], by_line: [] });
  page.report.totals = { copies: null, copied_bytes: null, copy_seconds: null, by_cause: {} };
  Object.assign(page.report.forecast, {
    sentence: "",
    shape: null,
    verdict: "unknown",
    ceiling_bytes: null,
    plateau_bytes: null,
    limits: [],
  });
  return page;
}

export const kHostile = [
  `<img src=x onerror="globalThis.pwned=1">`,
  `</script><script>globalThis.pwned=1</script>`,
  `"'\`><svg onload=globalThis.pwned=1>`,
  "\u202egnp.exe\u2066 \u0000\u0007 name",
  "javascript:globalThis.pwned=1",
  "x".repeat(4000),
];

export function makeHostilePage() {
  const page = makePage({ workers: kHostile.length, samples: 40 });
  const [image, script, quotes, bidi, link, long] = kHostile;
  page.verdict = `${image} ${script} ${bidi}`;
  page.report.target.command = kHostile.join(" ");
  page.report.exactness.rung = quotes;
  kHostile.forEach((name, i) => Object.assign(page.processes[i + 1], { name, role: i === 4 ? link : "worker" }));
  kHostile.forEach((name, i) =>
    Object.assign(page.report.workers[i], { role: name, exit: { kind: "signaled", code: null, signal: name, cause: name } }),
  );
  page.report.limits.forEach((limit, i) => Object.assign(limit, { name: kHostile[i], kind: i === 1 ? long : script }));
  page.limits.forEach((limit, i) => Object.assign(limit, { name: kHostile[i] }));
  page.events = kHostile.map((name, i) => ({ t: i * 5, kind: i === 3 ? image : "note", index: null, pid: null, text: name }));
  page.report.by_type = kHostile.map((type) => ({ type, copies: 1, bytes: 4096, share: 0.1 }));
  page.report.by_line = kHostile.map((file) => ({ file, function: quotes, line: 1, copies: 1, bytes: 4096, share: 0.1 }));
  page.report.diagnoses = kHostile.map((text) => ({
    id: text,
    confidence: 0.5,
    summary: text,
    evidence: [text],
    advice: [text],
    pids: [],
  }));
  page.warnings = [image];
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
  Object.assign(page.report.forecast, {
    shape: null,
    ceiling_bytes: null,
    eta_limit_seconds: null,
    first_limit: null,
    nearest_limit: null,
    verdict: "unknown",
    sentence: "",
    plateau_bytes: null,
    limits: [],
  });
  for (const limit of page.report.limits) Object.assign(limit, { limit: null, used: null, peak: null, ratio: null });
  for (const one of [...page.processes, page.totals]) Object.assign(one, { copies: one.copies.map(() => null), causes: {} });
  page.processes[1].private_kib = page.processes[1].private_kib.map((value, i) => (i % 2 === 1 ? null : value));
  for (const key of Object.keys(page.forecasts)) page.forecasts[key] = page.forecasts[key].map(() => null);
  page.run.complete = false;
  page.report.losses = { events_dropped: 12, maps_full: 0 };
  page.warnings = [kNoEnd, "Losses while recording: events dropped: 12. Counts may be too low."];
  return page;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const [workers = 3, samples = 180] = process.argv.slice(2).map(Number);
  process.stdout.write(fillTemplate(makePage({ workers, samples })));
}
