// Owns how a rank is called, and the filter of ranks by what is typed.
// Does not: order or judge.
import type { Death, Rank } from "../data/fleet";

export function nameOfRank(rank: Rank): string {
  if (rank.rank !== null) return `rank ${rank.rank}`;
  const file = rank.recording.slice(rank.recording.lastIndexOf("/") + 1);
  return rank.localRank === null ? file : `local rank ${rank.localRank} of ${file}`;
}

// With the host, if the ranks are on several.
export function placeOfRank(rank: Rank, hosts: number): string {
  return hosts > 1 && rank.host !== "" ? `${nameOfRank(rank)} on ${rank.host}` : nameOfRank(rank);
}

export function hostsOf(ranks: Rank[]): number {
  return new Set(ranks.map((rank) => rank.host)).size;
}

// Of its launcher, of the rank and of its workers.
export function deathsOf(rank: Rank): Death[] {
  return [...rank.launcherDeaths, ...rank.deaths];
}

const kNumbers = /^(?:ranks?\s+)?\d+(?:\s*-\s*\d+)?(?:[\s,]+\d+(?:\s*-\s*\d+)?)*$/i;

// "3", "rank 3", "0-7, 12": ranks by number. Anything else: what contains the text.
export function rankFilter(text: string): (rank: Rank) => boolean {
  const wanted = text.trim().toLowerCase();
  if (!kNumbers.test(wanted))
    return (rank) =>
      [
        nameOfRank(rank),
        rank.host,
        rank.job,
        rank.diagnosis,
        rank.outlook,
        rank.recording,
        ...deathsOf(rank).map((death) => death.text),
      ].some((word) => word.toLowerCase().includes(wanted));
  const spans = [...wanted.matchAll(/(\d+)(?:\s*-\s*(\d+))?/g)].map(([, from, to]) => [Number(from), Number(to ?? from)] as const);
  return ({ rank }) => rank !== null && spans.some(([from, to]) => from <= rank && rank <= to);
}
