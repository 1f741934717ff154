// Owns the forecast at the top of the page: its sentence, and a bar of the limit that is nearest.
// Called by: header.ts.
// Does not: forecast; it draws figures of the report, and nothing where there are none.
import { make, mark } from "./dom";
import { formatQuantity, formatSeconds } from "./format";
import type { LimitOutlook, Outlook } from "./report";
import "./outlook.css";

const kTones: Record<string, { words: string; ended: string; tone: string }> = {
  "safe": { words: "Forecast: safe", ended: "No limit was near", tone: "good" },
  "tight": { words: "Forecast: tight", ended: "A limit was near", tone: "warn" },
  "will-exceed": { words: "Forecast: will exceed a limit", ended: "A limit was met", tone: "bad" },
};
const kMostOver = 1.4;         // times the limit: the bar shows no more of what would lie beyond it

function part(className: string, from: number, to: number): HTMLElement {
  const bar = make("span", className);
  bar.style.left = `${Math.max(0, Math.min(1, from)) * 100}%`;
  bar.style.width = `${Math.max(0, Math.min(1, to) - Math.max(0, from)) * 100}%`;
  return bar;
}

function inWords({ kind, name, unit, used, limit, peak }: LimitOutlook, ended: boolean): [string, string][] {
  const range = peak.low !== null && peak.high !== null && peak.high > peak.low ? `${formatQuantity(peak.low, unit)} to ${formatQuantity(peak.high, unit)}` : formatQuantity(peak.best, unit);
  return [[ended ? "used at the end" : "used", formatQuantity(used, unit)], [ended ? "at most" : "forecast", range], [`limit ${kind} ${name}`, formatQuantity(limit, unit)]];
}

function makeLimitBar(limit: LimitOutlook, tone: string, ended: boolean): HTMLElement {
  const bound = limit.limit ?? 1;
  const { low, best, high } = limit.peak;
  const whole = Math.min(kMostOver * bound, Math.max(bound, high ?? best ?? 0));
  const bar = make("div", `outlook-bar ${tone}`, part("outlook-used", 0, (limit.used ?? 0) / whole));
  if (low !== null && high !== null) bar.append(part("outlook-range", low / whole, high / whole));
  if (best !== null) bar.append(part("outlook-best", best / whole, best / whole));
  bar.append(part("outlook-limit", bound / whole, bound / whole));
  const words = inWords(limit, ended);
  mark(bar, { "role": "img", "aria-label": words.map(([name, value]) => `${name}: ${value}`).join(", ") });
  const keys = ["used", "range", "limit"];
  const legend = words.map(([name, value], i) => make("span", "outlook-key", make("span", `outlook-swatch ${keys[i] ?? ""}`), make("span", "outlook-name", name), make("span", "outlook-value", value)));
  return make("div", "outlook-limits", bar, make("div", "outlook-keys", ...legend));
}

export function makeOutlook(outlook: Outlook): HTMLElement | null {
  const tone = kTones[outlook.verdict];
  const limit = outlook.nearestLimit;
  if (outlook.sentence === "" && tone === undefined && limit === null) return null;
  const when = tone?.tone === "bad" && !outlook.ended && outlook.etaLimitSeconds !== null ? ` in about ${formatSeconds(outlook.etaLimitSeconds)}` : "";
  const pill = tone === undefined ? null : make("span", `pill ${tone.tone}`, outlook.ended ? tone.ended : `${tone.words}${when}`);
  const sentence = outlook.sentence === "" ? null : make("span", "outlook-sentence", outlook.sentence);
  return mark(make("div", "outlook", make("p", "outlook-words", pill, sentence), limit === null ? null : makeLimitBar(limit, tone?.tone ?? "", outlook.ended)), { id: "outlook" });
}
