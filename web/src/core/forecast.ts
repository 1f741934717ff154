// Owns the forecasts of a recording: what cowprof forecast at a sample, in words, and the space that a chart needs for it.
// Does not: forecast; every figure was recorded by the tool at that moment.
import type { Page } from "../data/decode";
import { formatClock, formatEta, formatKib } from "./format";
import { type Point, highestOf } from "./column_values";
import { lastBefore } from "./search";

export interface Plateau {
  now: number; // what the workers owned then
  low: number;
  best: number;
  high: number; // KiB that they will own
  ceiling: Point;
  eta: Point; // KiB; seconds until the plateau
}

// At least one of `plateau` and `limitEta` is known.
export interface Said {
  seconds: number; // when
  plateau: Plateau | null;
  limit: string;
  limitEta: Point;
}

const kMostRoom = 0.75; // of the recorded span, beyond its end, so that the recording itself stays readable
const kRoomUntold = 0.12; // if the plateau is known, but not its time
const kMostHeight = 1.5; // times the measured peak, for forecasts of a finished run

const known = (value: number | undefined): Point => (value === undefined || Number.isNaN(value) ? null : value);

// The forecast that held at a sample, with the moment at which it was made.
export function saidAt(page: Page, sample: number): Said | null {
  const { forecasts, totals, limits } = page;
  const at = (name: keyof Page["forecasts"]): Point => known(forecasts[name].values[sample]);
  const saidMs = at("saidMs");
  const seconds = saidMs === null ? (page.seconds[sample] ?? 0) : saidMs / 1000;
  const now = known(totals.workersPrivate.values[saidMs === null ? sample : lastBefore(page.seconds, seconds)]);
  const best = at("best");
  const limit = limits[at("limit") ?? -1];
  const limitEta = limit === undefined ? null : at("limitEta");
  const plateau =
    best === null || now === null
      ? null
      : { now, low: at("low") ?? best, best, high: at("high") ?? best, ceiling: at("ceiling"), eta: at("eta") };
  if (plateau === null && limitEta === null) return null;
  return { seconds, plateau, limit: limit === undefined ? "" : `${limit.kind} ${limit.name}`, limitEta };
}

// The latest forecast of a run that is live or was cut off. Only then does it reach beyond the recording.
export function standingForecast(page: Page): Said | null {
  return page.run.complete && !page.run.live ? null : saidAt(page, page.seconds.length - 1);
}

// Seconds that the axis needs beyond the last sample.
export function forecastRoom(page: Page): number {
  const plateau = standingForecast(page)?.plateau ?? null;
  if (plateau === null) return 0;
  const span = (page.seconds.at(-1) ?? 0) - Math.min(0, page.seconds[0] ?? 0);
  return plateau.eta === null || plateau.eta <= 0 ? kRoomUntold * span : Math.min(plateau.eta * 1.15, kMostRoom * span);
}

// How high the scale must reach for the band, in KiB.
export function forecastTop(page: Page): number {
  const plateau = standingForecast(page)?.plateau ?? null;
  const most = highestOf(page.totals.private.values) ?? 0;
  if (plateau !== null) return Math.min(4 * most, plateau.high);
  return Math.min(kMostHeight * most, highestOf(page.forecasts.best.values) ?? 0);
}

function plateauInWords({ low, best, high, eta }: Plateau): string {
  const range = high > low ? ` (${formatKib(low)} to ${formatKib(high)})` : "";
  const when = eta === null ? "" : eta <= 0 ? ", reached" : ` in ${formatEta(eta)}`;
  return `workers level off at ${formatKib(best)}${range}${when}`;
}

export function saidInWords({ seconds, plateau, limit, limitEta }: Said): string {
  const parts = plateau === null ? [] : [plateauInWords(plateau)];
  if (limitEta !== null) parts.push(`limit ${limit} full${limitEta <= 0 ? "" : ` in ${formatEta(limitEta)}`}`);
  return `Forecast at ${formatClock(seconds)}: ${parts.join("; ")}`;
}
