// Owns the findings below the verdict: a card each, with the finding beside the advice, and the evidence folded.
// Does not: diagnose; it shows the report's findings in the report's order.
import { makeCopyButton } from "../../ui/clipboard";
import { make, mark } from "../../ui/dom";
import { formatBytes, formatShare, visibleText } from "../../core/format";
import type { Diagnosis } from "../../data/report";
import "./diagnoses.css";

function makeList(texts: string[]): HTMLElement {
  return make("ul", "", ...texts.map((text) => make("li", "", text)));
}

function makeTags(diagnosis: Diagnosis): HTMLElement {
  const { confidence, pids, id } = diagnosis;
  const processes = pids.length === 0 ? null : make("span", "", pids.length === 1 ? `process ${pids[0]}` : `${pids.length} processes`);
  if (processes !== null && pids.length > 1) mark(processes, { title: pids.join(", ") });
  return make(
    "p",
    "diagnosis-head",
    make("span", "diagnosis-id", id),
    confidence === null ? null : make("span", "", `confidence ${formatShare(confidence)}`),
    processes,
  );
}

function makeEvidence(evidence: string[]): HTMLElement | null {
  if (evidence.length === 0) return null;
  return make(
    "details",
    "evidence printed",
    make("summary", "", evidence.length === 1 ? "Evidence" : `Evidence (${evidence.length})`),
    makeList(evidence),
  );
}

// The tool's code sketch of a fix. The only text whose line breaks and indentation are kept.
function makeSketch(sketch: string): HTMLElement | null {
  if (sketch === "") return null;
  const code = make("code", "", ...sketch.split("\n").flatMap((line, i) => (i === 0 ? [line] : [document.createTextNode("\n"), line])));
  const frame = mark(make("pre", "", code), { tabindex: "0", role: "region", "aria-label": "Code sketch" });
  return make(
    "div",
    "sketch",
    make("h4", "", "How it could look"),
    makeCopyButton("copy-sketch", "copy", () => sketch.split("\n").map(visibleText).join("\n")),
    frame,
  );
}

// "What to do, saves about 36.7 MiB to 45.9 MiB", as in the report's text.
function makeTitle({ saves }: Diagnosis): HTMLElement {
  if (saves === null || saves.high === 0) return make("h4", "", "What to do");
  const { low, high } = saves;
  const how =
    low === 0 ? `at most ${formatBytes(high)}` : low === high ? formatBytes(high) : `about ${formatBytes(low)} to ${formatBytes(high)}`;
  return make("h4", "", `What to do, saves ${how}`);
}

// Beside a sketch only the first advice is shown; the others are one click away.
function makeAdvice(diagnosis: Diagnosis): HTMLElement | null {
  const { advice, sketch } = diagnosis;
  const [first, ...others] = advice;
  if (first === undefined) return null;
  if (sketch === "" || others.length === 0) return make("div", "advice", makeTitle(diagnosis), makeList(advice));
  const rest = make("details", "evidence printed", make("summary", "", `More advice (${others.length})`), makeList(others));
  return make("div", "advice", makeTitle(diagnosis), make("p", "first-advice", first), rest);
}

function makeCard(diagnosis: Diagnosis): HTMLElement {
  const sketch = makeSketch(diagnosis.sketch);
  const [advice, evidence] = [makeAdvice(diagnosis), makeEvidence(diagnosis.evidence)];
  return make(
    "article",
    `panel diagnosis ${diagnosis.id === "clean" ? "good" : ""}`.trim(),
    make("div", "finding", makeTags(diagnosis), make("h3", "", diagnosis.summary), ...(sketch === null ? [evidence] : [advice, evidence])),
    sketch ?? advice,
  );
}

export function makeDiagnosesSection(diagnoses: Diagnosis[]): HTMLElement | null {
  if (diagnoses.length === 0) return null;
  return mark(make("section", "diagnoses", ...diagnoses.map(makeCard)), { id: "diagnoses", "aria-label": "Findings and advice" });
}
