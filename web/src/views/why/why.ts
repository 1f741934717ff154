// Owns the section that answers why memory was copied: the bar of causes, its legend, and the small print.
// Called by: main.ts, once; it follows the store.
// Does not: know what a cause means (causes.ts), or who copied (who.ts).
import { causesWithin, chosenOf, followChosen, labelOf, spanInWords, type Chosen } from "./chosen";
import type { Causes } from "./blame";
import { makeCauseBar, makeCauseLegend, sumOfCauses } from "./causes";
import { make, makeSection, mark } from "./dom";
import { formatBytes, formatCount } from "./format";
import type { Process, Report } from "./report";
import { evidenceInWords, taxInWords, verifyInWords } from "./smallprint";
import type { Store } from "./store";

const kLead = "After a fork, all processes share the same memory. Whoever writes to a shared page gets a copy of that page, and memory grows. These writes did it:";

function processOf(chosen: Chosen): Process | null {
  const { report } = chosen.page;
  const rows = [...report.workers, ...(report.parent === null ? [] : [report.parent])];
  return rows.find((row) => row.index === chosen.pinned?.index) ?? rows.find((row) => row.pid === chosen.pinned?.pid) ?? null;
}

// Of the whole recording the report's figures; within a time the differences of the columns.
function causesOf(chosen: Chosen): Causes | null {
  const { page, pinned, span } = chosen;
  if (span === null) return pinned === null ? page.report.causes : processOf(chosen)?.causes ?? null;
  return pinned === null ? causesWithin(page.totals.causes, 0, page, span) : causesWithin(pinned.causes, pinned.first, page, span);
}

function makeCauses(chosen: Chosen): HTMLElement {
  const causes = causesOf(chosen);
  const sum = sumOfCauses(causes);
  const { pageBytes } = chosen.page.run;
  const when = chosen.span === null ? "" : `, ${spanInWords(chosen.span)}`;
  if (causes === null) return make("p", "empty", "Not known: this recording does not tell what the copies were made for.");
  if (sum === 0) return make("p", "empty", `No page was copied by ${chosen.pinned === null ? "any process" : chosen.label}${when}.`);
  const head = make("p", "why-total", make("strong", "", pageBytes === null ? `${formatCount(sum)} pages` : formatBytes(sum * pageBytes)), ` copied by ${chosen.label}${when}`);
  return make("div", "why-causes", head, makeCauseBar(causes), makeCauseLegend(causes, pageBytes));
}

function smallPrint(chosen: Chosen): string {
  if (chosen.span !== null) return "";
  const { report } = chosen.page;
  const whole = chosen.pinned === null;
  return [taxInWords(report, processOf(chosen)), whole ? evidenceInWords(report) : ""].filter((text) => text !== "").join(" ");
}

function isKnown(report: Report): boolean {
  return report.causes !== null || (report.copies ?? 0) > 0 || report.verify !== null;
}

// Pins a process, as its row in the table of workers does.
function makeChooser(store: Store): { element: HTMLElement; fill: () => void } {
  const select = mark(make("select", "chooser"), { id: "scope" });
  const label = make("label", "choose", "Show", select);
  select.addEventListener("change", () => store.set({ pinned: select.value === "" ? null : Number(select.value) }));
  const fill = (): void => {
    const { workers, parent } = store.page.report;
    const known = [...workers, ...(parent === null ? [] : [parent])].filter((row) => row.causes !== null || row.types.length + row.lines.length > 0);
    const options = [["", "all processes"], ...known.map((row) => [String(row.index), labelOf(row)])];
    if (select.options.length !== options.length) select.replaceChildren(...options.map(([value = "", name = ""]) => new Option(name, value)));
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
    const chosen = chosenOf(store);
    section.hidden = !isKnown(store.page.report);
    chooser.fill();
    const verified = chosen.pinned === null && chosen.span === null ? verifyInWords(store.page.report.verify) : "";
    content.replaceChildren(makeCauses(chosen), make("p", "verified", verified), make("p", "note", smallPrint(chosen)));
  };
  followChosen(store, show);
  show();
  section.append(content);
  return section;
}
