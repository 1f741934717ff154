// Owns the creation of elements. Text only ever becomes a text node, so a hostile name stays a name.
// Does not: accept markup in any form.
import { visibleText } from "../core/format";

type Child = Node | string | null;
type Attributes = Record<string, string>;

export function make<Tag extends keyof HTMLElementTagNameMap>(tag: Tag, className = "", ...children: Child[]): HTMLElementTagNameMap[Tag] {
  const element = document.createElement(tag);
  if (className !== "") element.className = className;
  for (const child of children) {
    if (child !== null) element.append(typeof child === "string" ? visibleText(child) : child);
  }
  return element;
}

export function mark<T extends Element>(element: T, attributes: Attributes): T {
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, visibleText(value));
  return element;
}

export function makeButton(className: string, text: string, onClick: () => void): HTMLButtonElement {
  const button = mark(make("button", className, text), { type: "button" });
  button.addEventListener("click", onClick);
  return button;
}

// A bar for a share in 0..1. Callers always show the figure beside it as text.
export function makeBar(share: number | null, tone = ""): HTMLElement {
  const fill = make("span", "bar-fill");
  fill.style.width = `${Math.min(1, Math.max(0, share ?? 0)) * 100}%`;
  return mark(make("span", `bar ${tone}`.trim(), fill), { "aria-hidden": "true" });
}

export function makeSection(id: string, title: string, lead: string): HTMLElement {
  const heading = mark(make("h2", "", title), { id: `${id}-title` });
  const section = mark(make("section", "panel", heading), { id, "aria-labelledby": `${id}-title` });
  if (lead !== "") section.append(make("p", "lead", lead));
  return section;
}

export function ratioTone(ratio: number | null): string {
  return ratio === null ? "" : ratio >= 0.9 ? "bad" : ratio >= 0.75 ? "warn" : "";
}
