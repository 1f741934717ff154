// Owns the row of buttons that name the lines: each shows or hides its line, and a process can be pinned beside it.
// Called by: timeline.ts, when the plan of the strips changes.
// Does not: draw a line or keep what is hidden.
import { lineColour } from "./charts";
import type { Track } from "./decode";
import { make, makeButton, mark } from "./dom";
import { visibleText } from "./format";
import { trackLabel, type Line } from "./lines";
import { onTheme } from "./theme";

export interface LegendActions {
  hidden: (key: string) => boolean;
  toggle: (keys: string[], shown: boolean) => void;
  point: (process: number | null) => void;
  pin: (process: number | null) => void;
}

interface Entry { keys: string[]; label: string; line: Line }

const kSwatches: Partial<Record<Line["kind"], string>> = { limit: "swatch dashed", crowd: "swatch wide" };
let painted: (() => void)[] = [];
onTheme(() => { for (const paint of painted) paint(); });

// A cause looks as it does in every other legend: colour and hatching, from style.css.
function makeSwatch(line: Line): HTMLElement {
  if (line.kind === "cause" && line.colour.startsWith("cause:")) return make("span", `swatch tall cause-${line.colour.slice(6)}`);
  const swatch = make("span", line.key === "forecast" || line.dash.length > 0 ? "swatch dashed" : kSwatches[line.kind] ?? "swatch");
  const paint = (): void => {
    swatch.style.color = lineColour(line.colour);
  };
  painted.push(paint);
  paint();
  return swatch;
}

function makePin(line: Line, pinned: number | null, actions: LegendActions): HTMLElement {
  const on = line.process === pinned;
  const button = makeButton("pin", "", () => actions.pin(on ? null : line.process));
  return mark(button, { "aria-pressed": String(on), "aria-label": `Pin ${line.label}`, "title": on ? "Unpin" : "Pin: grey all others", "data-key": `pin ${line.key}` });
}

function makeEntry({ keys, label, line }: Entry, actions: LegendActions): HTMLElement {
  const button = makeButton("legend-entry", "", () => {
    const shown = button.getAttribute("aria-pressed") !== "true";
    mark(button, { "aria-pressed": String(shown) });
    actions.toggle(keys, shown);
  });
  button.append(makeSwatch(line), make("span", "legend-name", label));
  mark(button, { "aria-pressed": String(!keys.every(actions.hidden)), "title": `${line.title || label} — click to hide or show`, "data-key": line.key });
  if (line.kind === "process") {
    button.addEventListener("mouseenter", () => actions.point(line.process));
    button.addEventListener("mouseleave", () => actions.point(null));
  }
  return button;
}

// Every process by name, for those without a line of their own, and for keyboards.
function makeChooser(tracks: Track[], pinned: number | null, actions: LegendActions): HTMLElement | null {
  if (tracks.length < 2) return null;
  const select = mark(make("select", "chooser"), { "data-key": "chooser" });
  select.append(new Option("none", ""));
  for (const track of tracks) select.append(new Option(visibleText(trackLabel(track)), String(track.index), false, track.index === pinned));
  select.addEventListener("change", () => actions.pin(select.value === "" ? null : Number(select.value)));
  return make("label", "choose", "Pin", select);
}

function listEntries(lines: Line[]): Entry[] {
  const crowd = lines.filter((line) => line.kind === "crowd");
  const own = lines.filter((line) => line.kind !== "crowd" && line.kind !== "used");
  const entries = own.map((line) => ({ keys: [line.key], label: line.label, line }));
  const [first] = crowd;
  if (first !== undefined) entries.push({ keys: crowd.map((line) => line.key), label: first.label.replace(", largest", " workers"), line: first });
  return entries;
}

// Two rows: the lines of memory, and the causes. Whatever has the focus keeps it, though the buttons are new.
export function fillLegend(legend: HTMLElement, lines: Line[], tracks: Track[], pinned: number | null, actions: LegendActions): void {
  painted = [];
  const focused = legend.contains(document.activeElement) ? document.activeElement?.getAttribute("data-key") : null;
  const entries = listEntries(lines);
  const row = (name: string, part: Entry[], ...more: (HTMLElement | null)[]): HTMLElement => {
    const buttons = part.map((entry) => {
      const button = makeEntry(entry, actions);
      return entry.line.kind !== "process" ? button : make("span", `legend-pair${entry.line.process === pinned ? " pinned" : ""}`, button, makePin(entry.line, pinned, actions));
    });
    return mark(make("div", "legend", ...buttons, ...more), { "role": "group", "aria-label": name });
  };
  const causes = entries.filter(({ line }) => line.kind === "cause").reverse();
  const memory = entries.filter(({ line }) => line.kind !== "cause").sort((a, b) => Number(a.line.kind === "process") - Number(b.line.kind === "process"));
  legend.replaceChildren(row("Lines shown", memory, makeChooser(tracks, pinned, actions)), causes.length > 1 ? row("Causes shown", causes) : "");
  if (focused != null) for (const button of legend.querySelectorAll<HTMLElement>("[data-key]")) if (button.dataset["key"] === focused) button.focus();
}
