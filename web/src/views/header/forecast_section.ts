// Owns the forecast at the top of the page: its sentence, and a bar for the nearest limit.
// Does not: forecast; it draws the report's figures, or nothing if there are none.
import { make, mark } from "../../ui/dom";
import { formatEta, formatQuantity } from "../../core/format";
import type { LimitForecast, Forecast } from "../../data/report";
import "./forecast_section.css";

const kTones: Record<string, { words: string; ended: string; tone: string }> = {
  "safe": { words: "Forecast: safe", ended: "No limit was near", tone: "good" },
  "tight": { words: "Forecast: tight", ended: "A limit was near", tone: "warn" },
  "will-exceed": { words: "Forecast: will exceed a limit", ended: "A limit was met", tone: "bad" },
};
const kMostOver = 1.4; // times the limit: where the bar ends

function part(className: string, from: number, to: number): HTMLElement {
  const bar = make("span", className);
  bar.style.left = `${Math.max(0, Math.min(1, from)) * 100}%`;
  bar.style.width = `${Math.max(0, Math.min(1, to) - Math.max(0, from)) * 100}%`;
  return bar;
}

function inWords({ kind, name, unit, used, limit, peak }: LimitForecast, ended: boolean): [string, string][] {
  const range =
    peak.low !== null && peak.high !== null && peak.high > peak.low
      ? `${formatQuantity(peak.low, unit)} to ${formatQuantity(peak.high, unit)}`
      : formatQuantity(peak.best, unit);
  return [
    [ended ? "used at the end" : "used", formatQuantity(used, unit)],
    [ended ? "at most" : "forecast", range],
    [`limit ${kind} ${name}`, formatQuantity(limit, unit)],
  ];
}

function makeLimitBar(limit: LimitForecast, tone: string, ended: boolean): HTMLElement {
  const bound = limit.limit ?? 1;
  const { low, best, high } = limit.peak;
  const whole = Math.min(kMostOver * bound, Math.max(bound, high ?? best ?? 0));
  const bar = make("div", `forecast-bar ${tone}`, part("forecast-used", 0, (limit.used ?? 0) / whole));
  if (low !== null && high !== null) bar.append(part("forecast-range", low / whole, high / whole));
  if (best !== null) bar.append(part("forecast-best", best / whole, best / whole));
  bar.append(part("forecast-limit", bound / whole, bound / whole));
  const words = inWords(limit, ended);
  mark(bar, { "role": "img", "aria-label": words.map(([name, value]) => `${name}: ${value}`).join(", ") });
  const keys = ["used", "range", "limit"];
  const legend = words.map(([name, value], i) =>
    make(
      "span",
      "forecast-key",
      make("span", `forecast-swatch ${keys[i] ?? ""}`),
      make("span", "forecast-name", name),
      make("span", "forecast-value", value),
    ),
  );
  return make("div", "forecast-limits", bar, make("div", "forecast-keys", ...legend));
}

export function makeForecastSection(forecast: Forecast): HTMLElement | null {
  const tone = kTones[forecast.verdict];
  const limit = forecast.nearestLimit;
  if (forecast.sentence === "" && tone === undefined && limit === null) return null;
  // The sentence has the time, rounded as everywhere.
  const when =
    tone?.tone === "bad" && forecast.sentence === "" && !forecast.ended && forecast.etaLimitSeconds !== null
      ? ` in about ${formatEta(forecast.etaLimitSeconds)}`
      : "";
  const pill = tone === undefined ? null : make("span", `pill ${tone.tone}`, forecast.ended ? tone.ended : `${tone.words}${when}`);
  const sentence = forecast.sentence === "" ? null : make("span", "forecast-sentence", forecast.sentence);
  return mark(
    make(
      "div",
      "forecast-section",
      make("p", "forecast-words", pill, sentence),
      limit === null ? null : makeLimitBar(limit, tone?.tone ?? "", forecast.ended),
    ),
    { id: "forecast-section" },
  );
}
