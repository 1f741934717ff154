// Owns the table of ranks: of a fleet page, and of a launcher's.
// Does not: filter or choose a rank; the caller does.
import { shellQuote } from "../../core/shell_quote";
import { deathsOf, nameOfRank } from "../../core/ranks";
import { formatBytes, formatCount } from "../../core/format";
import type { Rank } from "../../data/fleet";
import { makeCopyButton } from "../../ui/clipboard";
import { make, makeButton, makeSection, mark } from "../../ui/dom";
import { DataTable, type Column } from "../../ui/table";

const kFirst = 100;
const kOutlooks = ["will-exceed", "tight", "unknown", "safe"]; // worst first
export const kPartWords: Record<string, string> = {
  "copied": "copied",
  "pickled": "pickled",
  "new": "new memory",
  "before attach": "from before the recording",
  "inherited freed": "inherited free memory, used again",
  "left": "inherited, not shared since the others ended or freed it",
};

export interface Choosing {
  chosen: () => Rank | null;
  choose: (rank: Rank) => void;
}

const partClass = (part: string): string => `part part-${part.replace(" ", "-")}`;

export function splitInWords(rank: Rank): string {
  return [...rank.split]
    .filter(([, bytes]) => bytes > 0)
    .map(([part, bytes]) => `${kPartWords[part] ?? part} ${formatBytes(bytes)}`)
    .join(", ");
}

// As wide as the peak is, against the highest of all.
function makeSplitBar(rank: Rank, most: number): HTMLElement {
  const fill = make("span", "bar-fill causes");
  fill.style.width = `${most > 0 ? ((rank.peakBytes ?? 0) / most) * 100 : 0}%`;
  for (const [part, bytes] of rank.split) {
    if (bytes === 0) continue;
    const segment = make("span", partClass(part));
    segment.style.flexGrow = String(bytes);
    fill.append(segment);
  }
  return mark(make("span", "bar split", fill), { "aria-hidden": "true", "title": splitInWords(rank) });
}

export function makeSplitLegend(ranks: Rank[]): HTMLElement {
  const parts = Object.keys(kPartWords).filter((part) => ranks.some((rank) => (rank.split.get(part) ?? 0) > 0));
  const entries = parts.map((part) => make("li", "", make("span", `${partClass(part)} part-swatch`), kPartWords[part] ?? part));
  return mark(make("ul", "part-legend", ...entries), { "aria-label": "What the bars of the peak show" });
}

// The command that makes the rank's own page, with a button that copies it. Null if its file can't be named.
export function makeViewCommand(rank: Rank): HTMLElement | null {
  const file = shellQuote(rank.recording);
  if (file === null || file === "''") return null;
  const command = `cowprof view ${file}`;
  return make(
    "span",
    "rank-command",
    mark(make("code", "", command), { title: command }),
    mark(
      makeCopyButton("copy-command", "copy", () => command),
      { "aria-label": `Copy the command that makes the page of ${nameOfRank(rank)}` },
    ),
  );
}

function makeHeadCell(rank: Rank, choosing: Choosing | null): HTMLElement {
  const name = nameOfRank(rank);
  const twice = rank.repeated ? make("span", "note", " listed twice") : null;
  if (choosing === null) return make("th", "words rank-cell", name, twice);
  const button = mark(
    makeButton("row-button", name, () => choosing.choose(rank)),
    {
      "aria-pressed": String(choosing.chosen() === rank),
      "title": "Show this rank; click again to show all ranks again",
    },
  );
  return make("th", "words rank-cell", button, twice, makeViewCommand(rank));
}

function planColumns(ranks: Rank[], choosing: Choosing | null): Column<Rank>[] {
  const most = ranks.reduce((peak, rank) => Math.max(peak, rank.peakBytes ?? 0), 0);
  const words = (title: string, text: (rank: Rank) => string): Column<Rank> => ({ title, key: text, text, words: true });
  const several = (of: (rank: Rank) => string): boolean => new Set(ranks.map(of)).size > 1;
  const columns: Column<Rank>[] = [
    {
      title: "rank",
      words: true,
      key: (rank) => rank.rank ?? rank.position,
      text: nameOfRank,
      fill: (rank) => makeHeadCell(rank, choosing),
      csv: [
        { head: "rank", value: nameOfRank },
        { head: "recording", value: (rank) => rank.recording },
      ],
    },
    words("host", (rank) => rank.host || "—"),
    {
      title: "workers",
      key: (rank) => rank.workers,
      text: (rank) => formatCount(rank.workers),
    },
    {
      title: "copied",
      key: (rank) => rank.copiedBytes,
      text: (rank) => formatBytes(rank.copiedBytes),
      csv: [{ head: "copied_bytes", value: (rank) => rank.copiedBytes }],
    },
    {
      title: "peak",
      key: (rank) => rank.peakBytes,
      text: (rank) => formatBytes(rank.peakBytes),
      fill: (rank) =>
        mark(make("td", "number peak-cell", formatBytes(rank.peakBytes), makeSplitBar(rank, most)), { title: splitInWords(rank) }),
      csv: [
        { head: "peak_bytes", value: (rank) => rank.peakBytes },
        ...Object.keys(kPartWords).map((part) => ({
          head: `peak_${part.replace(" ", "_")}_bytes`,
          value: (rank: Rank) => rank.split.get(part) ?? null,
        })),
      ],
    },
    {
      ...words("forecast", (rank) => rank.outlook),
      key: (rank) => kOutlooks.indexOf(rank.outlook),
      fill: (rank) => mark(make("td", rank.outlook === "will-exceed" ? "words bad" : "words", rank.outlook), { title: rank.forecast }),
      csv: [{ head: "forecast", value: (rank) => rank.outlook }],
    },
    {
      ...words("first finding", (rank) => rank.diagnosis),
      fill: (rank) => mark(make("td", "words", rank.diagnosis), { title: rank.sentence }),
    },
    {
      title: "died",
      key: (rank) => rank.deaths.length,
      text: (rank) => (rank.deaths.length === 0 ? "—" : String(rank.deaths.length)),
      fill: (rank) =>
        mark(make("td", rank.deaths.length > 0 ? "number bad" : "number", rank.deaths.length === 0 ? "—" : String(rank.deaths.length)), {
          title: deathsOf(rank)
            .map((death) => `${death.process} ${death.text}`)
            .join("; "),
        }),
    },
  ];
  if (several((rank) => rank.job))
    columns.splice(
      2,
      0,
      words("job", (rank) => rank.job || "—"),
    );
  return columns;
}

export function makeRanksTable(ranks: Rank[], choosing: Choosing | null): DataTable<Rank> {
  const table = new DataTable<Rank>({
    id: "ranks-table",
    caption: "Ranks, one row each",
    columns: planColumns(ranks, choosing),
    sortBy: "rank",
    first: kFirst,
    keyOf: (rank) => String(rank.position),
  });
  table.update(ranks);
  return table;
}

// On the page of a launcher.
export function makeRanksSection(ranks: Rank[]): HTMLElement | null {
  if (ranks.length === 0) return null;
  const section = makeSection("ranks", "Ranks", "Each is judged as if it had been recorded alone. Click a column to sort.");
  const table = makeRanksTable(ranks, null);
  section.append(make("div", "table-tools", makeSplitLegend(ranks), table.copy), table.element);
  return section;
}
