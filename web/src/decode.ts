// Owns the way from the page's data element (base64 of gzip of cowprof.page/1) to a typed Page.
// Called by: main.ts, once.
// Does not: draw; every failure leaves as an Error whose message is a sentence for the reader.
import { asList, asNumber, asRecord, asText, type Json, type JsonRecord } from "./json";
import { parseReport, type Report } from "./report";

export type Measure = "private" | "copied" | "stillShared" | "copiesPerSecond";
export type Columns = Record<Measure, Float64Array>; // KiB, or copies a second; NaN where unknown

export interface Track { index: number; pid: number; role: string; name: string; first: number; columns: Columns }
export interface LimitTrack { kind: string; name: string; unit: string; limit: Float64Array; used: Float64Array }
export interface PageEvent { seconds: number; kind: string; text: string }

export interface Run {
  tool: string; kernel: string; started: string; rung: string; exactness: string;
  intervalSeconds: number | null; pageBytes: number | null; complete: boolean;
}

export interface Page {
  verdict: string;
  run: Run;
  report: Report;
  seconds: Float64Array;
  tracks: Track[];
  totals: Columns;
  limits: LimitTrack[];
  events: PageEvent[];
}

const kSchema = "cowprof.page/1";
const kKeys: Record<Measure, string> = {
  private: "private_kib", copied: "copied_kib", stillShared: "still_shared_kib", copiesPerSecond: "copies_per_second",
};

// First entry absolute, then deltas; null is "unknown here" and the next delta counts from the last known value.
export function decodeDeltas(value: Json | undefined, length: number): Float64Array {
  const coded = asList(value);
  const column = new Float64Array(length).fill(NaN);
  let level = 0;
  for (let i = 0; i < Math.min(length, coded.length); i++) {
    const delta = coded[i];
    if (typeof delta === "number") column[i] = level += delta;
  }
  return column;
}

function decodeColumns(value: Json | undefined, length: number): Columns {
  const coded = asRecord(value);
  const column = (measure: Measure): Float64Array => decodeDeltas(coded[kKeys[measure]], length);
  return {
    private: column("private"), copied: column("copied"),
    stillShared: column("stillShared"), copiesPerSecond: column("copiesPerSecond"),
  };
}

function decodeTrack(value: Json, sampleCount: number, position: number): Track {
  const row = asRecord(value);
  const first = Math.min(Math.max(0, asNumber(row["first"]) ?? 0), sampleCount);
  const count = Math.min(Math.max(0, asNumber(row["count"]) ?? 0), sampleCount - first);
  return {
    index: asNumber(row["index"]) ?? position, pid: asNumber(row["pid"]) ?? 0,
    role: asText(row["role"], "worker"), name: asText(row["name"]),
    first, columns: decodeColumns(row["columns"], count),
  };
}

function decodeLimit(value: Json, length: number): LimitTrack {
  const row = asRecord(value);
  return {
    kind: asText(row["kind"]), name: asText(row["name"]), unit: asText(row["unit"], "bytes"),
    limit: decodeDeltas(row["limit"], length), used: decodeDeltas(row["used"], length),
  };
}

// The exit of a process that the report calls signaled is drawn as what it is: a kill.
function decodeEvent(value: Json, killed: Set<number | null>): PageEvent {
  const row = asRecord(value);
  const kind = asText(row["kind"], "note");
  const isKill = kind === "exit" && killed.has(asNumber(row["pid"]));
  return { seconds: asNumber(row["t"]) ?? 0, kind: isKill ? "killed" : kind, text: asText(row["text"]) };
}

function decodeRun(value: Json | undefined): Run {
  const run = asRecord(value);
  return {
    tool: asText(run["tool"], "cowprof"), kernel: asText(run["kernel"]), started: asText(run["started"]),
    rung: asText(run["rung"]), exactness: asText(run["exactness"]),
    intervalSeconds: asNumber(run["interval_seconds"]), pageBytes: asNumber(run["page_bytes"]),
    complete: run["complete"] !== false,
  };
}

export function parsePage(page: JsonRecord): Page {
  const schema = asText(page["schema"], "nothing known");
  if (schema !== kSchema) throw new Error(`This page holds ${schema}; this viewer reads ${kSchema}. Make the page again with the cowprof that made it.`);
  const count = asList(page["times_ms"]).length;
  const report = parseReport(page["report"]);
  const killed = new Set(report.workers.filter((row) => row.exit?.kind === "signaled").map((row) => row.pid));
  return {
    verdict: asText(page["verdict"]),
    run: decodeRun(page["run"]),
    report,
    seconds: decodeDeltas(page["times_ms"], count).map((ms) => ms / 1000),
    tracks: asList(page["processes"]).map((row, position) => decodeTrack(row, count, position)),
    totals: decodeColumns(page["totals"], count),
    limits: asList(page["limits"]).map((row) => decodeLimit(row, count)),
    events: asList(page["events"]).map((row) => decodeEvent(row, killed)).sort((a, b) => a.seconds - b.seconds),
  };
}

async function unpack(base64: string): Promise<Json> {
  const text = atob(base64);
  const packed = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) packed[i] = text.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text()) as Json;
}

export async function loadPage(element: HTMLElement | null): Promise<Page> {
  const base64 = element?.textContent?.trim() ?? "";
  element?.remove(); // the packed text is of no use any more: give its memory back
  if (base64 === "" || base64.startsWith("__")) throw new Error("This is the empty template. Make a page with: cowprof view TIMELINE -o page.html");
  if (typeof DecompressionStream === "undefined") throw new Error("This browser is too old to unpack the recording (it has no DecompressionStream).");
  let json: Json;
  try {
    json = await unpack(base64);
  } catch {
    throw new Error("The recording in this page can't be read: the file is damaged or cut off. Make it again with: cowprof view TIMELINE -o page.html");
  }
  return parsePage(asRecord(json));
}
