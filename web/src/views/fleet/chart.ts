// Owns the chart of a job: the private memory of each rank's workers, one line per rank on one clock, with the deaths.
// Does not: downsample; a rank has at most some hundred points, each the highest of its stretch.
import uPlot from "uplot";
import { lastBefore } from "../../core/search";
import { formatKib } from "../../core/format";
import { deathsOf, hostsOf, placeOfRank } from "../../core/ranks";
import { formatWall, formatWallTick, kDayMs } from "../../core/wall_clock";
import type { Death, Rank } from "../../data/fleet";
import { make, mark } from "../../ui/dom";
import { makeFrame } from "../../ui/chart_axes";
import { colour, onTheme } from "../../ui/theme";

const kHeight = 300;
const kColours = 7; // --series-0 ... --series-6
const kSaid = "Private memory of the workers of each rank. Point at the chart for figures, click to choose the nearest rank.";

function valueAt({ curve }: Rank, ms: number): number | null {
  const at = lastBefore(curve.ms, ms);
  const kib = curve.kib[at];
  return kib === undefined || Number.isNaN(kib) || ms > (curve.ms.at(-1) ?? 0) ? null : kib;
}

// At the death, or as long before as the last point of its curve.
function heightOf({ curve }: Rank, death: Death): number {
  const kib = curve.kib[Math.max(0, lastBefore(curve.ms, death.chartMs ?? 0))];
  return kib === undefined || Number.isNaN(kib) ? 0 : kib;
}

export class FleetChart {
  readonly element = make("div", "fleet-chart");
  private readonly reading = make("p", "compare-reading", kSaid);
  private readonly legend = make("ul", "fleet-legend");
  private readonly host = mark(make("div", "fleet-plot"), { role: "img" });
  private plot: uPlot | null = null;
  private ranks: Rank[] = [];
  private chosen: Rank | null = null;
  private day = 0; // ms of the midnight before the first recording
  private readonly hosts: number;

  constructor(
    all: Rank[],
    private readonly dated: boolean,
    private readonly choose: (rank: Rank) => void,
  ) {
    this.hosts = hostsOf(all);
    this.element.append(this.legend, this.reading, this.host);
    new ResizeObserver(() => {
      if (this.plot !== null && this.host.clientWidth > 0) this.plot.setSize({ width: this.host.clientWidth, height: kHeight });
    }).observe(this.host);
    onTheme(() => {
      this.plot?.redraw(false, true);
    });
  }

  // Waits for the next frame, when the element has a width.
  show(ranks: Rank[], chosen: Rank | null): void {
    const same = ranks.length === this.ranks.length && ranks.every((rank, i) => rank === this.ranks[i]);
    this.ranks = ranks;
    this.chosen = chosen !== null && ranks.includes(chosen) ? chosen : null;
    this.showLegend();
    if (same && this.plot !== null) return this.plot.redraw(false, true);
    requestAnimationFrame(() => this.draw());
  }

  private draw(): void {
    const drawn = this.ranks.filter((rank) => rank.curve.ms.length > 0);
    this.plot?.destroy();
    this.plot = null;
    this.host.hidden = drawn.length === 0;
    this.reading.textContent = drawn.length === 0 ? "No rank to draw." : kSaid;
    if (drawn.length === 0) return;
    const from = Math.min(...drawn.map(({ curve }) => curve.ms[0] as number));
    const to = Math.max(
      ...drawn.map(({ curve }) => curve.ms.at(-1) as number),
      ...drawn.flatMap((rank) => deathsOf(rank).map(({ chartMs }) => chartMs ?? from)),
    );
    const most = drawn.reduce((high, { curve }) => curve.kib.reduce((max, kib) => (kib > max ? kib : max), high), 0);
    this.day = Math.floor(from / kDayMs) * kDayMs;
    const range: [number, number] = [(from - this.day) / 1000, (Math.max(to, from + 100) - this.day) / 1000];
    mark(this.host, {
      "aria-label": `Private memory of the workers of ${drawn.length} ranks from ${formatWall(from, 0, this.dated)} to ${formatWall(to, 0, this.dated)} UTC; at most ${formatKib(most)} in one rank`,
    });
    this.plot = new uPlot(this.options(range, most), [range, [null, null]], this.host);
    this.plot.over.addEventListener("click", () => {
      const near = this.nearest();
      if (near !== null) this.choose(near);
    });
  }

  private options(range: [number, number], most: number): uPlot.Options {
    return {
      ...makeFrame(this.host, kHeight, (at, step) => formatWallTick(this.day + Math.round(at * 1000), step, this.dated)),
      scales: { x: { time: false, range: () => range }, y: { range: () => [0, most > 0 ? most * 1.08 : 1] } },
      series: [{}, { show: true, points: { show: false } }],
      hooks: { draw: [(plot) => this.paint(plot)], setCursor: [() => this.say()] },
    };
  }

  // A few ranks have a colour each; of many, those that lost a process stand out.
  private toneOf(rank: Rank): string {
    if (this.chosen !== null) return rank === this.chosen ? "accent" : "crowd";
    if (this.ranks.length <= kColours) return `series-${this.ranks.indexOf(rank)}`;
    return rank.deaths.length > 0 ? "limit" : "crowd";
  }

  private showLegend(): void {
    const entry = (tone: string, words: string): HTMLElement => {
      const swatch = make("span", "swatch");
      swatch.style.color = `var(--${tone})`;
      return make("li", "", swatch, words);
    };
    const few = this.ranks.length <= kColours;
    const dead = this.ranks.some((rank) => rank.deaths.length > 0);
    const lines =
      this.chosen !== null
        ? [entry("accent", placeOfRank(this.chosen, this.hosts)), ...(this.ranks.length > 1 ? [entry("crowd", "the others")] : [])]
        : few
          ? this.ranks.map((rank) => entry(this.toneOf(rank), placeOfRank(rank, this.hosts)))
          : [...(dead ? [entry("limit", "ranks that lost a process")] : []), entry("crowd", dead ? "the others" : "one line per rank")];
    const launcherDead = this.ranks.some((rank) => rank.launcherDeaths.length > 0);
    this.legend.replaceChildren(
      ...lines,
      ...(dead ? [make("li", "", make("span", "death-mark", "✕"), "a process ended badly")] : []),
      ...(launcherDead ? [make("li", "", make("span", "death-mark", "┊"), "a launcher ended badly")] : []),
    );
  }

  private paint(plot: uPlot): void {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.lineJoin = "round";
    const last = this.ranks.filter((rank) => this.toneOf(rank) !== "crowd"); // above the others
    for (const rank of [...this.ranks.filter((one) => !last.includes(one)), ...last]) this.paintLine(plot, rank);
    ctx.strokeStyle = colour("limit");
    ctx.lineWidth = 2 * devicePixelRatio;
    for (const rank of this.ranks) {
      if (this.chosen !== null && rank !== this.chosen) continue;
      for (const death of rank.launcherDeaths) this.paintLauncherDeath(plot, death);
      for (const death of rank.deaths) this.paintDeath(plot, rank, death);
    }
    ctx.restore();
  }

  private paintLine(plot: uPlot, rank: Rank): void {
    const { ctx } = plot;
    const { ms, kib } = rank.curve;
    const crowd = this.toneOf(rank) === "crowd";
    ctx.strokeStyle = colour(this.toneOf(rank));
    ctx.lineWidth = (crowd ? 1 : rank === this.chosen ? 2.6 : 1.8) * devicePixelRatio;
    ctx.beginPath();
    let pen = false;
    for (let i = 0; i < ms.length; i++) {
      const value = kib[i] as number;
      if (Number.isNaN(value)) {
        pen = false;
        continue;
      }
      const [x, y] = [plot.valToPos(((ms[i] as number) - this.day) / 1000, "x", true), plot.valToPos(value, "y", true)];
      if (pen) ctx.lineTo(x, y);
      else ctx.moveTo(x, y);
      pen = true;
    }
    ctx.stroke();
  }

  private paintDeath(plot: uPlot, rank: Rank, death: Death): void {
    if (death.chartMs === null) return;
    const [x, y] = [plot.valToPos((death.chartMs - this.day) / 1000, "x", true), plot.valToPos(heightOf(rank, death), "y", true)];
    const arm = 4.5 * devicePixelRatio;
    plot.ctx.beginPath();
    for (const slope of [1, -1]) {
      plot.ctx.moveTo(x - arm, y - slope * arm);
      plot.ctx.lineTo(x + arm, y + slope * arm);
    }
    plot.ctx.stroke();
  }

  // A launcher has no curve of its own.
  private paintLauncherDeath(plot: uPlot, death: Death): void {
    if (death.chartMs === null) return;
    const x = plot.valToPos((death.chartMs - this.day) / 1000, "x", true);
    plot.ctx.save();
    plot.ctx.setLineDash([5 * devicePixelRatio, 4 * devicePixelRatio]);
    plot.ctx.beginPath();
    plot.ctx.moveTo(x, plot.bbox.top);
    plot.ctx.lineTo(x, plot.bbox.top + plot.bbox.height);
    plot.ctx.stroke();
    plot.ctx.restore();
  }

  private cursorMs(): number | null {
    const left = this.plot?.cursor.left ?? -1;
    return this.plot === null || left < 0 ? null : this.day + this.plot.posToVal(left, "x") * 1000;
  }

  private nearest(): Rank | null {
    const [ms, top] = [this.cursorMs(), this.plot?.cursor.top ?? -1];
    if (ms === null || this.plot === null || top < 0) return null;
    const wanted = this.plot.posToVal(top, "y");
    const distance = (rank: Rank): number => Math.abs((valueAt(rank, ms) ?? Infinity) - wanted);
    const near = this.ranks.reduce<Rank | null>((best, rank) => (best === null || distance(rank) < distance(best) ? rank : best), null);
    return near !== null && valueAt(near, ms) !== null ? near : null;
  }

  private say(): void {
    const ms = this.cursorMs();
    const near = this.nearest();
    if (ms === null || near === null) {
      this.reading.textContent = kSaid;
      return;
    }
    const rank = this.chosen ?? near;
    this.reading.textContent = `${formatWall(ms, 1, this.dated)} UTC: ${placeOfRank(rank, this.hosts)} ${formatKib(valueAt(rank, ms))}`;
  }
}
