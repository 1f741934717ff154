// Owns the row of buttons that name the lines and switch them on and off.
// Called by: timeline.ts, once; it calls back for every toggle and hover.
// Does not: draw a line or keep what is hidden.
import { make, makeButton, mark } from "./dom";
import type { Line } from "./charts";
import { colour, onTheme } from "./theme";

export interface LegendActions {
  toggle: (lines: number[], shown: boolean) => void; // positions in the list of lines
  point: (line: number | null) => void;
  choose: (line: number | null) => void;
}

function makeSwatch(line: Line): HTMLElement {
  const swatch = make("span", line.kind === "limit" || line.dash.length > 0 ? "swatch dashed" : "swatch");
  const paint = (): void => {
    swatch.style.color = colour(line.colour);
  };
  onTheme(paint);
  paint();
  return swatch;
}

function makeEntry(line: Line, label: string, lines: number[], actions: LegendActions): HTMLElement {
  const button = makeButton("legend-entry", "", () => {
    const shown = button.getAttribute("aria-pressed") !== "true";
    mark(button, { "aria-pressed": String(shown) });
    actions.toggle(lines, shown);
  });
  button.append(makeSwatch(line), make("span", "legend-name", label));
  mark(button, { "aria-pressed": "true", "title": `${line.title || label} — click to hide or show` });
  if (lines.length === 1 && line.kind === "process") {
    button.addEventListener("mouseenter", () => actions.point(lines[0] ?? null));
    button.addEventListener("mouseleave", () => actions.point(null));
  }
  return button;
}

function makeChooser(lines: Line[], workers: number[], actions: LegendActions): HTMLElement {
  const select = make("select", "chooser");
  select.append(new Option("none", ""));
  for (const position of workers) select.append(new Option(make("span", "", lines[position]?.label ?? "").textContent ?? "", String(position)));
  select.addEventListener("change", () => actions.choose(select.value === "" ? null : Number(select.value)));
  return make("label", "choose", "Highlight", select);
}

export function makeLegend(lines: Line[], actions: LegendActions): HTMLElement {
  const legend = mark(make("div", "legend"), { "role": "group", "aria-label": "Lines shown" });
  const workers = lines.flatMap((line, position) => (line.colour === "crowd" ? [position] : []));
  lines.forEach((line, position) => {
    if (!workers.includes(position)) legend.append(makeEntry(line, line.label, [position], actions));
  });
  const first = lines[workers[0] ?? -1];
  if (first !== undefined) {
    const all = lines.every((line) => line.kind !== "process" || line.colour === "crowd" || line.colour === "parent");
    legend.append(makeEntry({ ...first, title: "" }, `${workers.length} ${all ? "workers" : "small processes"}`, workers, actions), makeChooser(lines, workers, actions));
  }
  return legend;
}
