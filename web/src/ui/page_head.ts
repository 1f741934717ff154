// Owns what the heads of all pages are made of: the row with the brand, the verdict, facts and tiles.
// Does not: know a figure, or where the verdict's first sentence ends.
import { make, mark } from "./dom";
import { makeThemeButton } from "./theme";

export function makeTopRow(): HTMLElement {
  const brand = make("div", "brand", make("span", "brand-name", "cowprof"), make("span", "brand-what", "copy-on-write memory growth"));
  return make("div", "top-row", brand, makeThemeButton());
}

// The heading is the first sentence alone.
export function makeVerdict(first: string, rest: string): HTMLElement {
  const parts = [make("h1", "", first), rest === "" ? null : make("p", "verdict-rest", rest)];
  return mark(make("div", "verdict", ...parts), { id: "verdict" });
}

export function makeFact(label: string, value: string | HTMLElement): HTMLElement {
  return make("div", "fact", make("dt", "", label), make("dd", "", value));
}

export function makeTile(id: string, title: string, value: string, detail: string, extra: HTMLElement | null = null): HTMLElement {
  const parts = [make("div", "tile-title", title), make("div", "tile-value", value), extra, make("div", "tile-detail", detail)];
  return mark(make("div", "tile", ...parts), { id: `tile-${id}` });
}
