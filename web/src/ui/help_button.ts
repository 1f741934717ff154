// Owns the button that opens the help dialog, and the event that it sends.
import { makeButton, mark } from "./dom";

export const kHelpEvent = "cowprof-help";

export function makeHelpButton(): HTMLElement {
  const button = makeButton("reset help-button", "?", () => dispatchEvent(new Event(kHelpEvent)));
  return mark(button, { "aria-label": "Keys and gestures", "title": "Keys and gestures" });
}
