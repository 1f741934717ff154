// Owns the filter of the sections below the timeline: whose copies, and which part of the recording.
// Does not: sum copies by place; spans.ts does.
import type { Page, Track } from "../data/decode";
import { formatInstant, visibleText } from "./format";
import type { Span } from "./column_values";
import { isWorker, processLabel } from "./processes";

export interface Filter {
  page: Page;
  span: Span | null; // null: the whole recording
  pinned: Track | null;
  workersOnly: boolean;
  label: string; // "all processes", "worker 4201"
  holds: (index: number) => boolean;
}

export function filterOf(page: Page, view: { selection: Span | null; pinned: number | null }, workersOnly = false): Filter {
  const pinned = page.processes.find((track) => track.index === view.pinned) ?? null;
  const workers = new Set(page.processes.filter(isWorker).map((track) => track.index));
  const holds =
    pinned !== null
      ? (index: number): boolean => index === pinned.index
      : workersOnly
        ? (index: number): boolean => workers.has(index)
        : (): boolean => true;
  const label = pinned !== null ? visibleText(processLabel(pinned)) : workersOnly ? "the workers" : "all processes";
  return { page, span: view.selection, pinned, workersOnly: workersOnly && pinned === null, label, holds };
}

// True if nothing is filtered out, so that the report's own rows apply.
export function isWhole(filter: Filter): boolean {
  return filter.span === null && filter.pinned === null && !filter.workersOnly;
}

export function spanInWords(span: Span | null): string {
  if (span === null) return "the whole recording";
  return `${formatInstant(span[0])} to ${formatInstant(span[1])}`;
}
