// Owns the uPlot configuration of one strip: axes, scales, lines and areas.
// Does not: know the recording or the pointer; it gets plan and data, and gestures.ts watches all strips together.
import uPlot from "uplot";
import { causeColour } from "../../core/causes";
import { formatClock, formatCount, formatKibStep, visibleText } from "../../core/format";
import { causePattern } from "./hatching";
import type { ChartSeries } from "../../core/chart_series";
import type { Strip } from "../../core/chart_strips";
import { colour } from "../../ui/theme";
import { axisSize, kAxis, kKibSteps } from "../../ui/chart_axes";

export interface ChartState {
  range: () => [number, number];
  look: (one: ChartSeries) => { colour: string; width: number }; // its current look: greyed, normal or emphasized
  hidden: Set<string>;
  last: () => string; // name of the lowest strip, the only one that labels the time axis
  onDraw: (plot: uPlot, strip: Strip) => void;
}

const kTimeSteps = [
  0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400,
  172800, 604800,
];
const kCause = "cause:";
const kManyPoints = 600;
const kBottom = 30; // height of the time axis below the lowest strip

export function seriesColour(name: string): string {
  return colour(name.startsWith(kCause) ? causeColour(name.slice(kCause.length)) : name);
}

function fillOf(name: string): CanvasPattern | string {
  return name.startsWith(kCause) ? causePattern(name.slice(kCause.length)) : colour(name);
}

// A value without a neighbour has no line to be seen by, so it gets a dot. Where samples share a pixel, it stands there twice.
function lonelyPoints(plot: uPlot, series: number, show: boolean): number[] | null {
  if (show) return null;
  const values = plot.data[series] ?? [];
  const lonely: number[] = [];
  for (let i = 0; i < values.length; i++) {
    if (values[i] == null || values[i - 1] != null) continue;
    if (values[i + 1] == null || (values[i + 1] === values[i] && values[i + 2] == null)) lonely.push(i);
  }
  return lonely;
}

// Without a GPU a canvas strokes a one-pixel line forty times faster than a wide one with as many points (measured in Chromium:
// 8 lines of 2,200 points take 1 ms, or 55 ms if they are three pixels wide). So a line with many points is drawn thin, once per
// pixel of its width.
function thinPaths(plot: uPlot, at: number, from: number, to: number, width: number): uPlot.Series.Paths | null {
  const paths = uPlot.paths.linear?.()(plot, at, from, to) ?? null;
  const series = plot.series[at];
  if (paths === null || series === undefined) return paths;
  series.width = width;
  if (to - from < kManyPoints || !(paths.stroke instanceof Path2D)) return paths;
  const copies = Math.max(1, Math.round(width * devicePixelRatio));
  const stroke = new Path2D();
  for (let i = 0; i < copies; i++) stroke.addPath(paths.stroke, new DOMMatrix([1, 0, 0, 1, 0, i - (copies >> 1)]));
  series.width = 1 / devicePixelRatio;
  return { ...paths, stroke };
}

function makeSeries(one: ChartSeries, state: ChartState): uPlot.Series {
  return {
    label: one.label,
    show: !state.hidden.has(one.key),
    stroke: () => seriesColour(state.look(one).colour),
    width: one.width,
    paths: (plot, at, from, to) => thinPaths(plot, at, from, to, state.look(one).width),
    dash: one.dash,
    spanGaps: false,
    ...(one.fill === "" ? {} : { fill: () => fillOf(one.fill) as string }), // uPlot passes a pattern on to the canvas
    points: { show: () => false, filter: lonelyPoints, size: 6, fill: () => seriesColour(one.colour) },
  };
}

function makeAxes(strip: Strip, state: ChartState): uPlot.Axis[] {
  const spell = strip.unit === "kib" ? formatKibStep : (value: number): string => formatCount(value);
  const labelled = (): boolean => state.last() === strip.name;
  return [
    {
      ...kAxis,
      size: () => (labelled() ? kBottom : 8),
      incrs: kTimeSteps,
      space: 84,
      values: (_plot, splits) => splits.map((at) => (labelled() ? formatClock(at, (splits[1] ?? 1) - (splits[0] ?? 0)) : "")),
    },
    {
      ...kAxis,
      size: () => axisSize(),
      gap: 8,
      space: strip.height > 100 ? 38 : 24,
      ...(strip.unit === "kib" ? { incrs: kKibSteps } : {}),
      values: (_plot, splits) => splits.map((value) => (strip.unit !== "kib" && !Number.isInteger(value) ? "" : spell(value))),
    },
  ];
}

// Names limits beyond the scale at the upper edge.
function drawBeyond(plot: uPlot, strip: Strip): void {
  if (strip.beyond.length === 0) return;
  const { ctx, bbox } = plot;
  ctx.save();
  ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
  ctx.fillStyle = colour("limit");
  ctx.textAlign = "right";
  ctx.textBaseline = "bottom";
  const more = strip.beyond.length > 2 ? ` and ${strip.beyond.length - 2} more` : "";
  const words = strip.beyond
    .slice(0, 2)
    .map((limit) => visibleText(limit).slice(0, 60))
    .join(", ");
  ctx.fillText(`↑ limit ${words}${more}`, bbox.left + bbox.width, bbox.top - 3 * devicePixelRatio, bbox.width);
  ctx.restore();
}

// A limit also holds after the last sample: its line continues through the space for the forecast.
function prolongLimits(plot: uPlot, strip: Strip, hidden: Set<string>): void {
  const { ctx, bbox } = plot;
  const [end, edge] = [plot.data[0].at(-1), bbox.left + bbox.width];
  const from = end === undefined ? edge : plot.valToPos(end, "x", true);
  if (from >= edge - 1) return;
  ctx.save();
  ctx.strokeStyle = colour("limit");
  strip.series.forEach((one, i) => {
    const bound = plot.data[i + 1]?.at(-1);
    if (one.kind !== "limit" || bound == null || hidden.has(one.key)) return;
    const y = plot.valToPos(bound, "y", true);
    ctx.lineWidth = one.width * devicePixelRatio;
    ctx.setLineDash(one.dash.map((dash) => dash * devicePixelRatio));
    ctx.beginPath();
    ctx.moveTo(Math.max(from, bbox.left), y);
    ctx.lineTo(edge, y);
    ctx.stroke();
  });
  ctx.restore();
}

export interface Place {
  strip: Strip;
  host: HTMLElement;
  title: HTMLElement;
}
export interface Chart extends Place {
  plot: uPlot;
}

// A later plan with the same series replaces place.strip, so everything that may change is read at drawing time.
export function makePlot(place: Place, state: ChartState): uPlot {
  const { strip, host } = place;
  const series = [{}, ...strip.series.map((one) => makeSeries(one, state))];
  const band: uPlot.Band[] =
    strip.band === null ? [] : [{ series: [strip.band[0] + 1, strip.band[1] + 1], fill: () => colour("crowd-fill") }];
  const options: uPlot.Options = {
    width: Math.max(200, host.clientWidth),
    height: strip.height + (state.last() === strip.name ? kBottom - 8 : 0),
    padding: [strip.beyond.length > 0 ? 18 : 8, 12, 0, 0],
    legend: { show: false },
    cursor: { show: false },
    scales: {
      x: { time: false, range: () => state.range() },
      y: { range: (_plot, _min, max) => [0, Math.max(max, place.strip.atLeast) > 0 ? Math.max(max, place.strip.atLeast) * 1.08 : 1] },
    },
    axes: makeAxes(strip, state),
    series,
    bands: band,
    hooks: {
      draw: [
        (plot) => {
          drawBeyond(plot, place.strip);
          prolongLimits(plot, place.strip, state.hidden);
          state.onDraw(plot, place.strip);
        },
      ],
    },
  };
  return new uPlot(options, undefined, host);
}
