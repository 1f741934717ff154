// Owns parsing the rows of a job's ranks: of a fleet page (cowprof.fleet-page/1), and of a launcher's report.
// Does not: derive a figure; what is not said stays null.
import { readColumn } from "./columns";
import { asList, asNumber, asRecord, asText, asTexts, type Json, type JsonRecord } from "./json";

export const kFleetSchema = "cowprof.fleet-page/1";

export interface Death {
  seconds: number | null; // since the start of the recording
  ms: number | null; // since 1970, by the host's wall clock
  chartMs: number | null; // by the clock of its curve, which differs where the wall clock was set between two recordings
  process: string;
  text: string;
  launcher: boolean; // of the process that started the rank
}

export interface Curve {
  ms: Float64Array; // since 1970, by the clock of its host
  kib: Float64Array; // NaN: not known
}

export interface Rank {
  position: number; // in the order of the report
  recording: string;
  host: string;
  job: string;
  rank: number | null;
  localRank: number | null;
  pid: number | null;
  command: string;
  startedMs: number | null;
  seconds: number | null;
  complete: boolean;
  repeated: boolean; // the same process is in an earlier row, at the same time
  workers: number | null; // at once
  copiedBytes: number | null;
  peakBytes: number | null;
  split: ReadonlyMap<string, number>; // of the peak, in bytes
  outlook: string;
  forecast: string;
  diagnosis: string;
  sentence: string;
  culprit: string; // the line that copies most; "": none
  deaths: Death[];
  launcherDeaths: Death[];
  members: { name: string; copiedBytes: number | null; peakBytes: number | null }[];
  curve: Curve;
}

export interface Fleet {
  tool: string;
  sentence: string;
  deaths: { rank: Rank; death: Death }[]; // in order
  common: string[];
  unlike: string[];
  notes: string[];
  processes: number; // that the rows are of
  workers: number | null; // sums
  copiedBytes: number | null;
  peakBytes: number | null;
  ranks: Rank[];
}

const kParts = ["copied", "pickled", "new", "before_attach", "inherited_freed", "left"];

function parseInstant(value: Json | undefined): number | null {
  const ms = Date.parse(asText(value));
  return Number.isNaN(ms) ? null : ms;
}

function parseDeath(row: JsonRecord): Death {
  const ms = parseInstant(row["wall"]);
  return {
    seconds: asNumber(row["t"]),
    ms,
    chartMs: ms,
    process: asText(row["process"]),
    text: asText(row["text"]),
    launcher: row["launcher"] === true,
  };
}

function parseCulprit(culprit: JsonRecord): string {
  const file = asText(culprit["file"]);
  if (file === "") return "";
  const type = asText(culprit["type"]);
  return `${file}:${asNumber(culprit["line"]) ?? 0} (${asText(culprit["function"])})${type === "" ? "" : `, ${type}`}`;
}

function parseRank(value: Json, position: number): Rank {
  const row = asRecord(value);
  const peak = asRecord(row["peak"]);
  const split = asRecord(peak["split"]);
  const forecast = asRecord(row["forecast"]);
  const headline = asRecord(row["headline"]);
  return {
    position,
    recording: asText(row["recording"]),
    host: asText(row["host"]),
    job: asText(row["job_id"]),
    rank: asNumber(row["rank"]),
    localRank: asNumber(row["local_rank"]),
    pid: asNumber(row["pid"]),
    command: asText(row["command"]),
    startedMs: parseInstant(row["started"]),
    seconds: asNumber(row["duration_seconds"]),
    complete: row["complete"] !== false,
    repeated: row["repeated"] === true,
    workers: asNumber(row["workers_at_once"]),
    copiedBytes: asNumber(row["copied_bytes"]),
    peakBytes: asNumber(peak["bytes"]),
    split: new Map(kParts.map((part) => [part.replace("_", " "), asNumber(split[part]) ?? 0])),
    outlook: asText(forecast["outlook"], "unknown"),
    forecast: asText(forecast["sentence"]),
    diagnosis: asText(headline["diagnosis"]),
    sentence: asText(headline["sentence"]),
    culprit: parseCulprit(asRecord(row["culprit"])),
    deaths: asList(row["deaths"]).map(asRecord).map(parseDeath),
    launcherDeaths: asList(row["launcher_deaths"]).map(asRecord).map(parseDeath),
    members: asList(row["workers"])
      .map(asRecord)
      .map((worker) => ({
        name: asText(worker["name"]),
        copiedBytes: asNumber(worker["copied_bytes"]),
        peakBytes: asNumber(worker["peak_private_bytes"]),
      })),
    curve: { ms: new Float64Array(), kib: new Float64Array() },
  };
}

export function parseRanks(value: Json | undefined): Rank[] {
  return asList(value).map(parseRank);
}

export function parseFleet(page: JsonRecord, binary: Uint8Array): Fleet {
  const fleet = asRecord(page["fleet"]);
  const sums = asRecord(fleet["sums"]);
  const curves = asList(page["curves"]).map(asRecord);
  const ranks = parseRanks(fleet["rows"]).map((rank, i): Rank => {
    const begins = asNumber(curves[i]?.["begins_ms"]) ?? rank.startedMs ?? 0;
    const ms = readColumn(curves[i]?.["times_ms"], binary).values.map((at) => begins + at);
    const deaths = rank.deaths.map((death) => ({ ...death, chartMs: death.seconds === null ? death.ms : begins + death.seconds * 1000 }));
    return { ...rank, deaths, curve: { ms, kib: readColumn(curves[i]?.["private_kib"], binary).values.slice(0, ms.length) } };
  });
  return {
    tool: asText(page["tool"], "cowprof"),
    sentence: asText(fleet["sentence"]),
    deaths: asList(fleet["deaths"])
      .map(asRecord)
      .flatMap((row) => {
        const rank = ranks[asNumber(row["row"]) ?? -1];
        return rank === undefined ? [] : [{ rank, death: parseDeath(row) }];
      }),
    common: asTexts(fleet["common"]),
    unlike: asTexts(fleet["unlike"]),
    notes: asTexts(fleet["notes"]),
    processes: asNumber(sums["processes"]) ?? ranks.filter((rank) => !rank.repeated).length,
    workers: asNumber(sums["workers_at_once"]),
    copiedBytes: asNumber(sums["copied_bytes"]),
    peakBytes: asNumber(sums["peak_bytes"]),
    ranks,
  };
}
