// Owns the legend: a button per series shows or hides it, and a second one pins its process.
// Does not: draw a series, or remember which are hidden.
import { seriesColour } from "./charts";
import type { Track } from "../../data/decode";
import { make, makeButton, mark } from "../../ui/dom";
import { visibleText } from "../../core/format";
import type { ChartSeries } from "../../core/chart_series";
import { onTheme } from "../../ui/theme";
import { processLabel } from "../../core/processes";

interface LegendActions {
  hidden: (key: string) => boolean;
  toggle: (keys: string[], shown: boolean) => void;
  point: (process: number | null) => void;
  pin: (process: number | null) => void;
}

interface Entry {
  keys: string[];
  label: string;
  series: ChartSeries;
}

const kSwatches: Partial<Record<ChartSeries["kind"], string>> = { limit: "swatch dashed", crowd: "swatch wide" };
let painted: (() => void)[] = [];
onTheme(() => {
  for (const paint of painted) paint();
});

// A cause has the same colour and hatching as in every other legend, from cause_bar.css.
function makeSwatch(series: ChartSeries): HTMLElement {
  if (series.kind === "cause" && series.colour.startsWith("cause:")) return make("span", `swatch tall cause-${series.colour.slice(6)}`);
  const swatch = make("span", series.key === "forecast" || series.dash.length > 0 ? "swatch dashed" : (kSwatches[series.kind] ?? "swatch"));
  const paint = (): void => {
    swatch.style.color = seriesColour(series.colour);
  };
  painted.push(paint);
  paint();
  return swatch;
}

function makePin(series: ChartSeries, pinned: number | null, actions: LegendActions): HTMLElement {
  const on = series.process === pinned;
  const button = makeButton("pin", "", () => actions.pin(on ? null : series.process));
  return mark(button, {
    "aria-pressed": String(on),
    "aria-label": `Pin ${series.label}`,
    "title": on ? "Unpin" : "Pin: grey out all others",
    "data-key": `pin ${series.key}`,
  });
}

function makeEntry({ keys, label, series }: Entry, actions: LegendActions): HTMLElement {
  const button = makeButton("legend-entry", "", () => {
    const shown = button.getAttribute("aria-pressed") !== "true";
    mark(button, { "aria-pressed": String(shown) });
    actions.toggle(keys, shown);
  });
  button.append(makeSwatch(series), make("span", "legend-name", label));
  mark(button, {
    "aria-pressed": String(!keys.every(actions.hidden)),
    "title": `${series.title || label} — click to hide or show`,
    "data-key": series.key,
  });
  if (series.kind === "process") {
    button.addEventListener("mouseenter", () => actions.point(series.process));
    button.addEventListener("mouseleave", () => actions.point(null));
  }
  return button;
}

// Lists every process by name: for those without a line of their own, and for the keyboard.
function makeChooser(tracks: Track[], pinned: number | null, actions: LegendActions): HTMLElement | null {
  if (tracks.length < 2) return null;
  const select = mark(make("select", "chooser"), { "data-key": "chooser" });
  select.append(new Option("none", ""));
  for (const track of tracks)
    select.append(new Option(visibleText(processLabel(track)), String(track.index), false, track.index === pinned));
  select.addEventListener("change", () => actions.pin(select.value === "" ? null : Number(select.value)));
  return make("label", "choose", "Pin", select);
}

function listEntries(list: ChartSeries[]): Entry[] {
  const crowd = list.filter((series) => series.kind === "crowd");
  const own = list.filter((series) => series.kind !== "crowd" && series.kind !== "used");
  const entries = own.map((series) => ({ keys: [series.key], label: series.label, series }));
  const [first] = crowd;
  if (first !== undefined)
    entries.push({ keys: crowd.map((series) => series.key), label: first.label.replace(", largest", ""), series: first });
  return entries;
}

// Fills two rows: memory series, and causes. The focus survives, though the buttons are new.
export function fillLegend(legend: HTMLElement, list: ChartSeries[], tracks: Track[], pinned: number | null, actions: LegendActions): void {
  painted = [];
  const focused = legend.contains(document.activeElement) ? document.activeElement?.getAttribute("data-key") : null;
  const entries = listEntries(list);
  const row = (name: string, part: Entry[], ...more: (HTMLElement | null)[]): HTMLElement => {
    const buttons = part.map((entry) => {
      const button = makeEntry(entry, actions);
      return entry.series.kind !== "process"
        ? button
        : make("span", `legend-pair${entry.series.process === pinned ? " pinned" : ""}`, button, makePin(entry.series, pinned, actions));
    });
    return mark(make("div", "legend", ...buttons, ...more), { "role": "group", "aria-label": name });
  };
  const causes = entries.filter(({ series }) => series.kind === "cause").reverse();
  const memory = entries
    .filter(({ series }) => series.kind !== "cause")
    .sort((a, b) => Number(a.series.kind === "process") - Number(b.series.kind === "process"));
  legend.replaceChildren(
    row("Lines shown", memory, makeChooser(tracks, pinned, actions)),
    causes.length > 1 ? row("Causes shown", causes) : "",
  );
  if (focused != null)
    for (const button of legend.querySelectorAll<HTMLElement>("[data-key]")) if (button.dataset["key"] === focused) button.focus();
}
