// Owns the section that answers why memory was copied: the bar of causes, its legend, and the footnotes.
// Does not: know what a cause means (causes.ts), or which code copied (the who section).
import "./why.css";
import { filterOf, spanInWords, type Filter } from "../../core/filter";
import type { Causes } from "../../data/blame";
import { sumOfCauses } from "../../core/causes";
import { processesOf, processLabel, processOf } from "../../core/processes";
import { make, makeSection, mark } from "../../ui/dom";
import { formatBytes, formatCount, visibleText } from "../../core/format";
import type { Report } from "../../data/report";
import { evidenceInWords, taxInWords, verifyInWords } from "../../core/footnotes";
import type { Store } from "../../store";
import { causesWithin } from "../../core/column_values";
import { makeCauseBar, makeCauseLegend } from "../../ui/cause_bar";
import { followFilter } from "../../ui/follow_filter";

const kLead =
  "After a fork, all processes share the same memory. A process that writes to a shared page gets a copy of that page, and memory grows. These writes did it:";

// The report's figures for the whole recording, differences of the columns for a selected span. There are no columns if
// nothing was copied or causes are not known; the report tells which.
function causesOf(filter: Filter): Causes | null {
  const { page, pinned, span } = filter;
  const whole = pinned === null ? page.report.causes : (processOf(page.report, pinned)?.causes ?? null);
  if (span === null) return whole;
  const { causes, first } = pinned ?? { causes: page.totals.causes, first: 0 };
  return causes.size === 0 && whole !== null ? new Map() : causesWithin(causes, first, page, span);
}

function makeCauses(filter: Filter): HTMLElement {
  const causes = causesOf(filter);
  const sum = sumOfCauses(causes);
  const { pageBytes } = filter.page.run;
  const when = filter.span === null ? "" : `, ${spanInWords(filter.span)}`;
  if (causes === null) return make("p", "empty", "Not known: this recording does not say what caused the copies.");
  if (sum === 0) return make("p", "empty", `No page was copied by ${filter.pinned === null ? "any process" : filter.label}${when}.`);
  const head = make(
    "p",
    "why-total",
    make("strong", "", pageBytes === null ? `${formatCount(sum)} pages` : formatBytes(sum * pageBytes)),
    ` copied by ${filter.label}${when}`,
  );
  return make("div", "why-causes", head, makeCauseBar(causes), makeCauseLegend(causes, pageBytes));
}

function footnotesOf(filter: Filter): string {
  if (filter.span !== null) return "";
  const { report } = filter.page;
  const { pinned } = filter;
  return [taxInWords(report, pinned === null ? null : processOf(report, pinned)), pinned === null ? evidenceInWords(report) : ""]
    .filter((text) => text !== "")
    .join(" ");
}

function isKnown(report: Report): boolean {
  return report.causes !== null || (report.copies ?? 0) > 0 || report.verify !== null;
}

// Pins a process, like the buttons in the table of workers.
function makeChooser(store: Store): { element: HTMLElement; fill: () => void } {
  const select = mark(make("select", "chooser"), { id: "scope" });
  const label = make("label", "choose", "Show", select);
  select.addEventListener("change", () => store.set({ pinned: select.value === "" ? null : Number(select.value) }));
  let filled = ""; // with these options; a worker's name may become known later
  const fill = (): void => {
    const known = processesOf(store.page.report).filter((row) => row.causes !== null || row.types.length + row.lines.length > 0);
    const options = [["", "all processes"], ...known.map((row) => [String(row.index), visibleText(processLabel(row))])];
    const words = options.map((option) => option.join(" ")).join("\n");
    if (words !== filled) select.replaceChildren(...options.map(([value = "", name = ""]) => new Option(name, value)));
    filled = words;
    select.value = store.view.pinned === null ? "" : String(store.view.pinned);
    label.hidden = known.length === 0;
  };
  return { element: label, fill };
}

export function makeWhySection(store: Store): HTMLElement {
  const section = makeSection("why", "Why memory was copied", kLead);
  const content = make("div", "why-content");
  const chooser = makeChooser(store);
  section.querySelector("h2")?.after(chooser.element);
  const show = (): void => {
    const filter = filterOf(store.page, store.view);
    section.hidden = !isKnown(store.page.report);
    chooser.fill();
    const verified = filter.pinned === null && filter.span === null ? verifyInWords(store.page.report.verify) : "";
    content.replaceChildren(makeCauses(filter), make("p", "verified", verified), make("p", "note", footnotesOf(filter)));
  };
  followFilter(store, show);
  show();
  section.append(content);
  return section;
}
