// Owns the rows of a comparison: causes, types and lines of two reports, matched by name.
// Does not: estimate; it subtracts the reports' figures.
import type { BlameRow } from "../../data/blame";
import { causeName } from "../../core/causes";
import type { Report } from "../../data/report";

export interface Difference {
  name: string;
  detail: string;
  path: string;
  lines: string;
  a: number | null;
  b: number | null; // bytes; null if that recording has no such rows at all
  change: number | null;
}

interface Named {
  name: string;
  detail: string;
  path: string;
  bytes: number;
  line: string;
}

// Lines move when code is edited while functions keep their names, so the lines of a function are summed.
function nameLine(row: BlameRow, bytes: number): Named {
  return { name: row.path, detail: row.detail, path: row.path, bytes, line: row.name.slice(row.path.length + 1) };
}

function sumByName(rows: Named[]): Map<string, Named & { lines: string[] }> {
  const sums = new Map<string, Named & { lines: string[] }>();
  for (const row of rows) {
    const key = `${row.name}\0${row.detail}`;
    const sum = sums.get(key) ?? { ...row, bytes: 0, lines: [] };
    sum.bytes += row.bytes;
    if (row.line !== "") sum.lines.push(row.line);
    sums.set(key, sum);
  }
  return sums;
}

function spellLines(lines: string[] | undefined): string {
  return lines === undefined ? "" : [...lines].sort((x, y) => Number(x) - Number(y)).join(", ");
}

// A name missing on one side copied nothing there; a side without any rows is unknown.
function match(rowsA: Named[], rowsB: Named[]): Difference[] {
  const [a, b] = [sumByName(rowsA), sumByName(rowsB)];
  return [...new Set([...a.keys(), ...b.keys()])].map((key) => {
    const [inA, inB] = [a.get(key), b.get(key)];
    const { name, detail, path } = (inA ?? inB) as Named;
    const [bytesA, bytesB] = [a.size === 0 ? null : (inA?.bytes ?? 0), b.size === 0 ? null : (inB?.bytes ?? 0)];
    const [linesA, linesB] = [spellLines(inA?.lines), spellLines(inB?.lines)];
    const lines = linesA === linesB || linesA === "" || linesB === "" ? linesA || linesB : `${linesA} → ${linesB}`;
    return { name, path, detail, lines, a: bytesA, b: bytesB, change: bytesA === null || bytesB === null ? null : bytesB - bytesA };
  });
}

const bytesOf = (row: BlameRow, pageBytes: number | null): number => row.bytes ?? (row.copies ?? 0) * (pageBytes ?? 0);

export function compareTypes(a: Report, b: Report, pageBytes: number | null): Difference[] {
  const named = (row: BlameRow): Named => ({ name: row.name, detail: "", path: "", bytes: bytesOf(row, pageBytes), line: "" });
  return match(a.types.map(named), b.types.map(named));
}

export function compareLines(a: Report, b: Report, pageBytes: number | null): Difference[] {
  const named = (row: BlameRow): Named => nameLine(row, bytesOf(row, pageBytes));
  return match(a.lines.map(named), b.lines.map(named));
}

export function compareCauses(a: Report, b: Report, pageBytes: number | null): Difference[] {
  const named = (report: Report): Named[] =>
    [...(report.causes ?? [])].map(([cause, copies]) => ({
      name: causeName(cause),
      detail: "",
      path: "",
      bytes: copies * (pageBytes ?? 0),
      line: "",
    }));
  return match(named(a), named(b)).filter((row) => (row.a ?? 0) + (row.b ?? 0) > 0);
}
