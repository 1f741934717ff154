// Owns what an event of the recording is called, and how serious it is.

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
