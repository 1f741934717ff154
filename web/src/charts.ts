// Owns the drawing of one strip: what uPlot is told about axes, scales, lines and areas.
// Called by: timeline.ts, once for each strip.
// Does not: know the recording or the pointer: plan and data come in, and gestures.ts watches all strips together.
import uPlot from "uplot";
import { causeColour } from "./causes";
import { formatClock, formatCount, formatKibStep, visibleText } from "./format";
import { causePattern } from "./hatching";
import type { Line } from "./lines";
import type { Strip } from "./strips";
import { colour } from "./theme";

export interface ChartState {
  range: () => [number, number];
  look: (line: Line) => { colour: string; width: number }; // as it is drawn now: greyed, or stronger
  hidden: Set<string>;
  last: () => string;                          // name of the lowest strip: it alone spells the time axis
  onDraw: (plot: uPlot, strip: Strip) => void;
}

const kTimeSteps = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400, 172800, 604800];
const kKibSteps = Array.from({ length: 45 }, (_, power) => 2 ** power);
const kFont = "12px system-ui, sans-serif";
const kCause = "cause:";
const kBottom = 30;            // height of the time axis below the lowest strip

export function axisSize(): number {
  return innerWidth < 600 ? 58 : 74;
}

export function lineColour(name: string): string {
  return colour(name.startsWith(kCause) ? causeColour(name.slice(kCause.length)) : name);
}

function fillOf(name: string): CanvasPattern | string {
  return name.startsWith(kCause) ? causePattern(name.slice(kCause.length)) : colour(name);
}

// A value with no neighbour draws no line: it gets a dot instead.
function lonelyPoints(plot: uPlot, series: number, show: boolean): number[] | null {
  if (show) return null;
  const values = plot.data[series] ?? [];
  const lonely: number[] = [];
  for (let i = 0; i < values.length; i++) {
    if (values[i] != null && values[i - 1] == null && values[i + 1] == null) lonely.push(i);
  }
  return lonely;
}

function makeSeries(line: Line, state: ChartState): uPlot.Series {
  return {
    label: line.label,
    show: !state.hidden.has(line.key),
    stroke: () => lineColour(state.look(line).colour),
    width: line.width,
    dash: line.dash,
    spanGaps: false,
    ...(line.fill === "" ? {} : { fill: () => fillOf(line.fill) as string }), // uPlot hands a pattern on to the canvas
    points: { show: () => false, filter: lonelyPoints, size: 6, fill: () => lineColour(line.colour) },
  };
}

function makeAxes(strip: Strip, state: ChartState): uPlot.Axis[] {
  const grid = { stroke: () => colour("grid"), width: 1 };
  const spell = strip.unit === "kib" ? formatKibStep : (value: number): string => formatCount(value);
  const common = { stroke: () => colour("muted"), grid, ticks: { show: false }, font: kFont };
  const labelled = (): boolean => state.last() === strip.name;
  return [
    {
      ...common, size: () => (labelled() ? kBottom : 8), incrs: kTimeSteps, space: 84,
      values: (_plot, splits) => splits.map((at) => (labelled() ? formatClock(at, (splits[1] ?? 1) - (splits[0] ?? 0)) : "")),
    },
    {
      ...common, size: () => axisSize(), gap: 8, space: strip.height > 100 ? 38 : 24,
      ...(strip.unit === "kib" ? { incrs: kKibSteps } : {}),
      values: (_plot, splits) => splits.map((value) => (strip.unit !== "kib" && !Number.isInteger(value) ? "" : spell(value))),
    },
  ];
}

// Limits beyond the scale are named where they would be: above.
function drawBeyond(plot: uPlot, strip: Strip): void {
  if (strip.beyond.length === 0) return;
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
  ctx.fillStyle = colour("limit");
  ctx.textAlign = "right";
  ctx.textBaseline = "top";
  const more = strip.beyond.length > 2 ? ` and ${strip.beyond.length - 2} more` : "";
  const words = strip.beyond.slice(0, 2).map((limit) => visibleText(limit).slice(0, 60)).join(", ");
  ctx.fillText(`↑ limit ${words}${more}`, bbox.left + bbox.width - 4 * devicePixelRatio, bbox.top + 2 * devicePixelRatio, bbox.width);
  ctx.restore();
}

export interface Place { strip: Strip; host: HTMLElement; title: HTMLElement }
export interface Chart extends Place { plot: uPlot }

// A later plan with the same lines becomes the strip of this place: what may change is asked when it is drawn.
export function makePlot(place: Place, state: ChartState): uPlot {
  const { strip, host } = place;
  const series = [{}, ...strip.lines.map((line) => makeSeries(line, state))];
  const band: uPlot.Band[] = strip.band === null ? [] : [{ series: [strip.band[0] + 1, strip.band[1] + 1], fill: () => colour("crowd-fill") }];
  const options: uPlot.Options = {
    width: Math.max(200, host.clientWidth),
    height: strip.height + (state.last() === strip.name ? kBottom - 8 : 0),
    padding: [8, 12, 0, 0],
    legend: { show: false },
    cursor: { show: false },
    scales: {
      x: { time: false, range: () => state.range() },
      y: { range: (_plot, _min, max) => [0, Math.max(max, place.strip.atLeast) > 0 ? Math.max(max, place.strip.atLeast) * 1.08 : 1] },
    },
    axes: makeAxes(strip, state),
    series, bands: band,
    hooks: { draw: [(plot) => { drawBeyond(plot, place.strip); state.onDraw(plot, place.strip); }] },
  };
  return new uPlot(options, undefined, host);
}
