// Owns the typed comparison of two recordings, as cowprof made it: verdict, notes and figures are those of `cowprof diff`.
// Does not: judge.
import { asList, asNumber, asRecord, asText, asTexts, type Json, type JsonRecord } from "./json";

interface ComparedFigure {
  label: string;
  a: number | null;
  b: number | null; // bytes
  change: { low: number; best: number; high: number } | null; // as far as the tolerance goes
  verdict: string; // "better", "same", "worse"; "": none
}

export interface Comparison {
  verdict: string; // "": none; the sentence says why
  sentence: string;
  prediction: string;
  notes: string[];
  a: string[];
  b: string[]; // what each recording of a side is
  seesLines: { a: boolean; b: boolean }; // a line that this side lacks copied nothing there
  figures: ComparedFigure[];
}

function parseFigure(row: JsonRecord): ComparedFigure {
  const [low, best, high] = ["low", "best", "high"].map((key) => asNumber(asRecord(row["change"])[key]));
  return {
    label: asText(row["label"]),
    a: asNumber(asRecord(row["a"])["mean"]),
    b: asNumber(asRecord(row["b"])["mean"]),
    change: low == null || best == null || high == null ? null : { low, best, high },
    verdict: asText(row["verdict"]),
  };
}

// From A to B and back; empty: the page is not the second of two.
export function parseComparisons(value: Json | undefined): Comparison[] {
  return asList(value).map((entry) => {
    const row = asRecord(entry);
    const sees = asRecord(row["sees_lines"]);
    return {
      verdict: asText(row["verdict"]),
      sentence: asText(row["sentence"]),
      prediction: asText(row["prediction"]),
      notes: asTexts(row["notes"]),
      a: asTexts(row["a"]),
      b: asTexts(row["b"]),
      seesLines: { a: sees["a"] === true, b: sees["b"] === true },
      figures: asList(row["figures"])
        .map(asRecord)
        .filter((figure) => figure["unit"] === "bytes")
        .map(parseFigure),
    };
  });
}
