// Owns the reading of a cowprof.report/1 object into typed values.
// Called by: decode.ts.
// Does not: derive a figure; what the report does not say stays null.
import { asList, asNumber, asRecord, asText, asTexts, type Json, type JsonRecord } from "./json";

export interface Exit { kind: string; code: number | null; signal: string; cause: string }

export interface Process {
  pid: number | null;
  index: number | null;
  role: string;
  endedAt: number | null;
  copies: number | null;
  copiedBytes: number | null;
  privateBytes: number | null;
  peakPrivateBytes: number | null;
  stillSharedBytes: number | null;
  reuses: number | null;
  zeroFills: number | null;
  exit: Exit | null;
}

export interface Limit {
  kind: string; name: string; unit: string;
  limit: number | null; used: number | null; peak: number | null; ratio: number | null;
}

export interface Diagnosis { id: string; confidence: number | null; summary: string; evidence: string[]; advice: string[] }
export interface Share { label: string; detail: string; copies: number | null; bytes: number | null; share: number | null; estimated: boolean }

export interface Report {
  pid: number | null;
  command: string;
  python: string;
  startMethod: string;
  durationSeconds: number | null;
  samples: number | null;
  exactness: string;
  rung: string;
  parent: Process | null;
  workers: Process[];
  copies: number | null;
  copiedBytes: number | null;
  byCause: { cause: string; copies: number }[];
  byType: Share[];
  byLine: Share[];
  limits: Limit[];
  forecast: { shape: string; ceilingBytes: number | null; firstLimit: string; etaLimitSeconds: number | null; verdict: string };
  diagnoses: Diagnosis[];
  losses: { what: string; count: number }[];
}

function parseExit(value: Json | undefined): Exit | null {
  const exit = asRecord(value);
  const kind = asText(exit["kind"]);
  if (kind === "") return null;
  return { kind, code: asNumber(exit["code"]), signal: asText(exit["signal"]), cause: asText(exit["cause"]) };
}

function parseProcess(value: Json): Process {
  const row = asRecord(value);
  return {
    pid: asNumber(row["pid"]),
    index: asNumber(row["index"]),
    role: asText(row["role"], "worker"),
    endedAt: asNumber(row["ended_at"]),
    copies: asNumber(row["copies"]),
    copiedBytes: asNumber(row["copied_bytes"]),
    privateBytes: asNumber(row["private_bytes"]),
    peakPrivateBytes: asNumber(row["peak_private_bytes"]),
    stillSharedBytes: asNumber(row["still_shared_bytes"]),
    reuses: asNumber(row["reuses"]),
    zeroFills: asNumber(row["zero_fills"]),
    exit: parseExit(row["exit"]),
  };
}

function parseLimit(value: Json): Limit {
  const row = asRecord(value);
  return {
    kind: asText(row["kind"]), name: asText(row["name"]), unit: asText(row["unit"], "bytes"),
    limit: asNumber(row["limit"]), used: asNumber(row["used"]), peak: asNumber(row["peak"]), ratio: asNumber(row["ratio"]),
  };
}

function parseDiagnosis(value: Json): Diagnosis {
  const row = asRecord(value);
  return {
    id: asText(row["id"]), confidence: asNumber(row["confidence"]), summary: asText(row["summary"]),
    evidence: asTexts(row["evidence"]), advice: asTexts(row["advice"]),
  };
}

function parseShare(row: JsonRecord, label: string, detail: string): Share {
  return {
    label, detail, copies: asNumber(row["copies"]), bytes: asNumber(row["bytes"]), share: asNumber(row["share"]),
    estimated: row["estimated"] === true,
  };
}

function parseLine(value: Json): Share {
  const row = asRecord(value);
  const line = asNumber(row["line"]);
  const place = asText(row["file"], "?") + (line === null ? "" : `:${line}`);
  return parseShare(row, place, asText(row["function"]));
}

function parseCounts(value: Json | undefined): { key: string; count: number }[] {
  return Object.entries(asRecord(value))
    .map(([key, count]) => ({ key, count: asNumber(count) ?? 0 }))
    .filter((entry) => entry.count > 0);
}

function parseForecast(value: Json | undefined): Report["forecast"] {
  const forecast = asRecord(value);
  return {
    shape: asText(forecast["shape"]), ceilingBytes: asNumber(forecast["ceiling_bytes"]),
    firstLimit: asText(forecast["first_limit"]), etaLimitSeconds: asNumber(forecast["eta_limit_seconds"]),
    verdict: asText(forecast["verdict"], "unknown"),
  };
}

export function parseReport(value: Json | undefined): Report {
  const report = asRecord(value);
  const target = asRecord(report["target"]);
  const exactness = asRecord(report["exactness"]);
  const totals = asRecord(report["totals"]);
  const parent = asRecord(report["parent"]);
  return {
    pid: asNumber(target["pid"]),
    command: asText(target["command"]),
    python: asText(target["python"]),
    startMethod: asText(target["start_method"]),
    durationSeconds: asNumber(report["duration_seconds"]),
    samples: asNumber(report["samples"]),
    exactness: asText(exactness["copies"]),
    rung: asText(exactness["rung"]),
    parent: "pid" in parent ? parseProcess({ ...parent, role: "parent" }) : null,
    workers: asList(report["workers"]).map(parseProcess),
    copies: asNumber(totals["copies"]),
    copiedBytes: asNumber(totals["copied_bytes"]),
    byCause: parseCounts(totals["by_cause"]).map(({ key, count }) => ({ cause: key, copies: count })),
    byType: asList(report["by_type"]).map(asRecord).map((row) => parseShare(row, asText(row["type"], "?"), "")),
    byLine: asList(report["by_line"]).map(parseLine),
    limits: asList(report["limits"]).map(parseLimit),
    forecast: parseForecast(report["forecast"]),
    diagnoses: asList(report["diagnoses"]).map(parseDiagnosis),
    losses: parseCounts(report["losses"]).map(({ key, count }) => ({ what: key.replaceAll("_", " "), count })),
  };
}
