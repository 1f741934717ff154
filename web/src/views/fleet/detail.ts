// Owns what is said of one rank: its first finding, forecast, line, workers, deaths, and the command for its own page.
// Does not: choose the rank.
import { makeViewCommand, splitInWords } from "./ranks_table";
import { deathsOf, placeOfRank } from "../../core/ranks";
import { formatBytes, formatSeconds } from "../../core/format";
import { formatWall } from "../../core/wall_clock";
import type { Rank } from "../../data/fleet";
import { make, makeButton, mark } from "../../ui/dom";
import { makeFact } from "../../ui/page_head";
import { DataTable, type Column } from "../../ui/table";

type Member = Rank["members"][number];

function makeMembers(rank: Rank): HTMLElement | null {
  if (rank.members.length === 0) return null;
  const bytes = (title: string, key: (row: Member) => number | null): Column<Member> => ({
    title,
    key,
    text: (row) => formatBytes(key(row)),
    csv: [{ head: `${title}_bytes`, value: key }],
  });
  const table = new DataTable<Member>({
    id: "members-table",
    caption: "Workers of the rank, one row each",
    columns: [
      { title: "worker", words: true, key: (row) => row.name, text: (row) => row.name },
      bytes("copied", (row) => row.copiedBytes),
      bytes("peak", (row) => row.peakBytes),
    ],
    sortBy: "peak",
    first: 16,
    keyOf: (row) => row.name,
  });
  table.update(rank.members);
  return make("div", "rank-members", table.element);
}

// `dated`: instants have a date.
export function makeRankDetail(rank: Rank, hosts: number, dated: boolean, close: () => void): HTMLElement {
  const command = makeViewCommand(rank);
  const facts = [
    makeFact("pid", rank.pid === null ? "—" : String(rank.pid)),
    makeFact(
      "recorded",
      `${rank.startedMs === null ? "—" : `${formatWall(rank.startedMs, 0, dated)} UTC`}, ${formatSeconds(rank.seconds)}`,
    ),
    ...(rank.complete ? [] : [makeFact("recording", "has no end: still running, killed, or cut off")]),
    ...(rank.peakBytes === null ? [] : [makeFact("peak", `${formatBytes(rank.peakBytes)}: ${splitInWords(rank)}`)]),
    ...(rank.culprit === "" ? [] : [makeFact("line", rank.culprit)]),
  ];
  const deaths = deathsOf(rank).map((death) =>
    make("li", "", `${death.ms === null ? "" : `${formatWall(death.ms, 3, dated)} UTC: `}${death.process} ${death.text}`),
  );
  const head = make("div", "rank-head", make("h3", "", placeOfRank(rank, hosts)), makeButton("toggle", "Close", close));
  return mark(
    make(
      "div",
      "rank-detail",
      head,
      make("p", "rank-sentence", rank.sentence),
      rank.forecast === "" ? null : make("p", "lead", `Forecast: ${rank.forecast}.`),
      make("dl", "facts", ...facts),
      deaths.length === 0 ? null : make("ul", "rank-deaths", ...deaths),
      make("p", "command", rank.command || "unknown command"),
      makeMembers(rank),
      command === null ? null : make("p", "rank-own", "Its own page: ", command),
    ),
    { role: "region", "aria-label": `Details of ${placeOfRank(rank, hosts)}` },
  );
}
