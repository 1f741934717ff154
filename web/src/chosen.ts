// Owns what the sections below the timeline are about: whose copies, and of which part of the recording.
// Called by: who.ts, workers.ts, why.ts and the tables below them, at every change of selection or pin.
// Does not: sum copies by place; spans.ts does.
import type { CauseColumns, Page, Track } from "./decode";
import type { Causes } from "./blame";
import { visibleText } from "./format";
import { formatInstant } from "./selection";
import { lastBefore, type Span } from "./spans";
import type { Store } from "./store";

export interface Chosen {
  page: Page;
  span: Span | null;           // null: the whole recording
  pinned: Track | null;
  workersOnly: boolean;
  label: string;               // "all processes", "worker 4201"
  holds: (index: number) => boolean;
}

export function labelOf({ role, pid }: { role: string; pid: number | null }): string {
  return visibleText(`${role} ${pid ?? "?"}`);
}

export function chosenOf({ page, view }: Store, workersOnly = false): Chosen {
  const pinned = page.processes.find((track) => track.index === view.pinned) ?? null;
  const workers = new Set(page.processes.filter((track) => track.role === "worker").map((track) => track.index));
  const holds = pinned !== null ? (index: number): boolean => index === pinned.index : workersOnly ? (index: number): boolean => workers.has(index) : (): boolean => true;
  const label = pinned !== null ? labelOf(pinned) : workersOnly ? "the workers" : "all processes";
  return { page, span: view.selection, pinned, workersOnly: workersOnly && pinned === null, label, holds };
}

// Calls `show` when what is chosen changes. A drag changes the selection at every frame: what it costs to follow, up to
// the painted frame, may take a third of the time, so that the strips stay smooth; the last change is always shown.
export function followChosen(store: Store, show: () => void): void {
  let [busy, behind] = [false, false];
  const run = (): void => {
    [busy, behind] = [true, false];
    const start = performance.now();
    show();
    requestAnimationFrame(() => setTimeout(() => setTimeout(() => {
      busy = false;
      if (behind) run();
    }, 2 * (performance.now() - start))));
  };
  store.on((changed) => {
    if (changed.has("page") || changed.has("pinned")) show();
    else if (changed.has("selection") && busy) behind = true;
    else if (changed.has("selection")) run();
  });
}

// Everything, so that the report's own rows are what is asked for.
export function isWhole(chosen: Chosen): boolean {
  return chosen.span === null && chosen.pinned === null && !chosen.workersOnly;
}

export function spanInWords(span: Span | null): string {
  if (span === null) return "the whole recording";
  return `${formatInstant(span[0])} to ${formatInstant(span[1])}`;
}

// The last known value at or before sample `at`; null: none is known.
export function valueAt(values: Float64Array, at: number): number | null {
  for (let i = Math.min(at, values.length - 1); i >= 0; i--) {
    const value = values[i] ?? NaN;
    if (value === value) return value;
  }
  return null;
}

// What a cumulative column gained within the span; null where it is not known at the end.
export function gainOf(values: Float64Array, first: number, page: Page, span: Span): number | null {
  const end = valueAt(values, lastBefore(page.seconds, span[1]) - first);
  return end === null ? null : Math.max(0, end - (valueAt(values, lastBefore(page.seconds, span[0]) - first) ?? 0));
}

export function causesWithin(columns: CauseColumns, first: number, page: Page, span: Span): Causes | null {
  const causes = new Map([...columns].map(([cause, column]) => [cause, gainOf(column.values, first, page, span) ?? 0]));
  return causes.size === 0 ? null : causes;
}
