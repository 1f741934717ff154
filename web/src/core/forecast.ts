// Owns the forecasts of a recording: what cowprof forecast at a sample, in words, and the space that a chart needs for it.
// Does not: forecast; every figure was recorded by the tool at that moment.
import type { Page } from "../data/decode";
import { formatClock, formatEta, formatKib } from "./format";
import { type Point, highestOf } from "./column_values";
import { lastBefore } from "./search";

export interface Said {
  seconds: number;
  now: number; // when, and what the workers owned then
  low: number;
  best: number;
  high: number; // KiB that they will own
  ceiling: Point;
  eta: Point; // KiB; seconds until the plateau
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
  const [low, best, high] = [at("low"), at("best"), at("high")];
  if (best === null || now === null) return null;
  const limit = limits[at("limit") ?? -1];
  return {
    seconds,
    now,
    low: low ?? best,
    best,
    high: high ?? best,
    ceiling: at("ceiling"),
    eta: at("eta"),
    limit: limit === undefined ? "" : `${limit.kind} ${limit.name}`,
    limitEta: at("limitEta"),
  };
}

// The latest forecast of a run that is live or was cut off. Only then does it reach beyond the recording.
export function standingForecast(page: Page): Said | null {
  return page.run.complete && !page.run.live ? null : saidAt(page, page.seconds.length - 1);
}

// Seconds that the axis needs beyond the last sample.
export function forecastRoom(page: Page): number {
  const said = standingForecast(page);
  if (said === null) return 0;
  const span = (page.seconds.at(-1) ?? 0) - Math.min(0, page.seconds[0] ?? 0);
  return said.eta === null || said.eta <= 0 ? kRoomUntold * span : Math.min(said.eta * 1.15, kMostRoom * span);
}

// How high the scale must reach for the band, in KiB.
export function forecastTop(page: Page): number {
  const said = standingForecast(page);
  const most = highestOf(page.totals.private.values) ?? 0;
  if (said !== null) return Math.min(4 * most, said.high);
  return Math.min(kMostHeight * most, highestOf(page.forecasts.best.values) ?? 0);
}

export function saidInWords(said: Said): string {
  const range = said.high > said.low ? ` (${formatKib(said.low)} to ${formatKib(said.high)})` : "";
  const when = said.eta === null ? "" : said.eta <= 0 ? ", reached" : ` in ${formatEta(said.eta)}`;
  const limit = said.limitEta === null || said.limit === "" ? "" : `; limit ${said.limit} in ${formatEta(said.limitEta)}`;
  return `At ${formatClock(said.seconds)} cowprof said: workers level off at ${formatKib(said.best)}${range}${when}${limit}`;
}
