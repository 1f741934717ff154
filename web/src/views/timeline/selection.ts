// Owns the selected span's text and shade, and the cursor line, across all strips.
// Does not: select; gestures.ts does.
import type { Page } from "../../data/decode";
import { make, makeButton, mark } from "../../ui/dom";
import { formatCount, formatInstant, formatKib } from "../../core/format";
import { zoomToSelection } from "./gestures";
import type { Store } from "../../store";
import { gainOf, valueAt, type Span } from "../../core/column_values";
import { lastBefore } from "../../core/search";

// What happened within the span, as the sections that follow it count; without what isn't known.
function changeInWords(page: Page, span: Span): string {
  const kibAt = (seconds: number): number => valueAt(page.totals.private.values, lastBefore(page.seconds, seconds)) ?? NaN;
  const copies = gainOf(page.totals.copies.values, 0, page, span);
  const kib = kibAt(span[1]) - kibAt(span[0]);
  const words: string[] = [];
  if (copies !== null) words.push(`${formatCount(copies)} copies`);
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
    this.text.textContent = `${formatInstant(selection[0])} to ${formatInstant(selection[1])} selected${changeInWords(page, selection)}`;
  }
}
