// Owns parsing the report's shared memory: the mount's figures and its segments, at the last reading and at the fullest.
// Does not: judge who owns a segment; the report does.
import { asList, asNumber, asRecord, asText, type Json, type JsonRecord } from "./json";

export interface Segment {
  name: string;
  kind: string;
  ownership: string;
  bytes: number | null;
  lengthBytes: number | null;
  deleted: boolean;
  creator: number | null;
  creatorAlive: boolean;
  owners: number[];
  allExamined: boolean; // false: a process that was not looked at may use it
  key: string;
}
export interface ShmLook {
  mount: string;
  capacityBytes: number | null;
  usedBytes: number | null;
  segments: Segment[];
  omitted: { segments: number; bytes: number }; // small ones
  batches: { segments: number; bytesEach: number; bytes: number } | null; // null: none were found
}
export interface Shm extends ShmLook {
  atPeak: ShmLook | null;
}

const asPids = (value: Json | undefined): number[] => asList(value).filter((pid): pid is number => typeof pid === "number");

function parseSegment(value: Json, allExamined: boolean): Segment {
  const row = asRecord(value);
  return {
    name: asText(row["name"], "?"),
    kind: asText(row["kind"]),
    ownership: asText(row["ownership"], "unknown"),
    bytes: asNumber(row["bytes"]),
    lengthBytes: asNumber(row["length_bytes"]),
    deleted: row["deleted"] === true,
    creator: asNumber(row["creator"]),
    creatorAlive: row["creator_alive"] === true,
    owners: [...new Set([...asPids(row["mapped_by"]), ...asPids(row["opened_by"])])].sort((a, b) => a - b),
    allExamined,
    key: `${asNumber(row["device"]) ?? ""} ${asNumber(row["inode"]) ?? ""} ${asText(row["name"])}`,
  };
}

function parseBatches(value: Json | undefined): ShmLook["batches"] {
  const row = asRecord(value);
  const [segments, bytesEach, bytes] = [asNumber(row["segments"]), asNumber(row["bytes_each"]), asNumber(row["bytes"])];
  return segments === null || bytesEach === null || bytes === null ? null : { segments, bytesEach, bytes };
}

function parseLook(look: JsonRecord): ShmLook {
  const omitted = asRecord(look["omitted"]);
  return {
    mount: asText(look["mount"]),
    capacityBytes: asNumber(look["capacity_bytes"]),
    usedBytes: asNumber(look["used_bytes"]),
    segments: asList(look["segments"]).map((segment) => parseSegment(segment, look["complete"] !== false)),
    omitted: { segments: asNumber(omitted["segments"]) ?? 0, bytes: asNumber(omitted["bytes"]) ?? 0 },
    batches: parseBatches(look["batches"]),
  };
}

export function parseShm(value: Json | undefined): Shm | null {
  const shm = asRecord(value);
  if (!("mount" in shm)) return null;
  const peak = asRecord(shm["at_peak"]);
  return { ...parseLook(shm), atPeak: "mount" in peak ? parseLook(peak) : null };
}
