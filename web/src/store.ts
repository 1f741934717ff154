// Owns what all sections share: the recording, and what of it is looked at (range, selection, pinned process, cursor).
// Called by: main.ts makes it; every section reads it, changes it and listens to it.
// Does not: draw, or keep anything that only one section needs.
import type { Page } from "./decode";
import { forecastRoom } from "./forecast";

export interface View {
  range: [number, number];            // seconds that the strips show
  selection: [number, number] | null; // seconds that everything below is filtered by; null: all
  pinned: number | null;              // index of a process; the rest is greyed
  cursor: number | null;              // seconds under the pointer, or of the replay's scrubber
}

export type Change = keyof View | "page";
export type Listener = (changed: Set<Change>) => void;

export function wholeRange(page: Page): [number, number] {
  const from = Math.min(0, page.seconds[0] ?? 0);
  const to = (page.seconds.at(-1) ?? 0) + forecastRoom(page);
  return [from, to > from ? to : from + (page.run.intervalSeconds ?? 1)];
}

function same(a: View[keyof View], b: View[keyof View]): boolean {
  return Array.isArray(a) && Array.isArray(b) ? a[0] === b[0] && a[1] === b[1] : a === b;
}

// `page` and `view` are current at once; listeners are told once a frame, all changes together.
export class Store {
  readonly view: View;
  private listeners: Listener[] = [];
  private changed = new Set<Change>();

  constructor(public page: Page) {
    this.view = { range: wholeRange(page), selection: null, pinned: null, cursor: null };
  }

  // What it gives back ends the listening: a section that is made anew takes its predecessor's ear away.
  on(listener: Listener): () => void {
    this.listeners.push(listener);
    return () => { this.listeners = this.listeners.filter((other) => other !== listener); };
  }

  set(change: Partial<View>): void {
    for (const key of Object.keys(change) as (keyof View)[]) {
      if (same(this.view[key], change[key] ?? null)) continue;
      Object.assign(this.view, { [key]: change[key] ?? null });
      this.note(key);
    }
  }

  // A longer recording of the same run: who sees all of it goes on seeing all, who zoomed in stays where they are.
  setPage(page: Page): void {
    const whole = same(this.view.range, wholeRange(this.page));
    this.page = page;
    this.note("page");
    if (whole) this.set({ range: wholeRange(page) });
  }

  private note(key: Change): void {
    if (this.changed.size === 0) requestAnimationFrame(() => this.tell());
    this.changed.add(key);
  }

  private tell(): void {
    const changed = this.changed;
    this.changed = new Set();
    for (const listener of this.listeners) listener(changed);
  }
}
