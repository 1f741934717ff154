// Owns the lane of event marks above the strips, and the marks' vertical lines in a strip.
// Does not: decide what an event is; it only groups those too close to tell apart.
import type uPlot from "uplot";
import type { PageEvent } from "../../data/decode";
import { make, mark } from "../../ui/dom";
import { formatClock } from "../../core/format";
import { colour } from "../../ui/theme";
import { eventName, eventTone, eventWeight, heaviestEvents } from "../../core/events";

interface Group {
  x: number;
  events: PageEvent[];
}

const kApartPixels = 26;
const kListed = 8;
const kGlyph: Record<string, string> = {
  oom: "✖",
  killed: "✖",
  hang: "∞",
  alert: "!",
  "alert-over": "✓",
  signal: "◆",
  exit: "■",
  process: "▲",
  exec: "▶",
  note: "●",
};

function groupEvents(events: PageEvent[], toX: (seconds: number) => number): Group[] {
  const groups: Group[] = [];
  for (const event of events) {
    const x = toX(event.seconds);
    const last = groups.at(-1);
    if (last !== undefined && x - last.x < kApartPixels) last.events.push(event);
    else groups.push({ x, events: [event] });
  }
  return groups;
}

function makeMark(group: Group): HTMLElement {
  const heaviest = group.events.reduce((top, event) => (eventWeight(event) > eventWeight(top) ? event : top));
  const lines = heaviestEvents(group.events, kListed).map(
    (event) => `${formatClock(event.seconds, 0.1)}  ${event.text || eventName(event.kind)}`,
  );
  if (group.events.length > kListed) lines.push(`and ${group.events.length - kListed} more`);
  const tip = make("span", "mark-tip", ...lines.map((line) => make("span", "mark-line", line)));
  const count = group.events.length > 1 ? make("span", "mark-count", String(group.events.length)) : null;
  const button = make("button", `mark ${eventTone(heaviest.kind)}`, make("span", "mark-glyph", kGlyph[heaviest.kind] ?? "●"), count, tip);
  mark(button, { "type": "button", "data-kind": heaviest.kind, "data-event": keyOf(heaviest), "aria-label": lines.join("; ") });
  button.style.left = `${group.x}px`;
  return button;
}

// Names an event in the recording as it grows.
export function keyOf({ seconds, kind, text }: PageEvent): string {
  return `${seconds} ${kind} ${text}`;
}

// The focus survives, though the marks are new.
export function placeMarks(lane: HTMLElement, plot: uPlot, events: PageEvent[]): void {
  const left = plot.bbox.left / devicePixelRatio;
  const width = plot.bbox.width / devicePixelRatio;
  const toX = (seconds: number): number => left + plot.valToPos(seconds, "x");
  const seen = events.filter((event) => toX(event.seconds) >= left - 1 && toX(event.seconds) <= left + width + 1);
  const groups = groupEvents(seen, toX);
  const focused = lane.contains(document.activeElement) ? document.activeElement?.getAttribute("data-event") : null;
  const marks = groups.map((group) => {
    const button = makeMark(group);
    if (group.x > left + width / 2) button.classList.add("tip-left");
    return button;
  });
  lane.replaceChildren(...marks);
  if (focused != null)
    marks[groups.findIndex(({ events: members }) => members.some((event) => keyOf(event) === focused))]?.focus({ preventScroll: true });
}

export function drawMarkLines(plot: uPlot, events: PageEvent[]): void {
  const { ctx, bbox } = plot;
  const drawn: number[] = [];
  const apart = 5 * devicePixelRatio; // a burst of forks is one line, not a hatched area
  ctx.save();
  ctx.lineWidth = devicePixelRatio;
  for (const event of [...events].sort((a, b) => eventWeight(b) - eventWeight(a))) {
    const x = Math.round(plot.valToPos(event.seconds, "x", true));
    if (x < bbox.left || x > bbox.left + bbox.width || drawn.some((other) => Math.abs(other - x) < apart)) continue;
    drawn.push(x);
    ctx.strokeStyle = colour(`mark-${eventTone(event.kind)}`);
    ctx.setLineDash(eventTone(event.kind) === "plain" ? [2 * devicePixelRatio, 4 * devicePixelRatio] : []);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
  }
  ctx.restore();
}
