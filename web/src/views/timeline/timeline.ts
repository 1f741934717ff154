// Owns the timeline section: the measure, hidden series and what is near the pointer, and the strips that follow from them.
// Does not: plan a strip (chart_strips.ts), configure uPlot (charts.ts), or interpret gestures (gestures.ts).
import type uPlot from "uplot";
import { makePlot, type Chart, type ChartState } from "./charts";
import type { Measure, PageEvent } from "../../data/decode";
import { make, makeButton, makeSection, mark } from "../../ui/dom";
import { saidAt, saidInWords, standingForecast } from "../../core/forecast";
import { formatCount } from "../../core/format";
import { showAll, watchGestures, zoom } from "./gestures";
import { fillLegend } from "./legend";
import { kMeasures, type ChartSeries } from "../../core/chart_series";
import { drawMarkLines, keyOf, placeMarks } from "./marks";
import { SelectionBar } from "./selection";
import { cutTimes, peakTimes, planCut, type Cut } from "../../core/downsample";
import type { Change, Store } from "../../store";
import { planStrips, type Strip } from "../../core/chart_strips";
import { onTheme } from "../../ui/theme";
import { placeTooltip, readInstant, showTooltip } from "./tooltip";
import "./timeline.css";
import { nearestSample } from "../../core/search";
import { processLabel } from "../../core/processes";
import { makeHelpButton } from "../../ui/help_button";
import { drawForecast } from "./forecast_band";

const kHint = "Hover to see what cowprof forecast at that moment";
const kNothingSaid = "Nothing was forecast at that moment";
const kNearPixels = 22;
const kStrongWidth = 3.5;
const kBucketsPerPixel = 0.75;
const kPeaksPerPixel = 0.4; // stacked areas are expensive to fill, and a peak's height doesn't depend on its width

class Timeline {
  readonly element = make("div", "timeline");
  private readonly lane = mark(make("div", "lane"), { "role": "group", "aria-label": "Events" });
  private readonly plots = mark(make("div", "plots"), {
    "tabindex": "0",
    "role": "group",
    "aria-label": "Strips over time. Arrows move the cursor, plus and minus zoom, question mark for help.",
  });
  private readonly tooltip = mark(make("div", "tooltip"), { "aria-live": "polite" });
  private readonly said = make("span", "said");
  private readonly band = make("canvas", "forecast");
  private readonly legend = make("div", "legends");
  private readonly note = make("p", "note");
  private readonly allButton = makeButton("reset show-all", "Show all", () => showAll(this.store));
  private readonly selection: SelectionBar;
  private readonly hidden = new Set<string>();
  private readonly state: ChartState;
  private strips: Strip[] = [];
  private charts: Chart[] = [];
  private measure: Measure = "private";
  private cut: Cut = { low: 0, high: 0, step: 1 };
  private near: number | null = null; // index of the process whose line is under the pointer
  private pointed: Strip | null = null; // the strip under the pointer
  private marked = ""; // what the marks were placed for
  private placed: { events: PageEvent[]; keys: string } = { events: [], keys: "" };
  private listed = ""; // what the legend was filled with

  constructor(private readonly store: Store) {
    this.selection = new SelectionBar(store);
    this.state = {
      range: () => store.view.range,
      hidden: this.hidden,
      look: (one) => this.look(one),
      last: () => this.strips.at(-1)?.name ?? "",
      onDraw: (plot, strip) => this.decorate(plot, strip),
    };
    this.tooltip.hidden = true;
    this.plots.append(this.selection.shade, this.lane, this.selection.line, this.tooltip);
    this.element.append(this.makeControls(), this.selection.status, this.plots, this.legend, this.note);
    watchGestures(store, {
      element: this.plots,
      area: () => this.area(),
      onMove: (event) => this.follow(event),
      onClick: () => this.click(),
    });
    this.plots.addEventListener("blur", () => this.showCursor());
    store.on((changed) => this.update(changed));
    onTheme(() => this.repaint());
    new ResizeObserver(() => this.resize()).observe(this.plots); // also reports the first width, at which the strips are created
  }

  private makeControls(): HTMLElement {
    const group = mark(make("div", "switch"), { "role": "group", "aria-label": "What the chart shows" });
    const lead = make("p", "lead", kMeasures[0]?.lead ?? "");
    for (const entry of kMeasures) {
      const button = makeButton("switch-entry", entry.name, () => {
        for (const other of group.children) mark(other, { "aria-pressed": String(other === button) });
        lead.textContent = entry.lead;
        this.measure = entry.measure;
        this.replan();
      });
      group.append(mark(button, { "aria-pressed": String(entry.measure === this.measure), "data-measure": entry.measure }));
    }
    const step = (label: string, name: string, factor: number): HTMLElement =>
      mark(
        makeButton("reset zoom-step", label, () => zoom(this.store, factor, (this.store.view.range[0] + this.store.view.range[1]) / 2)),
        { "aria-label": name, "title": name },
      );
    const zooming = make("div", "zooming", this.allButton, step("−", "Zoom out", 1 / 0.6), step("+", "Zoom in", 0.6), makeHelpButton());
    return make("div", "controls", make("div", "control-row", group, zooming), lead);
  }

  private update(changed: Set<Change>): void {
    if (this.charts.length === 0) return; // not laid out yet
    if (changed.has("page") || changed.has("pinned")) this.replan();
    else if (changed.has("range")) this.redraw();
    this.selection.show(this.area());
    this.showCursor();
  }

  // Strips with unchanged series keep their chart.
  private replan(): void {
    const names = this.strips.map((strip) => strip.name).join();
    this.strips = planStrips(this.store.page, this.measure, this.store.view.pinned);
    if (this.strips.map((strip) => strip.name).join() !== names) this.dropCharts();
    this.strips.forEach((strip, nth) => {
      const chart = this.charts[nth] ?? this.addChart(strip);
      const same = chart.strip.series.map((one) => one.key).join() === strip.series.map((one) => one.key).join();
      chart.strip = strip;
      chart.title.firstChild?.replaceWith(make("span", "", strip.title));
      mark(chart.host, { "aria-label": `${strip.title}, over time` });
      if (same) return;
      chart.plot.destroy();
      chart.plot = makePlot(chart, this.state);
    });
    this.charts[0]?.plot.over.append(this.band);
    this.relist();
    this.redraw();
  }

  private dropCharts(): void {
    for (const { plot, host, title } of this.charts) {
      plot.destroy();
      host.remove();
      title.remove();
    }
    this.charts = [];
  }

  private addChart(strip: Strip): Chart {
    const host = mark(make("div", `strip ${strip.name}`), { role: "img" });
    const title = make("h3", "strip-title", make("span", "", strip.title), strip.name === "sum" ? this.said : null);
    this.selection.line.before(title, host);
    const place = { strip, host, title };
    const chart: Chart = Object.assign(place, { plot: makePlot(place, this.state) });
    this.charts.push(chart);
    return chart;
  }

  private relist(): void {
    const forecast: ChartSeries[] =
      this.measure === "private" && this.store.page.forecasts.best.length > 0 && this.strips[0] !== undefined
        ? [
            {
              ...(this.strips[0].series[0] as ChartSeries),
              key: "forecast",
              label: "forecast",
              title: "what all workers together will own: low, best and high estimate",
              colour: "accent",
            },
          ]
        : [];
    const series = this.strips
      .filter((strip) => strip.atLegend)
      .flatMap((strip) => (strip.name === "sum" ? [...strip.series, ...forecast] : strip.series));
    const seen = this.store.page.processes.filter((track) => track.columns.private.length > 0);
    const listed = [
      this.store.view.pinned,
      ...series.map((one) => `${one.key} ${one.label} ${one.title} ${one.colour}`),
      ...seen.map((track) => `${track.index} ${processLabel(track)}`),
    ].join("\n");
    if (listed === this.listed) return; // a list that is open stays open
    this.listed = listed;
    fillLegend(this.legend, series, seen, this.store.view.pinned, {
      hidden: (key) => this.hidden.has(key),
      toggle: (keys, shown) => this.toggle(keys, shown),
      point: (process) => this.setNear(process),
      pin: (process) => this.store.set({ pinned: process }),
    });
  }

  private redraw(): void {
    const { page, view } = this.store;
    const width = Math.max(100, this.area().width);
    this.cut = planCut(page.seconds, view.range, width * kBucketsPerPixel);
    const peaks = planCut(page.seconds, view.range, width * kPeaksPerPixel);
    for (const { strip, plot } of this.charts) {
      const data = strip.cut(strip.peaks ? peaks : this.cut, this.hidden);
      plot.setData([strip.peaks ? peakTimes(page.seconds, peaks) : cutTimes(page.seconds, this.cut), ...data]);
    }
    this.selection.show(this.area());
    this.showNote();
    this.showForecast();
  }

  private area(): { left: number; width: number } {
    const plot = this.charts[0]?.plot;
    return plot === undefined
      ? { left: 0, width: 1 }
      : { left: plot.bbox.left / devicePixelRatio, width: plot.bbox.width / devicePixelRatio };
  }

  private look(one: ChartSeries): { colour: string; width: number } {
    const { pinned } = this.store.view;
    if (one.kind !== "process") return { colour: one.colour, width: one.width };
    if (one.process === pinned || one.process === this.near) return { colour: one.colour, width: kStrongWidth };
    return pinned === null ? { colour: one.colour, width: one.width } : { colour: "crowd", width: 1 };
  }

  private repaint(only?: Chart): void {
    for (const { plot } of only === undefined ? this.charts : [only]) plot.redraw(true, true);
    this.showForecast();
  }

  // Places marks only when they or the axis changed: a mark under the pointer must stay the same element.
  private decorate(plot: uPlot, strip: Strip): void {
    const { events, eventsDropped } = this.store.page;
    drawMarkLines(plot, events);
    if (strip.name !== "sum") return;
    const marked = [...this.store.view.range, plot.bbox.left, plot.bbox.width, eventsDropped].join(" ");
    const others = this.otherEvents(events);
    if (marked === this.marked && !others) return;
    this.marked = marked;
    placeMarks(this.lane, plot, events);
  }

  // Whether one came, or got other words, as an exit that is explained later.
  private otherEvents(events: PageEvent[]): boolean {
    if (events === this.placed.events) return false;
    const before = this.placed.keys;
    this.placed = { events, keys: events.map(keyOf).join("\n") };
    return this.placed.keys !== before;
  }

  private showNote(): void {
    const notes = (this.strips[0]?.beyond ?? []).map((limit) => `The limit ${limit.replace(/ (\S+ \S+)$/, " ($1)")} is off the chart.`);
    const silent = this.store.page.processes.filter((track) => track.columns.private.length === 0).length;
    if (silent > 0)
      notes.push(
        `${formatCount(silent)} of ${formatCount(this.store.page.processes.length)} processes did not live long enough to be measured.`,
      );
    if (this.cut.step > 1)
      notes.push(
        `Each pixel shows the lowest and the highest of ${this.cut.step} samples, or the fastest for copies per second. Zoom in to see every sample.`,
      );
    this.note.textContent = [...notes, "Drag to select, wheel to zoom, ? for help."].join(" ");
    const [from, to] = this.store.view.range;
    this.allButton.hidden = from <= Math.min(0, this.store.page.seconds[0] ?? 0) && to >= (this.store.page.seconds.at(-1) ?? 0);
  }

  private toggle(keys: string[], shown: boolean): void {
    for (const key of keys) {
      if (shown) this.hidden.delete(key);
      else this.hidden.add(key);
      for (const { strip, plot } of this.charts) {
        const at = strip.series.findIndex((one) => one.key === key);
        if (at >= 0) plot.setSeries(at + 1, { show: shown });
      }
    }
    this.redraw();
  }

  private setNear(process: number | null): void {
    if (process === this.near) return;
    this.near = process;
    const memory = this.charts.find(({ strip }) => strip.name === "memory");
    if (memory !== undefined) this.repaint(memory);
  }

  private resize(): void {
    const width = Math.max(200, this.plots.clientWidth);
    if (this.charts.length === 0 && this.plots.clientWidth > 0) this.replan();
    for (const { plot } of this.charts) if (plot.width !== width) plot.setSize({ width, height: plot.height });
    this.selection.show(this.area());
    this.showForecast();
  }

  // Tracks the strip, and the process's line, under the pointer.
  private follow(event: PointerEvent | null): void {
    const host =
      event === null
        ? null
        : ((event.target as Element).closest(".strip") ??
          document.elementFromPoint(event.clientX, event.clientY)?.closest(".strip") ??
          null);
    const chart = this.charts.find((one) => one.host === host) ?? null;
    this.pointed = event === null ? null : (chart?.strip ?? this.pointed ?? this.strips[0] ?? null);
    this.setNear(chart === null || event === null ? null : this.nearest(chart, event.clientY));
  }

  private nearest({ strip, plot }: Chart, clientY: number): number | null {
    const { page, view } = this.store;
    const sample = nearestSample(page.seconds, view.cursor ?? 0);
    const y = clientY - plot.over.getBoundingClientRect().top;
    let [found, least]: [number | null, number] = [null, kNearPixels];
    for (const one of strip.series) {
      const value = one.kind !== "process" || this.hidden.has(one.key) ? null : one.at(sample);
      const away = value === null ? Infinity : Math.abs(plot.valToPos(value, "y") - y);
      if (away < least) [found, least] = [one.process, away];
    }
    return found;
  }

  private click(): void {
    const { pinned } = this.store.view;
    if (this.near !== null) this.store.set({ pinned: this.near === pinned ? null : this.near });
    else this.store.set({ selection: null });
  }

  private showCursor(): void {
    const { page, view } = this.store;
    const focused = document.activeElement === this.plots;
    const under = this.pointed ?? (focused ? (this.strips[0] ?? null) : null);
    const last = (page.seconds.at(-1) ?? 0) + (page.run.intervalSeconds ?? 0);
    this.tooltip.hidden = view.cursor === null || under === null || view.cursor > last;
    this.showForecast();
    if (this.tooltip.hidden || view.cursor === null || under === null) return;
    const sample = nearestSample(page.seconds, view.cursor);
    const measure = kMeasures.find((entry) => entry.measure === this.measure)?.name ?? "";
    const reading = readInstant(this.strips, under, { page, sample, hidden: this.hidden, strong: this.near ?? view.pinned, measure });
    showTooltip(this.tooltip, reading, page.seconds[sample] ?? 0, page.run.intervalSeconds ?? 1);
    const { left, width } = this.area();
    const x = left + ((view.cursor - view.range[0]) / (view.range[1] - view.range[0])) * width;
    const host = this.charts.find(({ strip }) => strip.name === under.name)?.host;
    const below = under.name === "sum" ? (host?.clientHeight ?? 0) : 12; // keeps the forecast under the cursor visible
    placeTooltip(this.tooltip, this.plots, x, (host?.offsetTop ?? 0) + below);
  }

  // Shows the forecast made at the cursor; without a cursor, the latest one if the run is live or was cut off.
  private showForecast(): void {
    const { page, view } = this.store;
    const plot = this.charts[0]?.plot;
    if (plot === undefined) return;
    const shown = this.measure === "private" && !this.hidden.has("forecast");
    const within = view.cursor !== null && view.cursor <= (page.seconds.at(-1) ?? 0);
    const said = !shown ? null : within ? saidAt(page, nearestSample(page.seconds, view.cursor ?? 0)) : standingForecast(page);
    drawForecast(this.band, plot, said);
    const told = shown && page.forecasts.best.length > 0;
    this.said.textContent = said !== null ? saidInWords(said) : !told ? "" : within ? kNothingSaid : kHint;
    this.said.classList.toggle("hint", said === null);
    mark(this.said, { title: this.said.textContent });
  }
}

export function makeTimelineSection(store: Store): HTMLElement {
  const section = makeSection("timeline", "Timeline", "");
  const empty = make("p", "empty", "No samples were recorded, so there is nothing to draw.");
  section.append(store.page.seconds.length > 0 ? new Timeline(store).element : empty);
  store.on(() => {
    if (empty.isConnected && store.page.seconds.length > 0) empty.replaceWith(new Timeline(store).element);
  }); // a live run starts empty
  return section;
}
