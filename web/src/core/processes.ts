// Owns the link between a process of the report and its columns in the recording, and how its end is worded.
// Both carry the process's index in the recording; a pid is only a label, as the kernel gives it out again.
import type { Page, Track } from "../data/decode";
import type { Exit, Process, Report } from "../data/report";
import { formatCount } from "./format";

// "worker 4201", "worker 1 of rank 0 (4201)".
export function processLabel({ label, pid }: { label: string; pid: number | null }): string {
  return /\d$/.test(label) ? `${label} (${pid ?? "?"})` : `${label} ${pid ?? "?"}`;
}

export function isWorker({ worker }: { worker: boolean }): boolean {
  return worker;
}

// "2 workers"; "2 processes" where others are among them, such as a rank with workers of its own.
export function countInWords(processes: { worker: boolean }[]): string {
  return `${formatCount(processes.length)} ${processes.every(isWorker) ? "workers" : "processes"}`;
}

// "3", or "2 at once, 12 started".
export function workersInWords({ workerSlots: slots, workers }: Report): string {
  const started = slots?.started ?? workers.filter(isWorker).length;
  const atOnce = slots?.atOnce ?? started;
  return atOnce === started ? formatCount(started) : `${formatCount(atOnce)} at once, ${formatCount(started)} started`;
}

export function processesOf({ workers, parent }: Report): Process[] {
  return parent === null ? workers : [...workers, parent];
}

const kTracks = new WeakMap<Page, Map<number | null, Track>>();

// Asked for every row of a table.
export function trackOf(page: Page, process: Process): Track | null {
  let tracks = kTracks.get(page);
  if (tracks === undefined) kTracks.set(page, (tracks = new Map(page.processes.map((track) => [track.index, track]))));
  return tracks.get(process.index) ?? null;
}

export function processOf(report: Report, track: Track): Process | null {
  return processesOf(report).find((process) => process.index === track.index) ?? null;
}

export function exitInWords(exit: Exit | null, endedAt: number | null): string {
  if (exit === null) return endedAt === null ? "running" : "ended";
  if (exit.text !== "") return exit.text;
  const cause = exit.cause === "" ? "" : ` (${exit.cause})`;
  if (exit.kind === "signaled") return `killed by ${exit.signal || "a signal"}${cause}`;
  return `exit ${exit.code ?? "—"}${cause}`;
}
