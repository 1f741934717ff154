// Owns the top of the page: verdict, forecast, command, facts and warnings, and the four tiles.
// Does not: judge; verdict and forecast are the tool's.
import "./header.css";
import type { Page } from "../../data/decode";
import { make, makeBar, mark, ratioTone } from "../../ui/dom";
import {
  exactnessInWords,
  formatBytes,
  formatClock,
  formatCount,
  formatKib,
  formatQuantity,
  formatSeconds,
  formatShare,
  visibleText,
} from "../../core/format";
import { makeForecastSection } from "./forecast_section";
import type { Store } from "../../store";
import { makeFact, makeTile, makeTopRow, makeVerdict } from "../../ui/page_head";
import { lastHeld, lastOf, highestOf } from "../../core/column_values";
import { workersInWords } from "../../core/processes";

function makeFacts(page: Page): HTMLElement {
  const { report, run } = page;
  const duration = formatSeconds(report.durationSeconds ?? page.seconds.at(-1) ?? null);
  const rung = report.rung || run.rung;
  const facts = [
    makeFact("pid", report.pid === null ? "—" : String(report.pid)),
    makeFact("duration", duration),
    makeFact("samples", formatCount(report.samples ?? page.seconds.length)),
    makeFact("workers", workersInWords(report)),
    makeFact("exactness", exactnessInWords(report.exactness || run.exactness) + (rung === "" || rung === "none" ? "" : ` (${rung})`)),
  ];
  if (report.startMethod !== "" && report.startMethod !== "none") facts.push(makeFact("start method", report.startMethod));
  if (report.host !== "") facts.push(makeFact("host", visibleText(report.host)));
  if (report.job !== "") facts.push(makeFact("job", visibleText(report.job)));
  if (report.labels.length > 0) facts.push(makeFact("labels", visibleText(report.labels.join(", "))));
  if (report.python !== "") facts.push(makeFact("Python", report.python));
  return make("dl", "facts", ...facts);
}

function makeWarnings(page: Page): HTMLElement[] {
  return page.warnings.map((text) => mark(make("p", "warning", text), { role: "status" }));
}

function copiedTile(page: Page): HTMLElement {
  const { copiedBytes, copies } = page.report;
  const detail = copies === null ? "copies were not counted" : `${formatCount(copies)} copies of shared pages, parent included`;
  return makeTile("copied", "Lost to copies", formatBytes(copiedBytes), detail);
}

// The verdict's peak of the workers may be of a moment between two samples, just before one of them ended.
function privateTile(page: Page): HTMLElement {
  const column = page.totals.private.values;
  const at = lastHeld(column);
  const now = lastOf(column, at + 1);
  const together = Math.max(highestOf(column) ?? 0, page.totals.peakPrivate);
  const workers = Math.floor((page.report.peakWorkersPrivateBytes ?? 0) / 1024);
  const peak = Math.max(together, workers);
  if (now === null && peak === 0) return makeTile("private", "Private memory", formatKib(null), "not measured");
  const whose = workers > together ? "peak of the workers alone" : "peak of all processes, parent included";
  const detail = now === null ? whose : `${whose}; ${formatKib(now)} at ${formatClock(page.seconds[at] ?? 0)}`;
  return makeTile("private", "Private memory", formatKib(peak), detail);
}

function sharedTile(page: Page): HTMLElement {
  const at = lastHeld(page.totals.stillShared.values);
  const shared = lastOf(page.totals.stillShared.values, at + 1);
  const detail =
    shared === null
      ? "not measured"
      : `summed over all processes, as of ${formatClock(page.seconds[at] ?? 0)}; the last one with a page takes it over without a copy`;
  return makeTile("shared", "Still shared", formatKib(shared), detail);
}

function limitTile(page: Page): HTMLElement {
  const { nearestLimit: limit, forecast } = page.report;
  if (limit === null) return makeTile("limit", "Nearest limit", "none", "no limit applies to these processes");
  const most = limit.peakRatio;
  const end = formatClock(page.seconds.at(-1) ?? 0);
  const share = forecast.ended && most !== null ? most : limit.ratio;
  const when =
    forecast.ended && most !== null
      ? `at the peak; ${formatShare(limit.ratio)} at ${end}`
      : `as of ${end}${most === null ? "" : `; at most ${formatShare(most)}`}`;
  const bound = formatQuantity(limit.limit, limit.unit);
  const changed = forecast.ended && Math.abs((limit.peak ?? 0) / (limit.limit ?? NaN) - (most ?? 0)) > 0.005;
  const detail = `of ${changed ? `its limit then, now ${bound}` : bound}: ${limit.kind} ${limit.name}, ${when}`;
  return makeTile("limit", "Nearest limit", formatShare(share), detail, makeBar(share, ratioTone(share)));
}

// Emphasizes the headline or, on old pages, the first sentence. A forecast at the end is dropped, as it has its own lines
// below.
function verdictOf(page: Page): HTMLElement {
  const { sentence } = page.report.forecast;
  const verdict = sentence === "" ? page.verdict : page.verdict.replace(` Forecast: ${sentence}.`, "");
  const { headline } = page.report;
  const [, firstSentence = verdict] = /^(.+?[.:!?])\s+[A-Z0-9]/s.exec(verdict) ?? [];
  const first = headline !== "" && verdict.startsWith(headline) ? headline : firstSentence;
  const rest = verdict.slice(first.length);
  return makeVerdict(first || "This recording has no verdict.", rest);
}

export function makeHeader({ page }: Store): HTMLElement {
  const command = make("p", "command", page.report.command || "unknown command");
  return make(
    "header",
    "page-header",
    makeTopRow(),
    verdictOf(page),
    makeForecastSection(page.report.forecast),
    command,
    makeFacts(page),
    ...makeWarnings(page),
  );
}

export function makeTiles({ page }: Store): HTMLElement {
  const tiles = make("section", "tiles", copiedTile(page), privateTile(page), sharedTile(page), limitTile(page));
  return mark(tiles, { "aria-label": "Key figures" });
}
