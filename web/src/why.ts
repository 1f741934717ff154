// Owns the section that answers why memory was copied: the bar of causes, its legend, and the tables of blame.
// Called by: main.ts, once.
// Does not: know what a cause means (causes.ts), a row (blametable.ts), or whose copies there are (scopes.ts).
import type { BlameRow } from "./blame";
import { BlameTable, type TableSpec } from "./blametable";
import { makeCauseBar, makeCauseLegend, sumOfCauses } from "./causes";
import { make, makeSection, mark } from "./dom";
import { formatBytes, formatCount, visibleText } from "./format";
import type { Report } from "./report";
import { estimateInWords, evidenceInWords, planScopes, verifyInWords, type Scope } from "./scopes";

const kLead = "After a fork, all processes share the same memory. Whoever writes to a shared page gets a copy of that page, and memory grows. These writes did it:";
const kRowsOfProcess = 10; // as many as the report lists for one process

const kLines = { id: "by-line", title: "Python lines that ran", name: "line", detail: "function", first: 20 };
const kTypes = { id: "by-type", title: "Objects that were written", name: "type", detail: "", first: 10 };
const kNative = { id: "by-native", title: "Native code that wrote", name: "symbol", detail: "module", first: 10 };
const kRegions = { id: "by-region", title: "Memory regions", name: "region", detail: "start", first: 10, sized: true };

function makeCauses(scope: Scope, pageBytes: number | null): HTMLElement {
  const sum = sumOfCauses(scope.causes);
  if (scope.causes === null) return make("p", "empty", "Not known: this recording does not tell what the copies were made for.");
  if (sum === 0) return make("p", "empty", `No page was copied by ${scope.whole ? "any process" : scope.label}.`);
  const amount = pageBytes === null ? `${formatCount(sum)} pages` : formatBytes(sum * pageBytes);
  const head = make("p", "why-total", make("strong", "", amount), ` copied by ${scope.label}`);
  return make("div", "why-causes", head, makeCauseBar(scope.causes), makeCauseLegend(scope.causes, pageBytes));
}

function makePart(spec: TableSpec, rows: BlameRow[], note: string): HTMLElement {
  const part = mark(make("div", "blame-box", make("h3", "", spec.title)), { id: spec.id });
  part.append(rows.length === 0 ? make("p", "empty", `Not known${note === "" ? "" : ` for ${note}`}.`) : new BlameTable(spec, rows).element);
  return part;
}

// Of one process the report has only the largest rows, and neither native code nor regions.
function makeTables(report: Report, scope: Scope, pageBytes: number | null): HTMLElement {
  const grid = make("div", "blame-grid");
  const add = (spec: Omit<TableSpec, "pageBytes">, rows: BlameRow[]): void => {
    const part = makePart({ ...spec, pageBytes }, rows, scope.whole ? "" : scope.label);
    if (!scope.whole && rows.length >= kRowsOfProcess) part.append(make("p", "note", `The ${kRowsOfProcess} largest of ${scope.label}.`));
    grid.append(part);
  };
  if (scope.lines.length + scope.types.length > 0) {
    add(kLines, scope.lines);
    add(kTypes, scope.types);
  } else if (!scope.whole && report.lines.length + report.types.length > 0) {
    grid.append(make("p", "empty", `Lines and types are not known for ${scope.label}.`));
  }
  if (scope.whole && report.native.length > 0) add(kNative, report.native);
  if (scope.whole && report.regions.length > 0) add(kRegions, report.regions);
  return grid;
}

function makeChooser(scopes: Scope[], choose: (scope: Scope) => void): HTMLElement | null {
  if (scopes.length < 2) return null;
  const select = mark(make("select", "chooser"), { id: "scope" });
  scopes.forEach((scope, position) => select.append(new Option(visibleText(scope.label), String(position))));
  select.addEventListener("change", () => {
    const scope = scopes[Number(select.value)];
    if (scope !== undefined) choose(scope);
  });
  return make("label", "choose", "Show", select);
}

function makeSmallPrint(report: Report, scope: Scope): HTMLElement {
  const words = [scope.tax, scope.whole ? evidenceInWords(report) : ""].filter((text) => text !== "");
  return make("p", "note", words.join(" "));
}

export function makeWhySection(report: Report, pageBytes: number | null): HTMLElement | null {
  const scopes = planScopes(report);
  const whole = scopes[0];
  const anything = report.causes !== null || report.types.length + report.lines.length + report.native.length + report.regions.length > 0;
  if (whole === undefined || (!anything && (report.copies ?? 0) === 0 && report.verify === null)) return null;
  const section = makeSection("why", "Why memory was copied", kLead);
  const content = make("div", "why-content");
  const show = (scope: Scope): void => {
    content.replaceChildren(
      makeCauses(scope, pageBytes), make("p", "verified", scope.whole ? verifyInWords(report.verify) : ""), makeSmallPrint(report, scope),
      makeTables(report, scope, pageBytes), make("p", "note", estimateInWords(scope, report)),
    );
  };
  const chooser = makeChooser(scopes, show);
  if (chooser !== null) section.querySelector("h2")?.after(chooser);
  show(whole);
  section.append(content);
  return section;
}
