// Owns what all sections share: the recording, and how it is viewed (range, selection, pinned process, cursor).
// Does not: draw, or hold state that only one section needs.
import type { Page } from "./data/decode";
import { forecastRoom } from "./core/forecast";

export interface View {
  range: [number, number]; // seconds that the strips show
  selection: [number, number] | null; // seconds by which everything below is filtered; null: all
  pinned: number | null; // index of a process; the others are greyed
  cursor: number | null; // seconds, under the pointer or at the replay's scrubber
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

// `page` and `view` change at once; listeners are called once per frame with all changes.
export class Store {
  readonly view: View;
  private listeners: Listener[] = [];
  private changed = new Set<Change>();

  constructor(public page: Page) {
    this.view = { range: wholeRange(page), selection: null, pinned: null, cursor: null };
  }

  // Returns an unsubscribe function; a rebuilt section calls its predecessor's.
  on(listener: Listener): () => void {
    this.listeners.push(listener);
    return () => {
      this.listeners = this.listeners.filter((other) => other !== listener);
    };
  }

  set(change: Partial<View>): void {
    for (const key of Object.keys(change) as (keyof View)[]) {
      if (same(this.view[key], change[key] ?? null)) continue;
      Object.assign(this.view, { [key]: change[key] ?? null });
      this.note(key);
    }
  }

  // Sets a longer recording of the same run. A view of the whole range grows with it; a zoomed view stays.
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
    for (const listener of this.listeners) {
      try {
        listener(changed);
      } catch (failure) {
        console.error(failure); // the other sections still follow
      }
    }
  }
}
