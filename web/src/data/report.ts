// Owns parsing a cowprof.report/1 object into typed values.
// Does not: derive a figure; what the report does not say stays null.
import { parseCauses, parseLines, parseNative, parseRegions, parseTypes, type BlameRow, type Causes } from "./blame";
import { parseRanks, type Rank } from "./fleet";
import { parseShm, type Shm } from "./segments";
import { parseStartMethods, type StartMethods } from "./start_methods";
import { asList, asNumber, asRecord, asText, asTexts, type Json, type JsonRecord } from "./json";

export interface Exit {
  kind: string;
  code: number | null;
  signal: string;
  cause: string;
  text: string; // "": an older report has none
}

export interface Process {
  pid: number | null;
  index: number | null;
  role: string;
  worker: boolean; // it counts as one
  label: string; // "worker 1 of rank 0"; of an older report the role
  startedAt: number | null;
  endedAt: number | null;
  copies: number | null;
  copiedBytes: number | null;
  privateBytes: number | null;
  peakPrivateBytes: number | null;
  stillSharedBytes: number | null;
  reuses: number | null;
  zeroFills: number | null;
  causes: Causes | null;
  copySeconds: number | null;
  types: BlameRow[]; // the largest ones; empty if unknown
  lines: BlameRow[];
  exit: Exit | null;
}

export interface Limit {
  kind: string;
  name: string;
  unit: string;
  limit: number | null;
  used: number | null;
  peak: number | null;
  ratio: number | null;
  peakRatio: number | null; // of the limit of that moment, which may have changed since
}

export interface Diagnosis {
  id: string;
  confidence: number | null;
  summary: string;
  evidence: string[];
  advice: string[];
  sketch: string;
  pids: number[];
  saves: { low: number; high: number } | null; // bytes that the advice saves; null: not known
}
// The same for spawn and forkserver.
export interface Remedy {
  action: string;
  saves: string; // of the workers' peak: "30.3 MiB to 37.9 MiB", "nothing", "unknown"
  savesCopied: number | null; // bytes that would not be copied again and again
  cost: string;
  restsOn: string;
  obstacle: string; // what stands against it, or may; "": nothing
}

export interface Verify {
  pages: number;
  identical: number | null;
  refcountOnly: number | null;
  gcHeaderOnly: number | null;
  hashOnly: number | null;
  data: number | null;
}
interface Evidence {
  looked: number | null;
  told: number | null;
  audited: number | null;
  contradicted: number | null;
  stackSamples: number | null;
  copyNs: number | null;
}

interface Interval {
  low: number | null;
  best: number | null;
  high: number | null;
}
export interface LimitForecast extends Pick<Limit, "kind" | "name" | "unit" | "limit" | "used"> {
  peak: Interval;
  etaSeconds: number | null;
  verdict: string;
}
export interface Forecast {
  sentence: string;
  ended: boolean;
  nearestLimit: LimitForecast | null;
  etaLimitSeconds: number | null;
  verdict: string;
}

export interface Report {
  pid: number | null;
  command: string;
  python: string;
  headline: string; // "": a page made before 0.2
  startMethod: string;
  host: string;
  job: string;
  labels: string[]; // "key=value"
  durationSeconds: number | null;
  samples: number | null;
  exactness: string;
  rung: string;
  parent: Process | null;
  workers: Process[];
  workerSlots: { atOnce: number; started: number } | null;
  unlisted: { processes: number; copiedBytes: number | null } | null; // of very many that have ended
  copies: number | null;
  copiedBytes: number | null;
  workersCopiedBytes: number | null;
  peakWorkersPrivateBytes: number | null;
  copySeconds: number | null;
  causes: Causes | null;
  types: BlameRow[];
  lines: BlameRow[];
  native: BlameRow[];
  regions: BlameRow[];
  evidence: Evidence;
  verify: Verify | null;
  limits: Limit[];
  nearestLimit: Limit | null; // of a program that has ended: by its peak
  shm: Shm | null;
  forecast: Forecast;
  diagnoses: Diagnosis[];
  ranks: Rank[]; // of a launcher
  remedies: Remedy[]; // the largest gain first
  startMethods: StartMethods | null; // null: nothing was found that a worker would be sent, or nobody looked
  pagesDropped: number;
}

function parseExit(value: Json | undefined): Exit | null {
  const exit = asRecord(value);
  const kind = asText(exit["kind"]);
  if (kind === "") return null;
  return { kind, code: asNumber(exit["code"]), signal: asText(exit["signal"]), cause: asText(exit["cause"]), text: asText(exit["text"]) };
}

// A forked rank without workers of its own counts as a worker, too; older pages only have the role.
export function countsAsWorker(row: JsonRecord): boolean {
  const { worker } = row;
  return typeof worker === "boolean" ? worker : ["worker", "pool"].includes(asText(row["role"], "worker"));
}

function parseProcess(value: Json): Process {
  const row = asRecord(value);
  return {
    pid: asNumber(row["pid"]),
    index: asNumber(row["index"]),
    role: asText(row["role"], "worker"),
    worker: countsAsWorker(row),
    label: asText(row["label"]) || asText(row["role"], "worker"),
    startedAt: asNumber(row["started_at"]),
    endedAt: asNumber(row["ended_at"]),
    copies: asNumber(row["copies"]),
    copiedBytes: asNumber(row["copied_bytes"]),
    privateBytes: asNumber(row["private_bytes"]),
    peakPrivateBytes: asNumber(row["peak_private_bytes"]),
    stillSharedBytes: asNumber(row["still_shared_bytes"]),
    reuses: asNumber(row["reuses"]),
    zeroFills: asNumber(row["zero_fills"]),
    causes: parseCauses(row["by_cause"]),
    copySeconds: asNumber(row["copy_seconds"]),
    types: parseTypes(row["by_type"]),
    lines: parseLines(row["by_line"]),
    exit: parseExit(row["exit"]),
  };
}

// Older reports have no share at the peak.
function parseLimit(value: Json): Limit {
  const row = asRecord(value);
  const [limit, peak] = [asNumber(row["limit"]), asNumber(row["peak"])];
  return {
    kind: asText(row["kind"]),
    name: asText(row["name"]),
    unit: asText(row["unit"], "bytes"),
    limit,
    used: asNumber(row["used"]),
    peak,
    ratio: asNumber(row["ratio"]),
    peakRatio: asNumber(row["peak_ratio"]) ?? (limit !== null && limit > 0 && peak !== null ? peak / limit : null),
  };
}

// As in the verdict.
function nearestAtPeak(limits: Limit[]): Limit | null {
  const share = (limit: Limit | null): number => limit?.peakRatio ?? 0;
  return limits.reduce((top: Limit | null, limit) => (share(limit) > share(top) ? limit : top), null);
}

function parseDiagnosis(value: Json): Diagnosis {
  const row = asRecord(value);
  const saves = asRecord(row["saves_bytes"]);
  const [low, high] = [asNumber(saves["low"]), asNumber(saves["high"])];
  return {
    id: asText(row["id"]),
    confidence: asNumber(row["confidence"]),
    summary: asText(row["summary"]),
    evidence: asTexts(row["evidence"]),
    advice: asTexts(row["advice"]),
    sketch: asText(row["sketch"]),
    pids: asList(row["pids"]).filter((pid): pid is number => typeof pid === "number"),
    saves: low === null || high === null ? null : { low, high },
  };
}

function parseRemedy(row: JsonRecord): Remedy {
  return {
    action: asText(row["action"]),
    saves: asText(row["saves"]),
    savesCopied: asNumber(row["saves_copied_bytes"]),
    cost: asText(row["cost"]),
    restsOn: asText(row["rests_on"]),
    obstacle: asText(row["obstacle"]),
  };
}

function parseEvidence(exactness: JsonRecord): Evidence {
  const causes = asRecord(exactness["causes"]);
  return {
    looked: asNumber(causes["looked"]),
    told: asNumber(causes["told_by_instruction"]),
    audited: asNumber(causes["audited"]),
    contradicted: asNumber(causes["contradicted"]),
    stackSamples: asNumber(asRecord(exactness["stacks"])["samples"]),
    copyNs: asNumber(exactness["copy_ns"]),
  };
}

function parseVerify(value: Json | undefined): Verify | null {
  const verify = asRecord(value);
  const pages = asNumber(verify["pages"]);
  if (pages === null || pages <= 0) return null;
  return {
    pages,
    identical: asNumber(verify["identical"]),
    refcountOnly: asNumber(verify["refcount_only"]),
    gcHeaderOnly: asNumber(verify["gc_header_only"]),
    hashOnly: asNumber(verify["hash_only"]),
    data: asNumber(verify["data"]),
  };
}

function parseLimitForecast(value: Json): LimitForecast {
  const row = asRecord(value);
  const peak = asRecord(row["peak"]);
  const { kind, name, unit, limit, used } = parseLimit(value);
  return {
    kind,
    name,
    unit,
    limit,
    used,
    etaSeconds: asNumber(row["eta_seconds"]),
    verdict: asText(row["verdict"], "unknown"),
    peak: { low: asNumber(peak["low"]), best: asNumber(peak["best"]), high: asNumber(peak["high"]) },
  };
}

function parseForecast(value: Json | undefined): Forecast {
  const forecast = asRecord(value);
  return {
    sentence: asText(forecast["sentence"]),
    ended: forecast["ended"] === true,
    etaLimitSeconds: asNumber(forecast["eta_limit_seconds"]),
    verdict: asText(forecast["verdict"], "unknown"),
    nearestLimit: asList(forecast["limits"]).map(parseLimitForecast)[asNumber(forecast["nearest_limit"]) ?? -1] ?? null,
  };
}

function parseWorkerSlots(value: Json | undefined): Report["workerSlots"] {
  const slots = asRecord(value);
  const [atOnce, started] = [asNumber(slots["living_at_once"]), asNumber(slots["started"])];
  return atOnce === null || started === null ? null : { atOnce, started };
}

function parseUnlisted(value: Json | undefined): Report["unlisted"] {
  const unlisted = asRecord(value);
  const processes = asNumber(unlisted["processes"]) ?? 0;
  return processes > 0 ? { processes, copiedBytes: asNumber(unlisted["copied_bytes"]) } : null;
}

// Older reports do not sum the workers.
function parseWorkersCopied(totals: JsonRecord, workers: Process[]): number | null {
  const told = asNumber(totals["workers_copied_bytes"]);
  const counted = workers.flatMap(({ worker, copiedBytes }) => (worker && copiedBytes !== null ? [copiedBytes] : []));
  return told ?? (counted.length === 0 ? null : counted.reduce((sum, bytes) => sum + bytes));
}

// Of the total, 0 means that it is not known.
function parseWorkersPeak(report: JsonRecord, totals: JsonRecord): number | null {
  const peak = asNumber(asRecord(report["peak"])["bytes"]) ?? asNumber(totals["peak_workers_private_bytes"]);
  return peak === 0 ? null : peak;
}

export function parseReport(value: Json | undefined): Report {
  const report = asRecord(value);
  const target = asRecord(report["target"]);
  const identity = asRecord(report["identity"]);
  const exactness = asRecord(report["exactness"]);
  const totals = asRecord(report["totals"]);
  const parent = asRecord(report["parent"]);
  const losses = asRecord(report["losses"]);
  const workers = asList(report["workers"]).map(parseProcess);
  const forecast = parseForecast(report["forecast"]);
  const limits = asList(report["limits"]).map(parseLimit);
  const nearest = (forecast.ended ? nearestAtPeak(limits) : null) ?? limits[asNumber(report["nearest_limit"]) ?? -1] ?? null;
  return {
    pid: asNumber(target["pid"]),
    command: asText(target["command"]),
    headline: asText(asRecord(report["headline"])["sentence"]),
    python: asText(target["python"]),
    startMethod: asText(target["start_method"]),
    host: asText(identity["host"]),
    job: asText(identity["job_id"]),
    labels: Object.entries(asRecord(identity["labels"])).map(([key, value]) => `${key}=${asText(value)}`),
    durationSeconds: asNumber(report["duration_seconds"]),
    samples: asNumber(report["samples"]),
    exactness: asText(exactness["copies"]),
    rung: asText(exactness["rung"]),
    parent: "pid" in parent ? parseProcess({ ...parent, role: "parent" }) : null,
    workers,
    workerSlots: parseWorkerSlots(report["worker_slots"]),
    unlisted: parseUnlisted(report["unlisted"]),
    copies: asNumber(totals["copies"]),
    copiedBytes: asNumber(totals["copied_bytes"]),
    workersCopiedBytes: parseWorkersCopied(totals, workers),
    peakWorkersPrivateBytes: parseWorkersPeak(report, totals),
    copySeconds: asNumber(totals["copy_seconds"]),
    causes: parseCauses(totals["by_cause"]),
    types: parseTypes(report["by_type"]),
    lines: parseLines(report["by_line"]),
    native: parseNative(report["by_native"]),
    regions: parseRegions(report["by_region"]),
    evidence: parseEvidence(exactness),
    verify: parseVerify(report["verify"]),
    limits,
    nearestLimit: nearest,
    shm: parseShm(report["shm"]),
    forecast,
    diagnoses: asList(report["diagnoses"]).map(parseDiagnosis),
    ranks: parseRanks(report["ranks"]),
    remedies: asList(report["remedies"]).map(asRecord).map(parseRemedy),
    startMethods: parseStartMethods(report["start_methods"]),
    pagesDropped: asNumber(losses["pages_dropped"]) ?? 0,
  };
}
