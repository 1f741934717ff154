// Owns parsing what copied how much: causes, and the rows by type, line, native code and region.
// Does not: derive a figure; what the report does not say stays null.
import { asList, asNumber, asRecord, asText, type Json, type JsonRecord } from "./json";

export type Causes = ReadonlyMap<string, number>; // copies by cause; unknown ones are missing

export interface BlameRow {
  name: string; // the full name: a type, a place in a file, a symbol
  detail: string; // shown beside it: a function, a module, an address
  path: string; // the part of the name that may be shortened, or ""
  copies: number | null;
  bytes: number | null;
  pages: number | null; // size of a region
  share: number | null;
  estimated: boolean;
  uncertainty: number | null; // of the share
  causes: Causes | null;
}

// Null if no cause is known.
export function parseCauses(value: Json | undefined): Causes | null {
  const known = Object.entries(asRecord(value)).flatMap(([cause, copies]) => {
    const count = asNumber(copies);
    return count === null ? [] : [[cause, count] as const];
  });
  return known.length === 0 ? null : new Map(known);
}

function parseRow(row: JsonRecord, name: string, detail: string, path = ""): BlameRow {
  return {
    name,
    detail,
    path,
    copies: asNumber(row["copies"]),
    bytes: asNumber(row["bytes"]),
    pages: asNumber(row["pages"]),
    share: asNumber(row["share"]),
    estimated: row["estimated"] === true,
    uncertainty: asNumber(row["share_uncertainty"]),
    causes: parseCauses(row["by_cause"]),
  };
}

// A line, its function, and the library that it called, if the copies were made in there.
export function lineNames(file: string, line: number, name: string, via: string): Pick<BlameRow, "name" | "detail" | "path"> {
  return {
    name: line > 0 ? `${file}:${line}` : file,
    detail: [name, via === "" ? "" : `via ${via}`].filter((part) => part !== "").join(", "),
    path: file,
  };
}

function parseLine(row: JsonRecord): BlameRow {
  const names = lineNames(asText(row["file"], "?"), asNumber(row["line"]) ?? 0, asText(row["function"]), asText(row["via"]));
  return parseRow(row, names.name, names.detail, names.path);
}

function parseRegion(row: JsonRecord): BlameRow {
  const start = asNumber(row["start"]);
  const name = [asText(row["kind"]), asText(row["name"])].filter((part) => part !== "").join(" ") || "?";
  const parsed = parseRow(row, name, start === null ? asText(row["start"]) : `0x${start.toString(16)}`);
  // A region's bytes are its size, not what was copied. 0 pages: no sweep has seen it since it was filled.
  return {
    ...parsed,
    bytes: null,
    pages: parsed.pages === 0 ? null : parsed.pages,
    copies: asNumber(row["copied_pages"]) ?? parsed.copies,
  };
}

const rows = (value: Json | undefined, parse: (row: JsonRecord) => BlameRow): BlameRow[] => asList(value).map(asRecord).map(parse);

export const parseTypes = (value: Json | undefined): BlameRow[] => rows(value, (row) => parseRow(row, asText(row["type"], "?"), ""));
export const parseLines = (value: Json | undefined): BlameRow[] => rows(value, parseLine);
export const parseNative = (value: Json | undefined): BlameRow[] =>
  rows(value, (row) => parseRow(row, asText(row["symbol"]) || "(no symbol)", asText(row["module"])));
export const parseRegions = (value: Json | undefined): BlameRow[] => rows(value, parseRegion);
