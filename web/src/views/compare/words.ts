// Owns the wording of a comparison: the saving in one sentence, and what makes the runs hard to compare.
// Does not: read a column; it uses the reports' totals.
import type { Page } from "../../data/decode";
import { exactnessInWords, formatBytes, formatCount, formatSeconds } from "../../core/format";
import { isWorker } from "../../core/processes";

// As in `cowprof diff`: of the larger one, at least so many pages for each worker; a smaller difference counts as none.
const kCopiesAlike = 0.01;
const kPeaksAlike = 0.05;
const kPagesOfWorker = 128;
const kSameTime = 0.02;

interface Figures {
  a: number | null;
  b: number | null; // bytes
  least: number; // of a difference that counts, whatever its share
}

function inPercent(from: number, to: number): string {
  if (from <= 0) return "";
  const percent = ((to - from) / from) * 100;
  const figure = Math.abs(percent) >= 9.95 ? Math.abs(percent).toFixed(0) : Math.abs(percent).toFixed(1);
  return ` (${percent < 0 ? "−" : "+"}${figure} %)`;
}

function isAlike(a: number, b: number, share: number, least: number): boolean {
  return Math.abs(a - b) <= Math.max(share * Math.max(a, b), least);
}

function copiesInWords({ a, b, least }: Figures): string {
  if (a === null || b === null)
    return `How much more or less the workers copied is unknown: ${a === null ? (b === null ? "neither recording says" : "A doesn't say") : "B doesn't say"}`;
  if (isAlike(a, b, kCopiesAlike, least)) return `B's workers copy as much as A's (${formatBytes(b)})`;
  return `B's workers copy ${formatBytes(Math.abs(b - a))} ${b < a ? "less" : "more"} than A's${inPercent(a, b)}`;
}

function peakInWords({ a, b, least }: Figures): string {
  if (a === null || b === null) return "";
  if (isAlike(a, b, kPeaksAlike, least)) return ", and they peak as high";
  return `, and they peak ${formatBytes(Math.abs(b - a))} ${b < a ? "lower" : "higher"}${inPercent(a, b)}`;
}

function hasSameTime(a: number | null, b: number | null): boolean {
  return a !== null && b !== null && Math.abs(a - b) <= kSameTime * Math.max(a, b);
}

// "B's workers copy 3.9 GiB less than A's (−94 %), and they peak 3.1 GiB lower (−88 %), over the same 2 min 00 s."
export function savingInWords(pageA: Page, pageB: Page): string {
  const [a, b] = [pageA.report, pageB.report];
  const least = kPagesOfWorker * Math.max(workersOf(pageA), workersOf(pageB)) * (pageA.run.pageBytes ?? pageB.run.pageBytes ?? 0);
  const time = hasSameTime(a.durationSeconds, b.durationSeconds) ? `, over the same ${formatSeconds(a.durationSeconds)}` : "";
  const copies = copiesInWords({ a: a.workersCopiedBytes, b: b.workersCopiedBytes, least });
  const peak = peakInWords({ a: a.peakWorkersPrivateBytes, b: b.peakWorkersPrivateBytes, least });
  const words = `${copies}${peak}${time}.`;
  return words.replace(/(\d) (?=\S)/g, "$1\u00a0"); // keeps a figure and its unit on one line
}

export function workersOf({ report }: Page): number {
  return report.workers.filter(isWorker).length;
}

function lossesOf({ report }: Page): number {
  return report.losses.reduce((sum, loss) => sum + loss.count, 0);
}

// One sentence per difference between the runs that makes their figures hard to compare.
export function doubtsInWords(a: Page, b: Page): string[] {
  const doubts: string[] = [];
  const [timeA, timeB] = [a.report.durationSeconds, b.report.durationSeconds];
  if (!hasSameTime(timeA, timeB))
    doubts.push(
      `A was recorded for ${formatSeconds(timeA)}, B for ${formatSeconds(timeB)}: what is copied grows with time, so compare the curves at the same time after the first worker's start.`,
    );
  if (workersOf(a) !== workersOf(b))
    doubts.push(`A had ${formatCount(workersOf(a))} workers in all, B ${formatCount(workersOf(b))}: each of them makes its own copies.`);
  const [exactA, exactB] = [a.report.exactness || a.run.exactness, b.report.exactness || b.run.exactness];
  if (exactA !== exactB)
    doubts.push(`Copies were not counted the same way. A: ${exactnessInWords(exactA)}. B: ${exactnessInWords(exactB)}.`);
  if (a.report.startMethod !== b.report.startMethod)
    doubts.push(
      `A starts its workers by ${a.report.startMethod || "an unknown method"}, B by ${b.report.startMethod || "an unknown method"}: memory sent to a worker is its own from the start, not a copy.`,
    );
  for (const [name, page] of [
    ["A", a],
    ["B", b],
  ] as const) {
    if (!page.run.complete && !page.run.live) doubts.push(`The recording ${name} was cut off: what came after its last sample is missing.`);
    if (lossesOf(page) > 0) doubts.push(`The recording ${name} lost ${formatCount(lossesOf(page))} records: its counts may be too low.`);
  }
  return doubts;
}
