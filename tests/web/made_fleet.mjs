// Owns a made page of the ranks of a job, as docs/timeline.md describes it: any number of ranks, each with a name in its own way.
// Does not: know what makes a job plausible; fleet.py records one.

const kBegin = Date.parse("2026-11-25T09:00:00Z");

function makeRow(rank, name) {
  const deaths =
    rank % 100 === 7
      ? [
          {
            t: 60,
            wall: new Date(kBegin + rank * 10 + 60000).toISOString(),
            boot_seconds: 1,
            process: `worker 0 (${rank})`,
            text: `killed ${name}`,
          },
        ]
      : [];
  const bytes = (100 + (rank % 10)) * 2 ** 20;
  return {
    recording: name === "" ? `recordings/rank-${rank}.json` : name,
    host: name || `node-${Math.floor(rank / 8)}`,
    boot_id: `boot ${Math.floor(rank / 8)}`,
    job_id: name || "job-7",
    rank: name === "" ? rank : null,
    local_rank: null,
    pid: 1000 + rank,
    command: name || "python3 train.py",
    started: new Date(kBegin + rank * 10).toISOString(),
    boot_seconds: 100,
    duration_seconds: 120,
    complete: true,
    repeated: false,
    workers_at_once: 2,
    copied_bytes: rank === 3 ? null : bytes,
    peak: { at_seconds: 100, bytes, split: { copied: bytes - 2 ** 20, pickled: 0, new: 2 ** 20, before_attach: 0, inherited_freed: 0 } },
    forecast: { outlook: ["safe", "tight", "will-exceed", "unknown"][rank % 4], sentence: name || "flat" },
    headline: { diagnosis: name || "cow-refcount", sentence: name || "Reading copied." },
    culprit: { file: name || "train.py", line: 12, function: name || "read", type: name || "dict" },
    deaths,
    workers: [{ name: `worker ${name}`, copied_bytes: bytes / 2, peak_private_bytes: bytes / 2 }],
  };
}

// `names`: of the first ranks, which then have no number.
export function makeFleet(count, names = []) {
  const rows = Array.from({ length: count }, (_, rank) => makeRow(rank, names[rank] ?? ""));
  const deaths = rows.flatMap((row, i) => row.deaths.map((death) => ({ ...death, row: i })));
  const points = 512;
  return {
    schema: "cowprof.fleet-page/1",
    tool: "cowprof 0.1.0",
    fleet: {
      schema: "cowprof.fleet/1",
      sentence: `Worst of ${count}, rank 7: ${names[0] ?? "Reading copied."} All ${count} have this first finding, cow-refcount.`,
      first_death: null,
      deaths,
      common: ["cow-refcount is the first finding in all", ...names],
      unlike: names,
      notes: names,
      sums: { workers_at_once: 2 * count, copied_bytes: null, peak_bytes: count * 100 * 2 ** 20 },
      rows,
    },
    curves: rows.map((row, rank) => ({
      begins_ms: kBegin + rank * 10,
      times_ms: Array.from({ length: points }, (_, i) => i * 234),
      private_kib: Array.from({ length: points }, (_, i) => (i === 5 ? null : Math.round(((100 + (rank % 10)) * 1024 * i) / points))),
    })),
  };
}
