// Names an event, ranks events by severity, and picks those to show when a list is limited.
import type { PageEvent } from "../data/decode";

const kName: Record<string, string> = {
  process: "start",
  exec: "exec",
  exit: "exit",
  killed: "killed",
  signal: "signal",
  oom: "out of memory",
  hang: "hang",
  note: "note",
  alert: "alert",
  "alert-over": "alert over",
};

const kWeight: Record<string, number> = {
  oom: 8,
  killed: 7,
  hang: 6,
  alert: 5,
  signal: 4,
  "alert-over": 3,
  exit: 2,
  process: 1,
  exec: 1,
  note: 0,
};

export function eventName(kind: string): string {
  return kName[kind] ?? kind;
}

export function eventTone(kind: string): string {
  return kind === "oom" || kind === "killed" || kind === "hang"
    ? "bad"
    : kind === "alert" || kind === "signal"
      ? "warn"
      : kind === "alert-over"
        ? "good"
        : "plain";
}

export function eventWeight(event: PageEvent): number {
  return kWeight[event.kind] ?? 0;
}

// The heaviest ones, in their order: of many events the forks go first, a kill last.
export function heaviestEvents(events: PageEvent[], most: number): PageEvent[] {
  if (events.length <= most) return events;
  const kept = new Set([...events].sort((a, b) => eventWeight(b) - eventWeight(a)).slice(0, most));
  return events.filter((event) => kept.has(event));
}
