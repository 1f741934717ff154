// Owns how a section that draws a page once follows a run that goes on: made anew with each new page, and what the
// reader did to it stays: focus, what is unfolded, scrolled, sorted, chosen or typed.
// Called by: main.ts, for each section that does not listen to "page" itself.
// Does not: touch a section that would look the same as before, or one whose text is being selected.
import { make } from "./dom";
import type { Listener, Store } from "./store";

export type Section = (store: Store) => HTMLElement | null;

const kFocusable = "button, a, input, select, summary, [tabindex]";

// Listeners of a section end with it: the next one has its own.
function makeScope(store: Store, listeners: Listener[]): Store {
  return Object.create(store, {
    on: { value: (listener: Listener): void => void listeners.push(listener) },
    set: { value: store.set.bind(store) },
  }) as Store;
}

function all<T extends Element>(place: Element, selector: string): T[] {
  return [...place.querySelectorAll<T>(selector)];
}

// What has the focus in `to`, if something has it in `from`.
function findFocus(from: Element, to: Element): HTMLElement | undefined {
  const focused = document.activeElement;
  const nth = focused === null ? -1 : all(from, kFocusable).indexOf(focused);
  if (nth < 0 || focused === null) return undefined;
  const place = focused.getAttribute("id") ?? focused.textContent;
  const candidates = all<HTMLElement>(to, kFocusable).filter((one) => one.tagName === focused.tagName);
  // Rows change places: the one with the same words is the same one.
  return candidates.find((one) => (one.getAttribute("id") ?? one.textContent) === place) ?? all<HTMLElement>(to, kFocusable)[nth];
}

// Tables and findings come and go: the same one is the one of the same name.
function nameOfHead(head: Element): string {
  return `${head.closest("table")?.caption?.textContent ?? ""} ${head.textContent}`;
}

function nameOfDetails(details: Element): string {
  return `${details.className} ${details.closest("article")?.querySelector("h3")?.textContent ?? ""}`;
}

function keepSorting(from: Element, to: Element): void {
  const sorted = new Map(all(from, "th[aria-sort]:not([aria-sort=none])").map((head) => [nameOfHead(head), head.getAttribute("aria-sort")]));
  for (const head of all(to, "th[aria-sort]")) {
    const wanted = sorted.get(nameOfHead(head));
    // A head turns from none to one direction to the other: two clicks reach each.
    for (let clicks = 0; clicks < 2 && wanted !== undefined && head.getAttribute("aria-sort") !== wanted; clicks++) head.querySelector("button")?.click();
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

export function renewed(makePart: Section): Section {
  return (store) => {
    const place = make("div", "renewed");
    let listeners: Listener[] = [];
    let looks: string | null = null;
    const renew = (): void => {
      const heard: Listener[] = [];
      const part = makePart(makeScope(store, heard));
      const looked = part?.outerHTML ?? "";
      if (looked === looks) return;
      looks = looked;
      listeners = heard;
      const next = make("div", "renewed", part);
      for (const keep of [keepUnfolded, keepSorting, keepInput]) keep(place, next);
      const focused = findFocus(place, next);
      const positions = scrolled(place);
      place.replaceChildren(...next.childNodes);
      all(place, ".scroll, .command").forEach((other, nth) => Object.assign(other, positions[nth])); // what is not laid out can't scroll
      focused?.focus({ preventScroll: true });
      for (const listener of listeners) listener(new Set(["pinned", "selection", "range"]));
    };
    let late = false;
    store.on((changed) => {
      if (changed.has("page")) late = true;
      if (late && !isSelecting(place)) {
        late = false;
        renew();
      }
      for (const listener of listeners) listener(changed);
    });
    renew();
    return place;
  };
}
