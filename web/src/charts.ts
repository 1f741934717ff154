// Owns the drawing of one strip: what uPlot is told about axes, lines, cursor and drag.
// Called by: timeline.ts, once for each strip.
// Does not: know the recording; lines and data come in, hover and zoom go out through callbacks.
import uPlot from "uplot";
import { formatClock, formatCount, formatKibStep } from "./format";
import { colour } from "./theme";

export interface Line {
  label: string;
  title: string;               // the long name, for hover
  kind: "sum" | "process" | "limit";
  track: number;               // position in the drawn tracks; -1 for sum and limits
  colour: string;              // name of a colour in style.css
  dash: number[];
  width: number;
  fill: string;                // name of a colour, or ""
}

export interface Strip {
  unit: "kib" | "rate";
  height: number;
  labelled: boolean;           // only the lowest strip spells the time axis
  lines: Line[];
  holds: (line: Line) => boolean; // every strip knows every line, and shows those it holds
  data: uPlot.AlignedData;
  range: () => [number, number];
  onCursor: (plot: uPlot) => void;
  onNear: (line: number | null) => void;
  onZoom: (from: number, to: number) => void;
  onReset: () => void;
  onDraw: (plot: uPlot) => void;
}

const kTimeSteps = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 86400, 172800, 604800];
const kKibSteps = Array.from({ length: 45 }, (_, power) => 2 ** power);
const kFont = "12px system-ui, sans-serif";

export function axisSize(): number {
  return innerWidth < 600 ? 58 : 74;
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

function makeSeries(line: Line, show: boolean): uPlot.Series {
  return {
    label: line.label,
    show,
    stroke: () => colour(line.colour),
    width: line.width,
    dash: line.dash,
    spanGaps: false,
    ...(line.fill === "" ? {} : { fill: () => colour(line.fill) }),
    points: { show: () => false, filter: lonelyPoints, size: 6, fill: () => colour(line.colour) },
  };
}

function makeAxes(strip: Strip): uPlot.Axis[] {
  const grid = { stroke: () => colour("grid"), width: 1 };
  const spell = strip.unit === "kib" ? formatKibStep : (value: number): string => formatCount(value);
  const common = { stroke: () => colour("muted"), grid, ticks: { show: false }, font: kFont };
  return [
    {
      ...common, size: strip.labelled ? 30 : 8, incrs: kTimeSteps, space: 84,
      values: (_plot, splits) => splits.map((at) => (strip.labelled ? formatClock(at, (splits[1] ?? 1) - (splits[0] ?? 0)) : "")),
    },
    {
      ...common, size: () => axisSize(), gap: 8, space: 38,
      ...(strip.unit === "kib" ? { incrs: kKibSteps } : {}),
      values: (_plot, splits) => splits.map((value) => (strip.unit === "rate" && !Number.isInteger(value) ? "" : spell(value))),
    },
  ];
}

function makeCursor(strip: Strip): uPlot.Cursor {
  return {
    y: false,
    sync: { key: "cowprof", setSeries: false, filters: { pub: (type: string) => type === "mousemove" || type === "mouseleave" } },
    drag: { x: true, y: false, setScale: false, dist: 6 },
    focus: { prox: 24 },
    points: { one: true, size: 8, width: 2, stroke: () => colour("surface"), fill: (_plot, series) => colour(strip.lines[series - 1]?.colour ?? "muted") },
    bind: {
      dblclick: () => () => {
        strip.onReset();
        return null;
      },
    },
  };
}

function zoomSelected(strip: Strip): (plot: uPlot) => void {
  return (plot) => {
    const { left, width } = plot.select;
    if (width <= 0) return;
    const [from, to] = [plot.posToVal(left, "x"), plot.posToVal(left + width, "x")];
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    strip.onZoom(from, to);
  };
}

export function makeStrip(strip: Strip, host: HTMLElement): uPlot {
  const options: uPlot.Options = {
    width: Math.max(200, host.clientWidth),
    height: strip.height,
    padding: [10, 12, 0, 0],
    legend: { show: false },
    focus: { alpha: 1 },
    cursor: makeCursor(strip),
    scales: {
      x: { time: false, range: () => strip.range() },
      y: { range: (_plot, _min, max) => [0, max > 0 ? max * 1.08 : 1] },
    },
    axes: makeAxes(strip),
    series: [{}, ...strip.lines.map((line) => makeSeries(line, strip.holds(line)))],
    hooks: {
      setCursor: [strip.onCursor],
      setSeries: [(_plot, series, change: uPlot.Series & { focus?: boolean }) => { if (change.focus != null) strip.onNear(series); }],
      setSelect: [zoomSelected(strip)],
      draw: [strip.onDraw],
    },
  };
  return new uPlot(options, strip.data, host);
}
