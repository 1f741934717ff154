// Owns the bars that are split by cause, and the legend that explains them.
// Does not: define a colour or a hatching; cause_bar.css has one of each per cause.
import { causeOf, causesInOrder, causesInWords, sumOfCauses } from "../core/causes";
import { formatBytes, formatCount, formatShare } from "../core/format";
import type { Causes } from "../data/blame";
import { make, mark } from "./dom";

function makeSegment(key: string, copies: number, label: string): HTMLElement {
  const segment = make("span", `cause cause-${causeOf(key).key}`, label === "" ? null : make("span", "cause-label", label));
  segment.style.flexGrow = String(copies);
  return segment;
}

// A thin bar that fills `share` of its cell, in one colour if no cause is known. Callers show the figure beside it as text.
export function makeThinCauseBar(causes: Causes | null, share: number | null): HTMLElement {
  const sum = sumOfCauses(causes);
  const fill = make("span", sum > 0 ? "bar-fill causes" : "bar-fill");
  fill.style.width = `${Math.min(1, Math.max(0, share ?? 0)) * 100}%`;
  const bar = mark(make("span", "bar split", fill), { "aria-hidden": "true" });
  if (causes === null || sum === 0) return bar;
  fill.append(...causesInOrder(causes).map(([key, copies]) => makeSegment(key, copies, "")));
  return mark(bar, { title: causesInWords(causes) });
}

export function makeCauseBar(causes: Causes): HTMLElement {
  const sum = sumOfCauses(causes);
  const segments = causesInOrder(causes).map(([key, copies]) =>
    mark(makeSegment(key, copies, `${causeOf(key).name} ${formatShare(copies / sum)}`), {
      title: `${causeOf(key).name} ${formatShare(copies / sum)}`,
    }),
  );
  return mark(make("div", "causes whole", ...segments), { "role": "img", "aria-label": causesInWords(causes) });
}

function makeEntry(key: string, copies: number, sum: number, pageBytes: number | null): HTMLElement {
  const { name, words } = causeOf(key);
  const amount = pageBytes === null ? `${formatCount(copies)} copies` : formatBytes(copies * pageBytes);
  return make(
    "li",
    "cause-entry",
    make("span", `cause-swatch cause-${causeOf(key).key}`),
    make("span", "cause-words", make("strong", "", name), words === "" ? null : make("span", "cause-why", words)),
    make("span", "cause-share", formatShare(copies / sum)),
    mark(make("span", "cause-amount", amount), { title: `${formatCount(copies)} copies` }),
  );
}

export function makeCauseLegend(causes: Causes, pageBytes: number | null): HTMLElement {
  const sum = sumOfCauses(causes);
  const entries = causesInOrder(causes)
    .sort(([, a], [, b]) => b - a)
    .map(([key, copies]) => makeEntry(key, copies, sum, pageBytes));
  return make("ul", "cause-legend", ...entries);
}
