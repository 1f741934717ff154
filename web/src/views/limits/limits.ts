// Owns the table of limits.
// Called by: main.ts, once.
// Does not: compute a figure; each cell spells one value of the report.
import { make, makeBar, makeSection, mark, ratioTone } from "./dom";
import { formatQuantity, formatShare } from "./format";
import type { Limit } from "./report";
import { compareKeys } from "./sorting";

function makeLimitRow(limit: Limit): HTMLElement {
  const ratio = make("td", `ratio ${ratioTone(limit.ratio)}`, makeBar(limit.ratio, ratioTone(limit.ratio)), make("span", "ratio-text", formatShare(limit.ratio)));
  return make(
    "tr", "",
    mark(make("th", "words", make("span", "limit-kind", limit.kind), " ", make("span", "limit-name", limit.name)), { scope: "row" }),
    make("td", "number", formatQuantity(limit.used, limit.unit)),
    make("td", "number", formatQuantity(limit.peak, limit.unit)),
    make("td", "number", limit.limit === null ? "no limit" : formatQuantity(limit.limit, limit.unit)),
    ratio,
  );
}

export function makeLimitsSection(limits: Limit[]): HTMLElement {
  const section = makeSection("limits", "Limits", "What bounds these processes, and how near they came.");
  if (limits.length === 0) {
    section.append(make("p", "empty", "No limit was found that bounds these processes."));
    return section;
  }
  const titles = ["limit on", "used", "peak", "limit", "used of the limit"];
  const heads = titles.map((title, i) => mark(make("th", i === 0 || i === 4 ? "words" : "number", title), { scope: "col" }));
  const rows = [...limits].sort((a, b) => compareKeys(a.ratio, b.ratio, -1)).map(makeLimitRow);
  const table = make("table", "", make("caption", "", "Limits, the nearest first"), make("thead", "", make("tr", "", ...heads)), make("tbody", "", ...rows));
  section.append(mark(make("div", "scroll", table), { tabindex: "0", role: "region", "aria-label": "Table of limits" }));
  return section;
}
