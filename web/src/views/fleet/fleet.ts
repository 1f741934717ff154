// Owns the page on the ranks of a job: sentence, sums, deaths, what is in common, chart, table, and the rank that is chosen.
// Does not: judge; sentences and figures are the report's.
import "./fleet.css";
import { FleetChart } from "./chart";
import { makeRankDetail } from "./detail";
import { makeRanksTable, makeSplitLegend } from "./ranks_table";
import { hostsOf, placeOfRank, rankFilter } from "../../core/ranks";
import { formatBytes, formatCount } from "../../core/format";
import { formatWall, spansDays } from "../../core/wall_clock";
import type { Fleet, Rank } from "../../data/fleet";
import { make, makeButton, makeSection, mark } from "../../ui/dom";
import { DataTable, makeSearchBox, makeTitle } from "../../ui/table";
import { makeFact, makeTile, makeTopRow, makeVerdict } from "../../ui/page_head";

const kFirstDeaths = 8;

type Dead = Fleet["deaths"][number];

function instantsOf(fleet: Fleet): number[] {
  const ends = fleet.ranks.flatMap(({ startedMs: from, seconds }) => (from === null ? [] : [from, from + (seconds ?? 0) * 1000]));
  return [...ends, ...fleet.deaths.flatMap(({ death: { ms } }) => (ms === null ? [] : [ms]))];
}

function makeHead(fleet: Fleet): HTMLElement {
  const [, first = fleet.sentence] = /^(.+?[.!?])\s+[A-Z0-9]/s.exec(fleet.sentence) ?? [];
  const rest = fleet.sentence.slice(first.length);
  const verdict = makeVerdict(first || "These recordings have no verdict.", rest);
  const jobs = [...new Set(fleet.ranks.map((rank) => rank.job))].filter((job) => job !== "");
  const facts = make(
    "dl",
    "facts",
    ...(jobs.length === 0 ? [] : [makeFact(jobs.length === 1 ? "job" : "jobs", jobs.join(", "))]),
    makeFact("made by", fleet.tool),
  );
  return make("header", "page-header", makeTopRow(), verdict, facts);
}

// Launchers are not of a rank.
function deadInWords({ deaths }: Fleet): string {
  if (deaths.length === 0) return "no process";
  const ranks = new Set(deaths.filter(({ death }) => !death.launcher).map(({ rank }) => rank)).size;
  const launchers = deaths.filter(({ death }) => death.launcher).length;
  const words = [];
  if (ranks > 0) words.push(`of ${formatCount(ranks)} rank${ranks === 1 ? "" : "s"}`);
  if (launchers > 0) words.push(`${formatCount(launchers)} launcher${launchers === 1 ? "" : "s"}`);
  return words.join(", and ");
}

function makeSums(fleet: Fleet): HTMLElement {
  const hosts = hostsOf(fleet.ranks);
  const sums = make(
    "section",
    "tiles",
    makeTile(
      "ranks",
      "Ranks",
      formatCount(fleet.processes),
      `on ${formatCount(hosts)} host${hosts === 1 ? "" : "s"}, ${formatCount(fleet.workers)} workers at once`,
    ),
    makeTile("copied", "Copied by workers", formatBytes(fleet.copiedBytes), "over all ranks"),
    makeTile("private", "Sum of the peaks", formatBytes(fleet.peakBytes), "an upper bound: they need not have been at one time"),
    makeTile("deaths", "Ended badly", formatCount(fleet.deaths.length), deadInWords(fleet)),
  );
  return mark(sums, { "aria-label": "Sums" });
}

function makeList(className: string, lines: string[]): HTMLElement {
  return make("ul", className, ...lines.map((line) => make("li", "", line)));
}

function makeNotes({ notes }: Fleet): HTMLElement | null {
  if (notes.length === 0) return null;
  const section = makeSection("fleet-notes", "What does not fit", "");
  section.append(mark(makeList("doubts", notes), { tabindex: "0", role: "region", "aria-label": "Notes on these recordings" }));
  return section;
}

function makeAlike({ common, unlike }: Fleet): HTMLElement | null {
  if (common.length + unlike.length === 0) return null;
  const section = makeSection("alike", "In common, unlike the rest", "");
  const part = (title: string, lines: string[]): HTMLElement | null =>
    lines.length === 0 ? null : make("div", "", make("h3", "", title), makeList("plain-list", lines));
  section.append(make("div", "alike-grid", part("in common", common), part("unlike the rest", unlike)));
  return section;
}

class FleetPage {
  readonly element: HTMLElement;
  private readonly chart: FleetChart;
  private readonly table: DataTable<Rank>;
  private readonly found = make("span", "filter-count");
  private readonly detail = make("div", "rank-place");
  private readonly hosts: number;
  private readonly dated: boolean; // instants have a date
  private chosen: Rank | null = null;
  private shown: Rank[];

  constructor(private readonly fleet: Fleet) {
    this.hosts = hostsOf(fleet.ranks);
    this.dated = spansDays(instantsOf(fleet));
    this.shown = fleet.ranks;
    this.chart = new FleetChart(fleet.ranks, this.dated, (rank) => this.choose(rank, false));
    this.table = makeRanksTable(fleet.ranks, { chosen: () => this.chosen, choose: (rank) => this.choose(rank) });
    const ranks = makeSection(
      "ranks",
      "Ranks",
      "Private memory of each rank's workers on the wall clock of its host, then a row for each rank. Click a column to sort, a rank to see it apart.",
    );
    const search = makeSearchBox("Ranks (0-7, 12), host, finding", (text) => this.search(text), this.found);
    ranks.append(
      make("div", "table-tools", search, this.table.copy),
      this.chart.element,
      makeSplitLegend(fleet.ranks),
      this.table.element,
      this.detail,
    );
    this.element = make(
      "main",
      "",
      makeHead(fleet),
      makeSums(fleet),
      makeNotes(fleet),
      this.makeDeaths(),
      makeAlike(fleet),
      ranks,
      make("footer", "page-footer", `${fleet.tool} · ${formatCount(fleet.ranks.length)} rows`),
    );
    this.chart.show(this.shown, null);
  }

  private makeDeaths(): HTMLElement | null {
    if (this.fleet.deaths.length === 0) return null;
    const time = ({ death: { ms } }: Dead): string => (ms === null ? "—" : formatWall(ms, 3, this.dated));
    const place = ({ rank, death }: Dead): string =>
      death.launcher ? `launcher of ${placeOfRank(rank, this.hosts)}` : placeOfRank(rank, this.hosts);
    const order = new Map(this.fleet.deaths.map((row, i) => [row, i + 1]));
    const table = new DataTable<Dead>({
      id: "deaths-table",
      caption: "Deaths, first one first",
      columns: [
        { title: "order", words: true, key: (row) => order.get(row) ?? null, text: (row) => String(order.get(row) ?? "") },
        { title: "time (UTC)", words: true, key: ({ death }) => death.ms, text: time, csv: [{ head: "time (UTC)", value: time }] },
        {
          title: "rank",
          words: true,
          key: ({ rank }) => rank.rank ?? rank.position,
          text: place,
          fill: (row) =>
            make(
              "td",
              "words",
              makeButton("row-button", place(row), () => {
                const { rank } = row;
                if (this.chosen !== rank) this.choose(rank);
              }),
            ),
        },
        { title: "process", words: true, key: ({ death }) => death.process, text: ({ death }) => death.process },
        { title: "how it ended", words: true, className: "long", key: ({ death }) => death.text, text: ({ death }) => death.text },
      ],
      sortBy: "order",
      first: kFirstDeaths,
      keyOf: (row) => String(order.get(row)),
    });
    table.update(this.fleet.deaths);
    const section = makeSection("deaths", "Who died", "");
    section.append(makeTitle("In order, by the wall clock of each host", table), table.element);
    return section;
  }

  private search(text: string): void {
    this.shown = this.fleet.ranks.filter(rankFilter(text));
    const all = this.shown.length === this.fleet.ranks.length;
    this.found.textContent = all ? "" : `${formatCount(this.shown.length)} of ${formatCount(this.fleet.ranks.length)} rows`;
    this.show();
  }

  // Chooses the rank or, if it is the chosen one, none.
  private choose(rank: Rank | null, scrolls = true): void {
    this.chosen = rank === this.chosen ? null : rank;
    this.show();
    const close = (): void => {
      this.choose(null);
      this.element.querySelector<HTMLElement>("#ranks .search-box")?.focus();
    };
    this.detail.replaceChildren(...(this.chosen === null ? [] : [makeRankDetail(this.chosen, this.hosts, this.dated, close)]));
    if (scrolls && this.chosen !== null) this.detail.scrollIntoView({ block: "nearest" });
  }

  private show(): void {
    this.chart.show(this.shown, this.chosen);
    this.table.update(this.shown);
  }
}

export function makeFleetPage(fleet: Fleet): HTMLElement {
  return new FleetPage(fleet).element;
}
