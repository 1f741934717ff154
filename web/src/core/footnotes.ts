// Owns the footnotes about copies: what they cost, how the causes were found, how good an estimate is.
// Lifetimes and CPU time are the only figures summed here; both come from the report.
import { formatCount, formatShare, formatSpan } from "./format";
import type { Process, Report, Verify } from "../data/report";
import { isWorker } from "./processes";

function lifeOf(process: Process, report: Report): number | null {
  const end = process.endedAt ?? report.durationSeconds;
  return end === null || process.startedAt === null || end <= process.startedAt ? null : end - process.startedAt;
}

// CPU time spent copying relative to the lifetimes, where both are known, for one process or for the workers. Of very many
// workers only some are listed: then that of all processes.
export function taxInWords(report: Report, process: Process | null): string {
  const workers = report.workers.filter(isWorker);
  const rows = process !== null ? [process] : workers.length > 0 ? workers : report.workers;
  const known = rows.filter((row) => row.copySeconds !== null && lifeOf(row, report) !== null);
  if (known.length === 0 || (process === null && report.unlisted !== null))
    return process === null && report.copySeconds !== null ? `${formatSpan(report.copySeconds)} of CPU went into copying.` : "";
  const spent = known.reduce((sum, row) => sum + (row.copySeconds ?? 0), 0);
  const lived = known.reduce((sum, row) => sum + (lifeOf(row, report) ?? 0), 0);
  return `${formatSpan(spent)} of CPU went into copying (${formatShare(spent / lived)} of ${process === null ? "the workers'" : "this process's"} run time).`;
}

export function verifyInWords(verify: Verify | null): string {
  if (verify === null || verify.identical === null) return "";
  const part = (count: number | null): string => formatShare((count ?? 0) / verify.pages);
  const differ = (
    [
      [verify.refcountOnly, "only in reference counts"],
      [verify.gcHeaderOnly, "only in the collector's marks"],
      [verify.hashOnly, "only in cached hashes"],
      [verify.data, "in data"],
    ] as const
  )
    .filter(([count]) => count !== null && count > 0)
    .map(([count, where], i) => `${part(count)} ${i === 0 ? "differ " : ""}${where}`);
  return `${part(verify.identical)} of ${formatCount(verify.pages)} copied pages are byte for byte what they were before${differ.length === 0 ? "" : `; ${differ.join(", ")}`}.`;
}

export function evidenceInWords(report: Report): string {
  const { looked, told, audited, contradicted } = report.evidence;
  if (looked === null || looked + (told ?? 0) === 0) return "";
  const words = [`Causes: ${formatCount(looked)} copies were inspected one by one`];
  if (told !== null && told > 0) words.push(`${formatCount(told)} were identified by the instruction that wrote`);
  const checked =
    audited === null || audited === 0
      ? ""
      : `; ${formatCount(audited)} of these were inspected as well, and ${contradicted === 0 ? "none" : formatCount(contradicted)} proved wrong`;
  return `${words.join(", ")}${checked}.`;
}

export function estimateInWords(report: Report): string {
  if (![...report.types, ...report.lines, ...report.native].some((row) => row.estimated)) return "";
  const samples = report.evidence.stackSamples;
  const from = samples === null ? "samples" : samples === 1 ? "1 sample" : `${formatCount(samples)} samples`;
  return `Lines, types and native code are estimated from ${from}; ± is the range in which the true share lies in 19 of 20 cases.`;
}
