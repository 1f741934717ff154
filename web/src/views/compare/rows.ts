// Owns the rows of a comparison: the figures that cowprof judged, and causes, types and lines of two reports, matched by name.
// Does not: judge or estimate; it subtracts the reports' figures.
import type { BlameRow } from "../../data/blame";
import { causeName } from "../../core/causes";
import { formatBytes } from "../../core/format";
import type { Comparison } from "../../data/comparison";
import type { Report } from "../../data/report";

export interface Difference {
  name: string;
  detail: string;
  path: string;
  lines: string;
  a: number | null;
  b: number | null; // bytes; null: not known
  change: number | null;
  alike?: boolean; // the change is within the tolerance
}

type Sides = Comparison["seesLines"];
// Of each side: 4 KiB on x86, 64 KiB on some ARM hosts.
export interface PageBytes {
  a: number | null;
  b: number | null;
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

// A name missing on one side copied nothing there, if that side is known.
function match(rowsA: Named[], rowsB: Named[], known: Sides): Difference[] {
  const [a, b] = [sumByName(rowsA), sumByName(rowsB)];
  return [...new Set([...a.keys(), ...b.keys()])].map((key) => {
    const [inA, inB] = [a.get(key), b.get(key)];
    const { name, detail, path } = (inA ?? inB) as Named;
    const [bytesA, bytesB] = [inA?.bytes ?? (known.a ? 0 : null), inB?.bytes ?? (known.b ? 0 : null)];
    const [linesA, linesB] = [spellLines(inA?.lines), spellLines(inB?.lines)];
    const lines = linesA === linesB || linesA === "" || linesB === "" ? linesA || linesB : `${linesA} → ${linesB}`;
    return { name, path, detail, lines, a: bytesA, b: bytesB, change: bytesA === null || bytesB === null ? null : bytesB - bytesA };
  });
}

// Rows tell what was looked at. A side without any is known if it copied nothing or, as cowprof judged it, saw whatever there was.
function knownOf(a: Report, b: Report, rows: (report: Report) => number, sees: Sides): Sides {
  const isKnown = (report: Report, saw: boolean): boolean => rows(report) > 0 || report.copies === 0 || saw;
  return { a: isKnown(a, sees.a), b: isKnown(b, sees.b) };
}

export function signed(bytes: number | null): string {
  return bytes === null ? "—" : bytes === 0 ? "same" : `${bytes > 0 ? "+" : ""}${formatBytes(bytes)}`;
}

function spellVerdict({ verdict, change }: Comparison["figures"][number]): string {
  return verdict === "" || change === null ? verdict : `${verdict} (${signed(change.low)} to ${signed(change.high)})`;
}

// Without a comparison by cowprof: what both reports sum up, without a verdict.
export function compareFigures(a: Report, b: Report, comparison: Comparison | null): Difference[] {
  const row = (name: string, detail: string, [inA, inB]: (number | null)[], alike: boolean): Difference => {
    const [from, to] = [inA ?? null, inB ?? null];
    return { name, detail, path: "", lines: "", a: from, b: to, change: from === null || to === null ? null : to - from, alike };
  };
  if (comparison !== null)
    return comparison.figures.map((figure) => row(figure.label, spellVerdict(figure), [figure.a, figure.b], figure.verdict === "same"));
  return [
    row("copied by the workers", "", [a.workersCopiedBytes, b.workersCopiedBytes], false),
    row("private peak of the workers", "", [a.peakWorkersPrivateBytes, b.peakWorkersPrivateBytes], false),
  ];
}

const bytesOf = (row: BlameRow, pageBytes: number | null): number => row.bytes ?? (row.copies ?? 0) * (pageBytes ?? 0);

export function compareTypes(a: Report, b: Report, pageBytes: PageBytes, sees: Sides): Difference[] {
  const named = (report: Report, size: number | null): Named[] =>
    report.types.map((row) => ({ name: row.name, detail: "", path: "", bytes: bytesOf(row, size), line: "" }));
  const known = knownOf(a, b, ({ types }) => types.length, sees);
  return match(named(a, pageBytes.a), named(b, pageBytes.b), known);
}

export function compareLines(a: Report, b: Report, pageBytes: PageBytes, sees: Sides): Difference[] {
  const named = (report: Report, size: number | null): Named[] => report.lines.map((row) => nameLine(row, bytesOf(row, size)));
  const known = knownOf(a, b, ({ lines }) => lines.length, sees);
  return match(named(a, pageBytes.a), named(b, pageBytes.b), known);
}

export function compareCauses(a: Report, b: Report, pageBytes: PageBytes): Difference[] {
  const named = (report: Report, size: number | null): Named[] =>
    [...(report.causes ?? [])].map(([cause, copies]) => ({
      name: causeName(cause),
      detail: "",
      path: "",
      bytes: copies * (size ?? 0),
      line: "",
    }));
  const known = knownOf(a, b, ({ causes }) => causes?.size ?? 0, { a: false, b: false });
  return match(named(a, pageBytes.a), named(b, pageBytes.b), known).filter((row) => (row.a ?? 0) + (row.b ?? 0) > 0);
}
