// Owns the report of a synthetic recording: what `cowprof report --json` would print for it.
// Does not: make the columns; it uses their last values.

const kMib = 2 ** 20;
const kParentBytes = 150 * kMib;
const kSketch = `import numpy as np

# Before the workers are forked: all strings in one buffer without reference counts.
joined = "".join(samples).encode()
ends = np.cumsum([len(s.encode()) for s in samples])

def __getitem__(self, i):
    start = ends[i - 1] if i else 0
    return joined[start:ends[i]].decode()`;

export function reportRow(one, role, index) {
  const last = (name) => one[name].at(-1) * 1024;
  const copies = one.copies.at(-1);
  return {
    pid: one.pid,
    index,
    role,
    started_at: one.first,
    ended_at: one.killed ? one.first + one.private_kib.length : null,
    faults: 50000 + index,
    write_protect_faults: 48000,
    copies,
    reuses: 1200 + index,
    zero_fills: 3400 + index,
    copied_bytes: copies * 4096,
    private_bytes: last("private_kib"),
    peak_private_bytes: Math.max(...one.private_kib) * 1024,
    pss_bytes: last("pss_kib"),
    still_shared_bytes: last("still_shared_kib"),
    ceiling_bytes: 900 * kMib,
    by_cause: Object.fromEntries(Object.entries(one.causes).map(([cause, values]) => [cause, values.at(-1)])),
    exit: one.killed ? { kind: "signaled", code: null, signal: "SIGKILL", cause: "oom-cgroup" } : null,
  };
}

function makeLimits({ limits, totals }) {
  const of = (values, unit) => values.map((value) => (value === null ? null : value * (unit === "bytes" ? 1024 : 1)));
  return limits
    .map(({ kind, name, unit, limit, used }) => {
      const [most, [bound], values] = [Math.max(...of(used, unit)), of(limit.slice(-1), unit), of(used, unit)];
      return { kind, name, unit, limit: bound, used: values.at(-1), peak: most, ratio: bound === null ? null : most / bound };
    })
    .concat(
      totals.length === 0
        ? []
        : [{ kind: "cgroup-v1", name: "/", unit: "bytes", limit: null, used: 30 * 2 ** 30, peak: 31 * 2 ** 30, ratio: null }],
    );
}

function makeForecast({ forecasts, limits }) {
  const last = (name) => forecasts[name].at(-1);
  const bytes = (name) => (last(name) === null ? null : last(name) * 1024);
  const peak = (name) => (last(name) === null ? null : bytes(name) + kParentBytes);
  const [limit] = limits;
  return {
    shape: "bounded",
    ceiling_bytes: bytes("ceiling_kib"),
    eta_ceiling_seconds: last("eta_s"),
    first_limit: limit.kind,
    nearest_limit: 0,
    eta_limit_seconds: 95,
    verdict: "will-exceed",
    plateau_bytes: { low: bytes("low_kib"), best: bytes("best_kib"), high: bytes("high_kib") },
    ended: false,
    sawtooth: false,
    limits: [
      {
        kind: limit.kind,
        name: limit.name,
        unit: "bytes",
        limit: limit.limit.at(-1) * 1024,
        used: limit.used.at(-1) * 1024,
        peak: { low: peak("low_kib"), best: peak("best_kib"), high: peak("high_kib") },
        eta_seconds: 95,
        eta_earliest_seconds: 70,
        verdict: "will-exceed",
      },
    ],
    sentence: "Private memory grows towards its ceiling and meets the limit of /job1 in about 95 s if nothing changes.",
  };
}

export function makeReport(made) {
  const { workers, parent, totals, samples } = made;
  const copies = totals.copies.at(-1);
  const copied = copies * 4096;
  const part = (share) => ({ copies: Math.round(copies * share), bytes: Math.round(copies * share) * 4096, share });
  return {
    schema: "cowprof.report/1",
    target: { pid: 4199, command: "python3 train.py --workers 8 --data /data/imagenet", python: "3.11.2", start_method: "fork" },
    duration_seconds: samples,
    samples,
    exactness: { copies: "exact", rung: "btf-tracepoints" },
    parent: reportRow(parent, "parent", 0),
    workers: workers.map((one, i) => reportRow(one, "worker", i + 1)),
    totals: {
      copies,
      copied_bytes: copied,
      copy_seconds: 1.3,
      by_cause: Object.fromEntries(Object.entries(totals.causes).map(([cause, values]) => [cause, values.at(-1)])),
    },
    by_type: [
      { type: "str", ...part(0.6) },
      { type: "dict", ...part(0.26), estimated: true },
      { type: "tuple", ...part(0.08) },
    ],
    by_line: [
      { file: "/srv/train/dataset.py", function: "__getitem__", line: 41, ...part(0.8) },
      { file: "/srv/train/collate.py", function: "collate", line: 12, ...part(0.11) },
    ],
    by_region: [],
    limits: makeLimits(made),
    nearest_limit: 0,
    forecast: makeForecast(made),
    diagnoses: [
      {
        id: "cow-refcount",
        confidence: 0.94,
        summary: "Reading Python objects copies the pages they live in, because every read writes a reference count.",
        evidence: ["86 % of the copies hit the reference count of an object", "dataset.py:41 __getitem__ made 80 % of them"],
        advice: [
          "Keep the samples in one numpy array or an Arrow table instead of millions of Python objects.",
          "gc.freeze() before the fork does not help here: it removes only the 9 % made by the garbage collector.",
        ],
        sketch: kSketch,
        saves_bytes: { low: 800 * 2 ** 20, best: 950 * 2 ** 20, high: 1000 * 2 ** 20 },
        pids: workers.map((one) => one.pid),
      },
    ],
    verify: null,
    losses: { events_dropped: 0, maps_full: 0, unreadable: 0 },
  };
}
