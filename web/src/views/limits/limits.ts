// Owns the table of limits.
// Does not: compute a figure; each cell formats one value of the report.
import "./limits.css";
import { make, makeBar, makeSection, mark, ratioTone } from "../../ui/dom";
import { formatQuantity, formatShare } from "../../core/format";
import type { Limit } from "../../data/report";
import { compareKeys } from "../../core/sorting";

function makeLimitRow(limit: Limit, share: number | null): HTMLElement {
  const ratio = make("td", `ratio ${ratioTone(share)}`, makeBar(share, ratioTone(share)), make("span", "ratio-text", formatShare(share)));
  return make(
    "tr",
    "",
    mark(make("th", "words", make("span", "limit-kind", limit.kind), " ", make("span", "limit-name", limit.name)), { scope: "row" }),
    make("td", "number", formatQuantity(limit.used, limit.unit)),
    make("td", "number", formatQuantity(limit.peak, limit.unit)),
    make("td", "number", limit.limit === null ? "no limit" : formatQuantity(limit.limit, limit.unit)),
    ratio,
  );
}

// `ended`: the target has given its memory back, so what counts is how near it came.
export function makeLimitsSection(limits: Limit[], ended: boolean): HTMLElement {
  const section = makeSection("limits", "Limits", "What limits these processes, and how close they came.");
  if (limits.length === 0) {
    section.append(make("p", "empty", "No limit applies to these processes."));
    return section;
  }
  const titles = ["limit on", "used", "peak", "limit", ended ? "at the peak, of the limit" : "used of the limit"];
  const heads = titles.map((title, i) => mark(make("th", i === 0 || i === 4 ? "words" : "number", title), { scope: "col" }));
  const shareOf = (limit: Limit): number | null => (ended ? limit.peakRatio : limit.ratio);
  const rows = [...limits].sort((a, b) => compareKeys(shareOf(a), shareOf(b), -1)).map((limit) => makeLimitRow(limit, shareOf(limit)));
  const table = make(
    "table",
    "",
    make("caption", "", "Limits, nearest first"),
    make("thead", "", make("tr", "", ...heads)),
    make("tbody", "", ...rows),
  );
  section.append(mark(make("div", "scroll", table), { tabindex: "0", role: "region", "aria-label": "Table of limits" }));
  return section;
}
