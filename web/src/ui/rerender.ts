// Owns rebuilding a static section for each new page of a live run, while keeping what the reader did to it: focus,
// unfolded details, scroll positions, sorting, selections and typed text.
// Does not: touch a section whose markup would not change, or one in which text is being selected.
import { make } from "./dom";
import type { Listener, Store } from "../store";

export type Section = (store: Store) => HTMLElement | null;

// Sent from a section that was rebuilt. Who had put an element into it puts it back at once, and the element keeps the focus.
export const kRebuilt = "rebuilt";

const kFocusable = "button, a, input, select, summary, [tabindex]";

// A store whose listeners last only as long as the section: its successor registers its own.
function makeScope(store: Store, listeners: Listener[]): Store {
  return Object.create(store, {
    on: { value: (listener: Listener): void => void listeners.push(listener) },
    set: { value: store.set.bind(store) },
  }) as Store;
}

function all<T extends Element>(place: Element, selector: string): T[] {
  return [...place.querySelectorAll<T>(selector)];
}

// The element of `to` that corresponds to the focused one in `from`.
function findFocus(from: Element, to: Element): HTMLElement | undefined {
  const focused = document.activeElement;
  const nth = focused === null ? -1 : all(from, kFocusable).indexOf(focused);
  if (nth < 0 || focused === null) return undefined;
  const place = focused.getAttribute("id") ?? focused.textContent;
  const candidates = all<HTMLElement>(to, kFocusable).filter((one) => one.tagName === focused.tagName);
  const there = all<HTMLElement>(to, kFocusable)[nth];
  const isAlike = there?.tagName === focused.tagName && there.className === focused.className; // its text may count something
  // Rows may have moved: the same text means the same row.
  return candidates.find((one) => (one.getAttribute("id") ?? one.textContent) === place) ?? (isAlike ? there : undefined);
}

// Tables and findings come and go, so they are matched by name.
function nameOfHead(head: Element): string {
  return `${head.closest("table")?.caption?.textContent ?? ""} ${head.textContent}`;
}

function nameOfDetails(details: Element): string {
  return `${details.className} ${details.closest("article")?.querySelector("h3")?.textContent ?? ""}`;
}

function keepSorting(from: Element, to: Element): void {
  const sorted = new Map(
    all(from, "th[aria-sort]:not([aria-sort=none])").map((head) => [nameOfHead(head), head.getAttribute("aria-sort")]),
  );
  for (const head of all(to, "th[aria-sort]")) {
    const wanted = sorted.get(nameOfHead(head));
    // Each click advances none → first direction → second: two clicks reach either.
    for (let clicks = 0; clicks < 2 && wanted !== undefined && head.getAttribute("aria-sort") !== wanted; clicks++)
      head.querySelector("button")?.click();
  }
}

function keepInput(from: Element, to: Element): void {
  const fields = all<HTMLInputElement | HTMLSelectElement>(to, "input, select");
  all<HTMLInputElement | HTMLSelectElement>(from, "input, select").forEach((field, nth) => {
    const other = fields[nth];
    if (other === undefined || other.value === field.value) return;
    other.value = field.value;
    for (const kind of ["input", "change"]) other.dispatchEvent(new Event(kind, { bubbles: true }));
  });
  const toggles = all<HTMLButtonElement>(to, "button.more");
  all<HTMLButtonElement>(from, "button.more").forEach((button, nth) => {
    if (button.textContent.startsWith("Show the first")) toggles[nth]?.click();
  });
}

function keepUnfolded(from: Element, to: Element): void {
  const open = new Set(all(from, "details[open]").map(nameOfDetails));
  for (const details of all<HTMLDetailsElement>(to, "details")) details.open ||= open.has(nameOfDetails(details));
}

function scrolled(place: Element): { scrollTop: number; scrollLeft: number }[] {
  return all(place, ".scroll, .command").map(({ scrollTop, scrollLeft }) => ({ scrollTop, scrollLeft }));
}

function isSelecting(place: Element): boolean {
  const selection = getSelection();
  return selection !== null && !selection.isCollapsed && place.contains(selection.anchorNode);
}

export function rerendered(makePart: Section): Section {
  return (store) => {
    const place = make("div", "rerendered");
    let listeners: Listener[] = [];
    let looks: string | null = null;
    const rerender = (): void => {
      const heard: Listener[] = [];
      const part = makePart(makeScope(store, heard));
      const looked = part?.outerHTML ?? "";
      if (looked === looks) return;
      looks = looked;
      listeners = heard;
      const next = make("div", "rerendered", part);
      for (const keep of [keepUnfolded, keepSorting, keepInput]) keep(place, next);
      const held = place.contains(document.activeElement) ? document.activeElement : null;
      const focused = findFocus(place, next);
      const positions = scrolled(place);
      place.replaceChildren(...next.childNodes);
      place.dispatchEvent(new Event(kRebuilt, { bubbles: true }));
      all(place, ".scroll, .command").forEach((other, nth) => Object.assign(other, positions[nth])); // only after insertion: elements without layout can't scroll
      (held instanceof HTMLElement && place.contains(held) ? held : focused)?.focus({ preventScroll: true });
      for (const listener of listeners) listener(new Set(["pinned", "selection", "range"]));
    };
    let late = false;
    store.on((changed) => {
      if (changed.has("page")) late = true;
      if (late && !isSelecting(place)) {
        late = false;
        rerender();
      }
      for (const listener of listeners) listener(changed);
    });
    rerender();
    return place;
  };
}
