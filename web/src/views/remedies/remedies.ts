// Owns the section on remedies: what each would have saved of the workers' peak, and what it costs.
// Does not: judge or order; figures and sentences are the report's.
import "./remedies.css";
import { formatBytes } from "../../core/format";
import type { Remedy } from "../../data/report";
import { make, makeSection, mark } from "../../ui/dom";

const kTitles = ["what to do", "saves of the peak", "costs", "rests on"];

function makeRow(remedy: Remedy): HTMLElement {
  const copied = remedy.savesCopied === null ? "" : `, but the time of copying ${formatBytes(remedy.savesCopied)}`;
  const obstacle = remedy.obstacle === "" ? "" : `But: ${remedy.obstacle}. `;
  return make(
    "tr",
    "",
    mark(make("th", "words", remedy.action), { scope: "row" }),
    make("td", "words", `${remedy.saves}${copied}`),
    make("td", "words", `${obstacle}${remedy.cost}`),
    make("td", "words", remedy.restsOn),
  );
}

export function makeRemediesSection(remedies: Remedy[]): HTMLElement {
  const section = makeSection("remedies", "Remedies", "");
  section.hidden = remedies.length === 0;
  const heads = kTitles.map((title) => mark(make("th", "words", title), { scope: "col" }));
  const table = make(
    "table",
    "",
    make("caption", "", "What each remedy would have saved of the workers' private memory at its peak"),
    make("thead", "", make("tr", "", ...heads)),
    make("tbody", "", ...remedies.map(makeRow)),
  );
  section.append(mark(make("div", "scroll", table), { tabindex: "0", role: "region", "aria-label": "Table of remedies" }));
  return section;
}
