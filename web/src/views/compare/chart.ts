// Owns the chart of two runs on shared axes: their workers' private memory, from each run's first worker on.
// Does not: sum; the recording has the workers' sum. Of very many workers it draws those that peak highest, and says so.
import uPlot from "uplot";
import type { Page, Track } from "../../data/decode";
import { make, mark } from "../../ui/dom";
import { formatClock, formatCount, formatKib } from "../../core/format";
import { cutColumn, cutTimes, planCut } from "../../core/downsample";
import { colour, onTheme } from "../../ui/theme";
import { valueAt } from "../../core/column_values";
import { lastBefore } from "../../core/search";
import { makeFrame } from "../../ui/chart_axes";
import { isWorker } from "../../core/processes";

const kHeight = 240;
const kBuckets = 800;
const kTones = ["muted", "accent"]; // A dashed, B solid
const kMostWorkers = 64; // per run, drawn one by one

const workersOf = (page: Page): Track[] => page.processes.filter(isWorker);

function firstWorkerOf(page: Page): number {
  return workersOf(page).reduce((first, track) => Math.min(first, track.started ?? page.seconds[track.first] ?? first), Infinity);
}

interface Drawn {
  run: number;
  values: Float64Array;
  first: number;
}

// Those that peak highest: the first ones would leave the end of a run empty.
function drawnWorkersOf(page: Page): Track[] {
  const workers = workersOf(page);
  if (workers.length <= kMostWorkers) return workers;
  const peakOf = ({ columns }: Track): number => columns.private.values.reduce((peak, value) => (value > peak ? value : peak), 0);
  return workers
    .map((track) => ({ track, peak: peakOf(track) }))
    .sort((a, b) => b.peak - a.peak)
    .slice(0, kMostWorkers)
    .map(({ track }) => track);
}

function linesOf(page: Page, run: number, each: boolean): Drawn[] {
  const one = ({ columns, first }: Track): Drawn => ({ run, values: columns.private.values, first });
  return each ? drawnWorkersOf(page).map(one) : [{ run, values: page.totals.workersPrivate.values, first: 0 }];
}

function startOf(page: Page): number {
  const start = firstWorkerOf(page);
  return Number.isFinite(start) ? start : 0;
}

// The runs' sample times differ; uPlot.join puts them on one axis and leaves undefined where a run has no sample.
function joinRuns(pages: Page[], lines: Drawn[]): uPlot.AlignedData {
  const tables = pages.map((page, run): uPlot.AlignedData => {
    const start = startOf(page);
    const cut = planCut(page.seconds, [start, page.seconds.at(-1) ?? 0], kBuckets);
    const times = cutTimes(page.seconds, cut).map((seconds) => Number((seconds - start).toFixed(3)));
    return [times, ...lines.filter((line) => line.run === run).map((line) => cutColumn(line.values, line.first, 1, cut))];
  });
  return uPlot.join(tables);
}

export class CompareChart {
  readonly element = make("div", "compare-chart");
  private readonly host = mark(make("div", "compare-plot"), { role: "img" });
  private readonly reading = make("p", "compare-reading");
  private readonly omitted = make("p", "note");
  private plot: uPlot | null = null;
  private pages: Page[] = [];
  private each = false; // one line per worker

  constructor() {
    this.element.append(this.reading, this.host, this.omitted);
    new ResizeObserver(() => {
      if (this.plot !== null && this.host.clientWidth > 0) this.plot.setSize({ width: this.host.clientWidth, height: kHeight });
    }).observe(this.host);
    onTheme(() => this.plot?.redraw(false, true));
  }

  // Shows A and B, with one line per worker if `each` is set. The element must have a width.
  show(pages: [Page, Page], each: boolean): void {
    this.pages = pages;
    this.each = each;
    const whose = each ? "each worker" : "the workers together,";
    mark(this.host, {
      "aria-label": `Private memory of ${whose} of A and of B over the time since their first worker; A dashed, B solid`,
    });
    const lines = pages.flatMap((page, run) => linesOf(page, run, each));
    this.plot?.destroy();
    this.plot = new uPlot(this.options(lines, each), joinRuns(pages, lines), this.host);
    this.say(null);
    const omitted = pages.flatMap((page, run) => {
      const count = workersOf(page).length;
      return each && count > kMostWorkers ? [`of ${run === 0 ? "A" : "B"} ${kMostWorkers} of ${formatCount(count)} workers`] : [];
    });
    this.omitted.textContent = omitted.length === 0 ? "" : `Drawn: ${omitted.join(", ")}, those that peak highest.`;
  }

  private options(lines: Drawn[], each: boolean): uPlot.Options {
    return {
      ...makeFrame(this.host, kHeight, formatClock),
      scales: {
        x: { time: false, range: (_plot, _min, max) => [0, max > 0 ? max : 1] },
        y: { range: (_plot, _min, max) => [0, max > 0 ? max * 1.08 : 1] },
      },
      series: [
        {},
        ...lines.map(({ run }): uPlot.Series => ({
          stroke: () => colour(kTones[run] ?? "text"),
          width: each ? 1.2 : 2.4,
          dash: run === 0 ? [6, 4] : [],
          points: { show: false },
        })),
      ],
      hooks: { setCursor: [(plot) => this.say((plot.cursor.left ?? -1) < 0 ? null : plot.posToVal(plot.cursor.left ?? 0, "x"))] },
    };
  }

  private say(at: number | null): void {
    if (at === null) {
      const figures = this.each ? "figures of all workers together" : "figures";
      this.reading.textContent = `Private memory of ${this.each ? "each worker" : "the workers together"}. 0:00 is the start of each run's first worker. Point at the chart for ${figures}.`;
      return;
    }
    const values = this.pages.map((page) => {
      const sample = lastBefore(page.seconds, at + startOf(page));
      return sample >= page.seconds.length - 1 && at + startOf(page) > (page.seconds.at(-1) ?? 0) + 1
        ? null
        : valueAt(page.totals.workersPrivate.values.subarray(0, sample + 1), sample);
    });
    const whose = this.each ? ", all workers together" : "";
    this.reading.textContent = `${formatClock(at, 0.1)} after the first worker's start${whose}: A ${formatKib(values[0])}, B ${formatKib(values[1])}`;
  }
}
