// Owns the dark and light themes: the attribute on the root element, the button, and the colours that canvases need.
// Does not: define a colour; the style sheets do.
import { make, mark } from "./dom";

type Theme = "light" | "dark";

const listeners: (() => void)[] = [];
let palette = new Map<string, string>();

export function colour(name: string): string {
  let value = palette.get(name);
  if (value === undefined) {
    value = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
    palette.set(name, value);
  }
  return value;
}

export function onTheme(listener: () => void): void {
  listeners.push(listener);
}

function currentTheme(): Theme {
  return document.documentElement.dataset["theme"] === "dark" ? "dark" : "light";
}

function applyTheme(theme: Theme): void {
  document.documentElement.dataset["theme"] = theme;
  palette = new Map();
  for (const button of document.querySelectorAll<HTMLElement>(".theme-button")) nameButton(button);
  for (const listener of listeners) listener();
}

// Finds buttons in the page instead of registering them: a rebuilt header brings a new button.
function nameButton(button: HTMLElement): void {
  const other = currentTheme() === "dark" ? "light" : "dark";
  button.textContent = other === "dark" ? "Dark" : "Light";
  button.setAttribute("aria-label", `Switch to the ${other} theme`);
}

export function startTheme(): void {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  applyTheme(dark.matches ? "dark" : "light");
  dark.addEventListener("change", () => applyTheme(dark.matches ? "dark" : "light"));
  let shown: Theme = "light";
  addEventListener("beforeprint", () => {
    shown = currentTheme();
    applyTheme("light");
  });
  addEventListener("afterprint", () => applyTheme(shown));
}

export function makeThemeButton(): HTMLElement {
  const button = mark(make("button", "theme-button"), { type: "button" });
  button.addEventListener("click", () => applyTheme(currentTheme() === "dark" ? "light" : "dark"));
  nameButton(button);
  return button;
}
