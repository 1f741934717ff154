// Owns the timeline section: its state (measure, zoom, hidden, highlighted) and what follows from a change.
// Called by: main.ts to make it, tables.ts to highlight the worker of a row.
// Does not: know uPlot's options (charts.ts), which lines there are (lines.ts), or any figure of the report.
import type uPlot from "uplot";
import { makeStrip, type Line, type Strip } from "./charts";
import type { Columns, Measure, Page, Track } from "./decode";
import { make, makeButton, mark } from "./dom";
import { makeLegend } from "./legend";
import { kMeasures, kMostTracks, kStrips, limitLine, planLimits, planLines, type LimitPlan, type StripPlan } from "./lines";
import { drawMarkLines, placeMarks } from "./marks";
import { cutColumn, cutTimes, largestTracks, planCut, slopes, type Cut, type Point } from "./series";
import { colour, onTheme } from "./theme";
import { placeTooltip, showTooltip, valueRows } from "./tooltip";

const kTooltipRows = 9;

type Shown = Measure | "rate";

export class Timeline {
  readonly element = make("div", "timeline");
  private readonly tracks: Track[];
  private readonly lines: Line[];
  private readonly limits: LimitPlan;
  private readonly lane = make("div", "lane");
  private readonly note = make("p", "note");
  private readonly tooltip = make("div", "tooltip");
  private readonly plots = make("div", "plots");
  private readonly resetButton = makeButton("reset", "Reset zoom", () => this.reset());
  private readonly hidden = new Set<number>();
  private measure: Measure = "private";
  private view: [number, number];
  private cut: Cut;
  private charts: { plan: StripPlan; plot: uPlot }[] = [];
  private memory: uPlot.AlignedData;
  private rate: uPlot.AlignedData;
  private near: number | null = null;
  private chosen: number | null = null;
  private markedAxis = "";

  constructor(private readonly page: Page) {
    this.tracks = largestTracks(page.processes.filter((track) => track.columns.private.length > 0), "private", kMostTracks);
    this.limits = planLimits(page);
    this.lines = [...planLines(this.tracks), ...this.limits.drawn.map(limitLine)];
    this.view = this.wholeView();
    this.cut = planCut(page.seconds, ...this.view);
    this.memory = this.cutData(this.measure);
    this.rate = this.cutData("rate");
    this.tooltip.hidden = true;
    this.resetButton.hidden = true;
    mark(this.lane, { "role": "group", "aria-label": "Events" });
    this.element.append(this.makeControls(), this.plots, this.makeLegendRow(), this.note);
  }

  // Called once the element is in the document: uPlot needs its width.
  start(): void {
    this.plots.append(this.lane);
    this.charts = kStrips.map((plan, i) => {
      const host = mark(make("div", `strip ${plan.name}`), { "role": "img", "aria-label": `${plan.title}, over time` });
      const silent = plan.unit === "rate" && this.rate.slice(1).every((column) => Array.from(column).every((value) => value == null));
      this.plots.append(make("h3", "strip-title", silent ? `${plan.title}: not measured` : plan.title), host);
      return { plan, plot: makeStrip(this.strip(plan, i === 0, i === kStrips.length - 1), host) };
    });
    this.plots.append(this.tooltip);
    this.redraw();
    new ResizeObserver(() => this.resize()).observe(this.plots);
    this.plots.addEventListener("mouseleave", () => { this.tooltip.hidden = true; });
    onTheme(() => this.repaint());
  }

  // Highlights the line of one process (its position in page.processes), or none.
  point(track: Track | null): void {
    this.highlight(this.lineOf(track));
  }

  choose(track: Track | null): void {
    this.chosen = this.lineOf(track);
    this.repaint();
  }

  private lineOf(track: Track | null): number | null {
    const position = track === null ? -1 : this.tracks.indexOf(track);
    return position < 0 ? null : this.lines.findIndex((line) => line.track === position);
  }

  private wholeView(): [number, number] {
    const from = Math.min(0, this.page.seconds[0] ?? 0);
    const to = this.page.seconds.at(-1) ?? 1;
    return [from, to > from ? to : from + (this.page.run.intervalSeconds ?? 1)];
  }

  private makeControls(): HTMLElement {
    const group = mark(make("div", "switch"), { "role": "group", "aria-label": "What the chart shows" });
    const lead = make("p", "lead", kMeasures[0]?.lead ?? "");
    for (const entry of kMeasures) {
      const button = makeButton("switch-entry", entry.name, () => {
        for (const other of group.children) mark(other, { "aria-pressed": String(other === button) });
        lead.textContent = entry.lead;
        this.measure = entry.measure;
        this.redraw();
      });
      group.append(mark(button, { "aria-pressed": String(entry.measure === this.measure), "data-measure": entry.measure }));
    }
    return make("div", "controls", make("div", "control-row", group, this.resetButton), lead);
  }

  private makeLegendRow(): HTMLElement {
    return makeLegend(this.lines, {
      toggle: (lines, shown) => this.toggle(lines, shown),
      point: (line) => this.highlight(line),
      choose: (line) => {
        this.chosen = line;
        this.repaint();
      },
    });
  }

  private strip(plan: StripPlan, first: boolean, last: boolean): Strip {
    return {
      unit: plan.unit, height: plan.height, holds: plan.holds, labelled: last, lines: this.lines,
      data: plan.unit === "kib" ? this.memory : this.rate,
      range: () => this.view,
      onCursor: (plot) => this.showValues(plot),
      onNear: (series) => this.highlight(series === null ? null : series - 1),
      onZoom: (from, to) => this.zoom(from, to),
      onReset: () => this.reset(),
      onDraw: (plot) => {
        drawMarkLines(plot, this.page.events);
        if (first) this.layMarks(plot);
      },
    };
  }

  private column(line: Line, measure: Shown): Point[] {
    const columns: Columns | undefined = line.kind === "sum" ? this.page.totals : this.tracks[line.track]?.columns;
    if (line.kind === "limit") return this.limitColumn(line, measure);
    const first = this.tracks[line.track]?.first ?? 0;
    return columns === undefined ? [] : cutColumn(this.values(columns, measure, first), first, this.cut);
  }

  private values(columns: Columns, measure: Shown, first: number): Float64Array {
    const { values } = columns[measure === "rate" ? "copies" : measure];
    if (measure === "rate") return slopes(values, first, this.page.seconds);
    return measure === "copies" ? values.map((copies) => (copies * (this.page.run.pageBytes ?? NaN)) / 1024) : values;
  }

  private limitColumn(line: Line, measure: Shown): Point[] {
    const limit = this.limits.drawn[this.lines.indexOf(line) - (this.lines.length - this.limits.drawn.length)];
    if (limit === undefined) return [];
    const points = cutColumn(limit.limit.values, 0, this.cut);
    return measure === "private" ? points : points.map(() => null); // a limit bounds what is held, not what was copied
  }

  private cutData(measure: Shown): uPlot.AlignedData {
    return [cutTimes(this.page.seconds, this.cut), ...this.lines.map((line) => this.column(line, measure))];
  }

  private redraw(): void {
    this.cut = planCut(this.page.seconds, ...this.view);
    this.memory = this.cutData(this.measure);
    this.rate = this.cutData("rate");
    for (const { plan, plot } of this.charts) plot.setData(plan.unit === "kib" ? this.memory : this.rate);
    this.showNote();
    this.repaint();
  }

  // Only when the axis changed: a mark that is being hovered must stay the same element.
  private layMarks(plot: uPlot): void {
    const axis = [...this.view, plot.bbox.left, plot.bbox.width].join(" ");
    if (axis === this.markedAxis) return;
    this.markedAxis = axis;
    placeMarks(this.lane, plot, this.page.events);
  }

  private showNote(): void {
    const notes = this.measure === "private" ? [...this.limits.notes] : [];
    const missing = this.page.processes.length - this.tracks.length;
    if (missing > 0) notes.push(`${missing} of ${this.page.processes.length} processes are not drawn: too short-lived for a sample, or too small.`);
    if (this.cut.step > 1) notes.push(`Each point is the highest of ${this.cut.step} samples; zoom in to see every sample.`);
    this.note.textContent = [...notes, "Drag to zoom, double-click to reset."].join(" ");
  }

  private zoom(from: number, to: number): void {
    const [first, last] = this.wholeView();
    this.view = [Math.max(first, from), Math.min(last, to)];
    this.resetButton.hidden = false;
    this.redraw();
  }

  private reset(): void {
    this.view = this.wholeView();
    this.resetButton.hidden = true;
    this.redraw();
  }

  private toggle(lines: number[], shown: boolean): void {
    for (const position of lines) {
      const line = this.lines[position];
      if (line === undefined) continue;
      if (shown) this.hidden.delete(position);
      else this.hidden.add(position);
      for (const { plan, plot } of this.charts) if (plan.holds(line)) plot.setSeries(position + 1, { show: shown });
    }
  }

  private highlight(line: number | null): void {
    if (line === this.near) return;
    this.near = line;
    this.repaint();
  }

  private repaint(): void {
    for (const { plot } of this.charts) {
      plot.series.forEach((series, i) => {
        const line = this.lines[i - 1];
        if (line === undefined) return;
        const strong = line.kind === "process" && (i - 1 === this.near || i - 1 === this.chosen);
        const tone = strong && line.colour === "crowd" ? "accent" : line.colour;
        series.width = strong ? 3.5 : line.width;
        series.stroke = () => colour(tone);
      });
      plot.redraw(false, true);
    }
  }

  private resize(): void {
    const width = Math.max(200, this.plots.clientWidth);
    for (const { plot } of this.charts) if (plot.width !== width) plot.setSize({ width, height: plot.height });
  }

  private showValues(plot: uPlot): void {
    const at = plot.cursor.idx;
    if (at === null || at === undefined || (plot.cursor.left ?? -1) < 0 || plot.cursor.event == null) return;
    const rows = valueRows({ lines: this.lines, memory: this.memory, rate: this.rate, hidden: this.hidden, strong: [this.near, this.chosen] }, at);
    const name = kMeasures.find((entry) => entry.measure === this.measure)?.name ?? "";
    showTooltip(this.tooltip, this.memory[0][at] ?? 0, this.page.run.intervalSeconds ?? 1, [name, "Copies"], rows.slice(0, kTooltipRows), rows.length - kTooltipRows);
    const x = plot.bbox.left / devicePixelRatio + (plot.cursor.left ?? 0);
    placeTooltip(this.tooltip, this.plots, x, plot.root.parentElement === null ? 0 : plot.root.parentElement.offsetTop + 12);
  }
}
