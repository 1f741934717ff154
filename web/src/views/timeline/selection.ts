// Owns the selected span's text and shade, and the cursor line, across all strips.
// Does not: select; gestures.ts does.
import type { Page } from "../../data/decode";
import { make, makeButton, mark } from "../../ui/dom";
import { formatCount, formatInstant, formatKib } from "../../core/format";
import { zoomToSelection } from "./gestures";
import type { Store } from "../../store";
import { nearestSample } from "../../core/search";

// What happened between two samples, without what isn't known at both.
function changeInWords(page: Page, from: number, to: number): string {
  const change = (values: Float64Array): number => (values[to] ?? NaN) - (values[from] ?? NaN);
  const copies = change(page.totals.copies.values);
  const kib = change(page.totals.private.values);
  const words: string[] = [];
  if (!Number.isNaN(copies)) words.push(`${formatCount(copies)} copies`);
  if (!Number.isNaN(kib)) words.push(`private memory ${kib < 0 ? "−" : "+"}${formatKib(Math.abs(kib))}`);
  return words.length === 0 ? "" : `: ${words.join(", ")}`;
}

export class SelectionBar {
  readonly status = mark(make("p", "selection-status"), { role: "status" });
  readonly shade = make("div", "selection-shade");
  readonly line = make("div", "cursor-line");
  private readonly text = make("span", "");

  constructor(private readonly store: Store) {
    const zoom = makeButton("reset", "Zoom to selection", () => zoomToSelection(store));
    const clear = makeButton("reset clear-selection", "Clear", () => store.set({ selection: null }));
    this.status.append(this.text, zoom, clear);
    this.show({ left: 0, width: 0 });
  }

  show(area: { left: number; width: number }): void {
    const { view, page } = this.store;
    const [from, to] = view.range;
    const x = (seconds: number): number => area.left + Math.min(1, Math.max(0, (seconds - from) / (to - from))) * area.width;
    this.line.hidden = view.cursor === null;
    if (view.cursor !== null) this.line.style.transform = `translateX(${x(view.cursor)}px)`;
    const { selection } = view;
    this.shade.hidden = this.status.hidden = selection === null;
    if (selection === null) return;
    this.shade.style.left = `${x(selection[0])}px`;
    this.shade.style.width = `${Math.max(1, x(selection[1]) - x(selection[0]))}px`;
    const change = changeInWords(page, nearestSample(page.seconds, selection[0]), nearestSample(page.seconds, selection[1]));
    this.text.textContent = `${formatInstant(selection[0])} to ${formatInstant(selection[1])} selected${change}`;
  }
}
