// Owns what charts share: their axes, and the frame of those that stand alone.
import type uPlot from "uplot";
import { formatKibStep } from "../core/format";
import { colour } from "./theme";

export const kKibSteps = Array.from({ length: 45 }, (_, power) => 2 ** power);
const kTimeSteps = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400];
const kGrid = { stroke: (): string => colour("grid"), width: 1 };
export const kAxis = { stroke: (): string => colour("muted"), grid: kGrid, ticks: { show: false }, font: "12px system-ui, sans-serif" };

// The width of the axis at the left of a chart.
export function axisSize(): number {
  return innerWidth < 600 ? 58 : 74;
}

// Of memory over time. `spell`: the words at a time, of steps of so many seconds.
export function makeFrame(host: HTMLElement, height: number, spell: (at: number, step: number) => string): Omit<uPlot.Options, "series"> {
  return {
    width: Math.max(200, host.clientWidth),
    height,
    padding: [10, 12, 0, 0],
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, points: { show: false } },
    axes: [
      {
        ...kAxis,
        size: 30,
        incrs: kTimeSteps,
        space: 84,
        values: (_plot, splits) => splits.map((at) => spell(at, (splits[1] ?? 1) - (splits[0] ?? 0))),
      },
      { ...kAxis, size: axisSize(), gap: 8, space: 38, incrs: kKibSteps, values: (_plot, splits) => splits.map(formatKibStep) },
    ],
  };
}
