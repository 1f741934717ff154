// Owns parsing what the report says of start methods: what pickle refuses of what a worker would be sent.
// Does not: judge; sentence and reasons are the report's.
import { asList, asRecord, asText, type Json } from "./json";

export interface PickleFailure {
  path: string;
  type: string;
  reason: string;
  certain: boolean;
  definedAt: string;
  fix: string;
}
export interface StartMethods {
  root: string; // "": not judged
  sentence: string;
  failures: PickleFailure[];
  unknowns: { path: string; runs: string }[];
}

// Nobody looks where the version of Python forbids it; then the report says why.
export function parseStartMethods(value: Json | undefined): StartMethods | null {
  const row = asRecord(asList(value)[0]);
  const why = row["at_seconds"] === null ? asText(row["why_unknown"]) : "";
  const sentence = asText(row["sentence"]) || (why === "" ? "" : `not judged: ${why}`);
  if (sentence === "") return null;
  return {
    root: asText(row["root"]),
    sentence,
    failures: asList(row["failures"])
      .map(asRecord)
      .map((failure) => ({
        path: asText(failure["path"]),
        type: asText(failure["type"]),
        reason: asText(failure["reason"]),
        certain: asText(failure["certainty"]) === "confirmed",
        definedAt: asText(failure["defined_at"]),
        fix: asText(failure["fix"]),
      })),
    unknowns: asList(row["unknowns"])
      .map(asRecord)
      .map((unknown) => ({ path: asText(unknown["path"]), runs: asText(unknown["runs"]) })),
  };
}
