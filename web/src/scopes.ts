// Owns the choice of whose copies are shown: all processes or one; and the small print that follows from it.
// Called by: why.ts.
// Does not: touch the page. Lifetimes and CPU time are the only figures summed here; both come from the report.
import type { BlameRow, Causes } from "./blame";
import { formatCount, formatShare, formatSpan } from "./format";
import type { Process, Report, Verify } from "./report";

export interface Scope {
  label: string;
  whole: boolean;
  causes: Causes | null;
  copies: number | null;
  types: BlameRow[];
  lines: BlameRow[];
  tax: string;
}

function lifeOf(process: Process, report: Report): number | null {
  const end = process.endedAt ?? report.durationSeconds;
  return end === null || process.startedAt === null || end <= process.startedAt ? null : end - process.startedAt;
}

// CPU time spent in copies against how long those processes lived, where both are known.
function taxInWords(processes: Process[], whose: string, report: Report): string {
  const known = processes.filter((process) => process.copySeconds !== null && lifeOf(process, report) !== null);
  if (known.length === 0) return "";
  const spent = known.reduce((sum, process) => sum + (process.copySeconds ?? 0), 0);
  const lived = known.reduce((sum, process) => sum + (lifeOf(process, report) ?? 0), 0);
  return `${formatSpan(spent)} of CPU went into copying (${formatShare(spent / lived)} of ${whose} run time).`;
}

function wholeScope(report: Report): Scope {
  const workers = report.workers.filter((row) => row.role === "worker");
  const tax = taxInWords(workers.length > 0 ? workers : report.workers, "the workers'", report);
  return {
    label: "all processes", whole: true, causes: report.causes, copies: report.copies, types: report.types, lines: report.lines,
    tax: tax === "" && report.copySeconds !== null ? `${formatSpan(report.copySeconds)} of CPU went into copying.` : tax,
  };
}

// Those of which something is known, the parent last.
export function planScopes(report: Report): Scope[] {
  const processes = [...report.workers, ...(report.parent === null ? [] : [report.parent])];
  const known = processes.filter((row) => row.causes !== null || row.types.length > 0 || row.lines.length > 0);
  return [wholeScope(report), ...known.map((row) => ({
    label: `${row.role} ${row.pid ?? "?"}`, whole: false, causes: row.causes, copies: row.copies, types: row.types, lines: row.lines,
    tax: taxInWords([row], "this process's", report),
  }))];
}

export function verifyInWords(verify: Verify | null): string {
  if (verify === null || verify.identical === null) return "";
  const part = (count: number | null): string => formatShare((count ?? 0) / verify.pages);
  const differ = ([[verify.refcountOnly, "only in reference counts"], [verify.gcHeaderOnly, "only in the collector's marks"], [verify.hashOnly, "only in cached hashes"], [verify.data, "in data"]] as const)
    .filter(([count]) => count !== null && count > 0).map(([count, where], i) => `${part(count)} ${i === 0 ? "differ " : ""}${where}`);
  return `${part(verify.identical)} of ${formatCount(verify.pages)} copied pages are byte for byte what they were before${differ.length === 0 ? "" : `; ${differ.join(", ")}`}.`;
}

export function evidenceInWords(report: Report): string {
  const { looked, told, audited, contradicted } = report.evidence;
  if (looked === null || looked + (told ?? 0) === 0) return "";
  const words = [`Causes: ${formatCount(looked)} copies were looked at one by one`];
  if (told !== null && told > 0) words.push(`${formatCount(told)} were told by the instruction that wrote`);
  const checked = audited === null || audited === 0 ? "" : `; ${formatCount(audited)} of these were looked at as well, and ${contradicted === 0 ? "none" : formatCount(contradicted)} proved wrong`;
  return `${words.join(", ")}${checked}.`;
}

export function estimateInWords(scope: Scope, report: Report): string {
  const rows = [...scope.types, ...scope.lines, ...(scope.whole ? report.native : [])];
  if (!rows.some((row) => row.estimated)) return "";
  const samples = report.evidence.stackSamples;
  const from = samples === null ? "samples" : samples === 1 ? "1 sample" : `${formatCount(samples)} samples`;
  return `Lines, types and native code are estimated from ${from}${scope.whole ? "" : " of all processes"}; ± is the range in which the true share lies in 19 of 20 cases.`;
}
