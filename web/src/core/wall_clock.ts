// Owns instants by the wall clock, UTC: in a sentence, and on an axis.
// Does not: know whose clock it is.

export const kDayMs = 86_400_000;

// Damage may make any figure an instant.
function isoOf(ms: number): string | null {
  return Number.isFinite(ms) && Math.abs(ms) < 8e15 ? new Date(ms).toISOString() : null;
}

// The time of day with so many decimals; `dated`: after the date.
export function formatWall(ms: number, places: number, dated: boolean): string {
  const iso = isoOf(ms);
  if (iso === null) return "—";
  const time = iso.slice(11, places === 0 ? 19 : 20 + places);
  return dated ? `${iso.slice(0, 10)} ${time}` : time;
}

// On an axis with a tick every `step` seconds: as much of the date and time as tells the ticks apart.
export function formatWallTick(ms: number, step: number, dated: boolean): string {
  if (!dated || step < 60) return formatWall(ms, step < 1 ? 1 : 0, false);
  return (
    isoOf(ms)
      ?.slice(5, step * 1000 < kDayMs ? 16 : 10)
      .replace("T", " ") ?? "—"
  );
}

export function spansDays(instants: number[]): boolean {
  return new Set(instants.filter((ms) => Number.isFinite(ms)).map((ms) => Math.floor(ms / kDayMs))).size > 1;
}
