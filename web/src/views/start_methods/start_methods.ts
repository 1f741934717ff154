// Owns the section on start methods: what spawn and forkserver would send to each worker, and what pickle refuses of it.
// Does not: judge; sentence, reasons and fixes are the report's.
import "./start_methods.css";
import { make, makeSection, mark } from "../../ui/dom";
import type { PickleFailure, StartMethods } from "../../data/start_methods";

const kTitles = ["what", "type", "why", "what to do"];

function makeFailureRow(failure: PickleFailure): HTMLElement {
  const defined = failure.definedAt === "" ? "" : `; defined at ${failure.definedAt}`;
  const certainty = failure.certain ? "" : " (possible)";
  return make(
    "tr",
    "",
    mark(make("th", "words code", failure.path), { scope: "row" }),
    make("td", "words code", failure.type),
    make("td", "words", `${failure.reason}${defined}${certainty}`),
    make("td", "words", failure.fix),
  );
}

export function makeStartMethodsSection(methods: StartMethods | null): HTMLElement {
  const section = makeSection("start-methods", "Start methods", "");
  section.hidden = methods === null;
  if (methods === null) return section;
  const said = methods.sentence.charAt(0).toUpperCase() + methods.sentence.slice(1);
  section.append(make("p", "lead", methods.root === "" ? `${said}.` : `${said}. Judged: ${methods.root}.`));
  if (methods.failures.length > 0) {
    const heads = kTitles.map((title) => mark(make("th", "words", title), { scope: "col" }));
    const table = make(
      "table",
      "",
      make("caption", "", "What can't be pickled, in the order in which pickle meets it"),
      make("thead", "", make("tr", "", ...heads)),
      make("tbody", "", ...methods.failures.map(makeFailureRow)),
    );
    section.append(mark(make("div", "scroll", table), { tabindex: "0", role: "region", "aria-label": "Table of what can't be pickled" }));
  }
  for (const unknown of methods.unknowns) section.append(make("p", "lead", `May fail: ${unknown.path} runs ${unknown.runs}.`));
  return section;
}
