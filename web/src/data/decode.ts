// Owns decoding a payload (base64 of gzip of cowprof.page/2) into a typed Page. Columns stay packed until they are read.
// Does not: touch the DOM. Every failure is an Error whose message is a sentence for the reader.
import { readColumn, type Column } from "./columns";
import { parseComparisons, type Comparison } from "./comparison";
import { kFleetSchema, parseFleet, type Fleet } from "./fleet";
import { asList, asNumber, asRecord, asText, asTexts, type Json, type JsonRecord } from "./json";
import { fromBase64, unpackParts } from "./payload";
import { countsAsWorker, parseReport, type Report } from "./report";

export type Measure = "private" | "stillShared" | "pss" | "copies";
type Columns = Record<Measure, Column>; // KiB; copies: cumulative count
export type CauseColumns = ReadonlyMap<string, Column>; // cumulative copies; causes that don't occur are missing

export interface Track {
  index: number;
  pid: number;
  role: string;
  worker: boolean; // it counts as one
  label: string;
  name: string;
  parent: number | null;
  space: number | null;
  wasThere: boolean; // when cowprof attached, with memory of its own
  started: number | null;
  ended: number | null; // seconds
  first: number; // index of the sample at which its columns begin
  columns: Columns;
  causes: CauseColumns;
}
interface Totals extends Columns {
  workersPrivate: Column;
  peakPrivate: number; // KiB, of every sample, kept or not; 0: not known
  causes: CauseColumns;
}
export interface LimitTrack {
  kind: string;
  name: string;
  unit: string;
  limit: Column;
  used: Column;
} // KiB or a count

// What cowprof forecast at each sample: KiB, and seconds from then on.
interface Forecasts {
  saidMs: Column; // when it was made; later samples repeat it until the next
  low: Column;
  best: Column;
  high: Column;
  ceiling: Column;
  eta: Column;
  limitEta: Column;
  limit: Column;
}
export interface PageEvent {
  seconds: number;
  kind: string;
  text: string;
}
interface Frame {
  file: string;
  function: string;
  line: number;
}
export interface Place {
  cause: string;
  type: string;
  module: string;
  symbol: string;
  frames: number[]; // innermost first
  line: number; // of these the one that the report counts it under; -1: none
  via: string; // the library that this line called, if the copy was made in there
}

// One entry per (process, place), its steps in sequence: from checkpoint `at` on, `copies` in total.
export interface Blame {
  timesMs: Column;
  index: Column;
  place: Column;
  steps: Column;
  at: Column;
  copies: Column;
}
export interface Region {
  kind: string;
  name: string;
  start: number;
  bytes: number;
  space: number;
}
interface RegionCounts {
  timesMs: Column;
  index: Column;
  region: Column;
  privatePages: Column;
  sharedPages: Column;
  newPages: Column;
}
interface PageRuns {
  timesMs: Column;
  index: Column;
  cause: Column;
  firstPage: Column;
  pages: Column;
} // cause: index into kCauseOrder

export interface Run {
  tool: string;
  kernel: string;
  started: string;
  rung: string;
  exactness: string;
  intervalSeconds: number | null;
  pageBytes: number | null;
  complete: boolean;
  live: boolean;
}

export interface Page {
  verdict: string;
  warnings: string[]; // sentences: no end, losses
  run: Run;
  report: Report;
  seconds: Float64Array;
  processes: Track[];
  totals: Totals;
  limits: LimitTrack[];
  forecasts: Forecasts;
  events: PageEvent[];
  eventsDropped: number; // of very many, the page omits the least important
  frames: Frame[];
  places: Place[];
  blame: Blame;
  regions: Region[];
  regionCounts: RegionCounts;
  pages: PageRuns;
  pagesOmitted: number; // of very many copied pages, the page omits some
  regionCountsOmitted: number; // of very many regions, the page omits some
  comparisons: Comparison[]; // of the second of two recordings: with the first, and of the first with it
}

export const kCauseOrder = [
  "refcount",
  "gc_header",
  "allocator",
  "bytecode",
  "hash",
  "data",
  "free",
  "kernel",
  "unknown",
  "native_refcount",
  "malloc_reuse",
];
const kSchema = "cowprof.page/2";

type Read = (value: Json | undefined) => Column;

function decodeColumns(row: JsonRecord, read: Read): Columns {
  return {
    private: read(row["private_kib"]),
    stillShared: read(row["still_shared_kib"]),
    pss: read(row["pss_kib"]),
    copies: read(row["copies"]),
  };
}

function decodeCauses(value: Json | undefined, read: Read): CauseColumns {
  return new Map(Object.entries(asRecord(value)).map(([cause, column]) => [cause, read(column)]));
}

function decodeTrack(value: Json, position: number, sampleCount: number, read: Read): Track {
  const row = asRecord(value);
  return {
    index: asNumber(row["index"]) ?? position,
    pid: asNumber(row["pid"]) ?? 0,
    role: asText(row["role"], "worker"),
    worker: countsAsWorker(row),
    label: asText(row["label"]) || asText(row["role"], "worker"),
    name: asText(row["name"]),
    parent: asNumber(row["parent"]),
    space: asNumber(row["space"]),
    wasThere: row["was_there"] === true,
    started: asNumber(row["started"]),
    ended: asNumber(row["ended"]),
    first: Math.min(Math.max(0, asNumber(row["first"]) ?? 0), sampleCount),
    columns: decodeColumns(row, read),
    causes: decodeCauses(row["causes"], read),
  };
}

function decodeLimit(value: Json, read: Read): LimitTrack {
  const row = asRecord(value);
  return {
    kind: asText(row["kind"]),
    name: asText(row["name"]),
    unit: asText(row["unit"], "bytes"),
    limit: read(row["limit"]),
    used: read(row["used"]),
  };
}

function decodeForecasts(row: JsonRecord, read: Read): Forecasts {
  return {
    saidMs: read(row["said_ms"]),
    low: read(row["low_kib"]),
    best: read(row["best_kib"]),
    high: read(row["high_kib"]),
    ceiling: read(row["ceiling_kib"]),
    eta: read(row["eta_s"]),
    limitEta: read(row["limit_eta_s"]),
    limit: read(row["limit"]),
  };
}

// An exit is shown as a kill if the report says that a signal ended that process. Keyed by index, as pids come again.
function decodeEvent(value: Json, killed: Set<number>): PageEvent {
  const row = asRecord(value);
  const kind = asText(row["kind"], "note");
  const index = asNumber(row["index"]);
  const isKill = kind === "exit" && index !== null && killed.has(index);
  return { seconds: asNumber(row["t"]) ?? 0, kind: isKill ? "killed" : kind, text: asText(row["text"]) };
}

function decodeFrame(value: Json): Frame {
  const [file, name, line] = asList(value);
  return { file: asText(file, "?"), function: asText(name), line: asNumber(line) ?? 0 };
}

function decodePlace(value: Json): Place {
  const row = asRecord(value);
  const frames = asList(row["frames"]).filter((frame): frame is number => typeof frame === "number");
  return {
    cause: asText(row["cause"], "unknown"),
    type: asText(row["type"]),
    module: asText(row["module"]),
    symbol: asText(row["symbol"]),
    frames,
    line: asNumber(row["line"]) ?? frames[0] ?? -1, // older pages name no line
    via: asText(row["via"]),
  };
}

function decodeRegion(value: Json): Region {
  const row = asRecord(value);
  return {
    kind: asText(row["kind"]),
    name: asText(row["name"]),
    start: asNumber(row["start"]) ?? 0,
    bytes: asNumber(row["bytes"]) ?? 0,
    space: asNumber(row["space"]) ?? 0,
  };
}

function decodeBlame(row: JsonRecord, read: Read): Blame {
  return {
    timesMs: read(row["times_ms"]),
    index: read(row["index"]),
    place: read(row["place"]),
    steps: read(row["steps"]),
    at: read(row["at"]),
    copies: read(row["copies"]),
  };
}

function decodeRegionCounts(row: JsonRecord, read: Read): RegionCounts {
  return {
    timesMs: read(row["t_ms"]),
    index: read(row["index"]),
    region: read(row["region"]),
    privatePages: read(row["private_pages"]),
    sharedPages: read(row["shared_pages"]),
    newPages: read(row["new_pages"]),
  };
}

function decodePageRuns(row: JsonRecord, read: Read): PageRuns {
  return {
    timesMs: read(row["t_ms"]),
    index: read(row["index"]),
    cause: read(row["cause"]),
    firstPage: read(row["first_page"]),
    pages: read(row["pages"]),
  };
}

function decodeRun(value: Json | undefined): Run {
  const run = asRecord(value);
  return {
    tool: asText(run["tool"], "cowprof"),
    kernel: asText(run["kernel"]),
    started: asText(run["started"]),
    rung: asText(run["rung"]),
    exactness: asText(run["exactness"]),
    intervalSeconds: asNumber(run["interval_seconds"]),
    pageBytes: asNumber(run["page_bytes"]),
    complete: run["complete"] !== false,
    live: run["live"] === true,
  };
}

function parsePage(page: JsonRecord, binary: Uint8Array): Page {
  const schema = asText(page["schema"], "nothing known");
  if (schema === kFleetSchema) throw new Error("That is the page of a job with several ranks. Choose the page of one recording.");
  if (schema !== kSchema)
    throw new Error(
      `This page holds ${schema}; this viewer reads ${kSchema}. Make that page again from its recording, with the cowprof that made the one you have open.`,
    );
  const read: Read = (value) => readColumn(value, binary);
  const rows = (key: string): Json[] => asList(page[key]);
  const record = (key: string): JsonRecord => asRecord(page[key]);
  const seconds = read(page["times_ms"]).values.map((ms) => ms / 1000);
  const report = parseReport(page["report"]);
  const killed = new Set(
    [report.parent, ...report.workers].flatMap((row) => (row?.exit?.kind === "signaled" && row.index !== null ? [row.index] : [])),
  );
  return {
    verdict: asText(page["verdict"]),
    warnings: asTexts(page["warnings"]),
    run: decodeRun(page["run"]),
    report,
    seconds,
    processes: rows("processes").map((row, position) => decodeTrack(row, position, seconds.length, read)),
    totals: {
      ...decodeColumns(record("totals"), read),
      workersPrivate: read(record("totals")["workers_private_kib"]),
      peakPrivate: asNumber(record("totals")["peak_private_kib"]) ?? 0,
      causes: decodeCauses(record("totals")["causes"], read),
    },
    limits: rows("limits").map((row) => decodeLimit(row, read)),
    forecasts: decodeForecasts(record("forecasts"), read),
    events: rows("events")
      .map((row) => decodeEvent(row, killed))
      .sort((a, b) => a.seconds - b.seconds),
    eventsDropped: asNumber(page["events_dropped"]) ?? 0,
    frames: rows("frames").map(decodeFrame),
    places: rows("places").map(decodePlace),
    blame: decodeBlame(record("blame"), read),
    regions: rows("regions").map(decodeRegion),
    regionCounts: decodeRegionCounts(record("region_counts"), read),
    pages: decodePageRuns(record("pages"), read),
    pagesOmitted: asNumber(page["pages_dropped"]) ?? 0,
    regionCountsOmitted: asNumber(page["region_counts_dropped"]) ?? 0,
    comparisons: parseComparisons(page["comparisons"]),
  };
}

// One recording, as the server of a live run sends it.
export async function parsePacked(packed: Uint8Array<ArrayBuffer>): Promise<Page> {
  const { json, binary } = await unpackParts(packed);
  return parsePage(json, binary);
}

// One recording, as a page embeds it.
export async function parsePayload(base64: string): Promise<Page> {
  return parsePacked(fromBase64(base64));
}

// What the text of a page holds: a recording, two to compare, or the ranks of a job.
export async function parseContents(text: string): Promise<Page[] | Fleet> {
  if (text === "" || text.startsWith("__"))
    throw new Error("This is the empty template. Make a page with: cowprof view TIMELINE -o page.html");
  const parts = await Promise.all(
    text
      .split("\n")
      .slice(0, 2)
      .map((line) => unpackParts(fromBase64(line))),
  );
  const [first] = parts;
  if (first !== undefined && first.json["schema"] === kFleetSchema) return parseFleet(first.json, first.binary);
  return parts.map(({ json, binary }) => parsePage(json, binary));
}

// The schema that a JSON file names near its beginning, without its version; "" if it isn't cowprof's.
export function schemaIn(head: string): string {
  return /"schema"\s*:\s*"(cowprof\.[a-z]+)\/\d+"/.exec(head)?.[1] ?? "";
}
