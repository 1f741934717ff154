// Owns the findings under the verdict: a card for each, what was found beside what to do, the evidence folded.
// Called by: main.ts, once.
// Does not: diagnose; it shows what the report found, in the report's order.
import { make, mark } from "./dom";
import { formatShare } from "./format";
import type { Diagnosis } from "./report";

function makeList(texts: string[]): HTMLElement {
  return make("ul", "", ...texts.map((text) => make("li", "", text)));
}

function makeTags(diagnosis: Diagnosis): HTMLElement {
  const { confidence, pids, id } = diagnosis;
  const processes = pids.length === 0 ? null : make("span", "", pids.length === 1 ? `process ${pids[0]}` : `${pids.length} processes`);
  if (processes !== null && pids.length > 1) mark(processes, { title: pids.join(", ") });
  return make("p", "diagnosis-head", make("span", "diagnosis-id", id), confidence === null ? null : make("span", "", `confidence ${formatShare(confidence)}`), processes);
}

function makeEvidence(evidence: string[]): HTMLElement | null {
  if (evidence.length === 0) return null;
  return make("details", "evidence printed", make("summary", "", evidence.length === 1 ? "Evidence" : `Evidence (${evidence.length})`), makeList(evidence));
}

function makeCard(diagnosis: Diagnosis): HTMLElement {
  const advice = diagnosis.advice.length === 0 ? null : make("div", "advice", make("h4", "", "What to do"), makeList(diagnosis.advice));
  return make(
    "article", `panel diagnosis ${diagnosis.id === "clean" ? "good" : ""}`.trim(),
    make("div", "finding", makeTags(diagnosis), make("h3", "", diagnosis.summary), makeEvidence(diagnosis.evidence)),
    advice,
  );
}

export function makeDiagnosesSection(diagnoses: Diagnosis[]): HTMLElement | null {
  if (diagnoses.length === 0) return null;
  return mark(make("section", "diagnoses", ...diagnoses.map(makeCard)), { id: "diagnoses", "aria-label": "Findings and advice" });
}
