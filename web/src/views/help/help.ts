// Owns the dialog that lists all keys and mouse gestures, and the two keys that work everywhere: ? and Esc.
// Does not: handle what it lists; the timeline's gestures.ts does.
import { make, makeButton, mark } from "../../ui/dom";
import { kHelpEvent } from "../../ui/help_button";
import type { Store } from "../../store";
import "./help.css";

const kGestures: [string, string][] = [
  ["Drag", "select a span; why, who, page map and workers then count only what happened in it"],
  ["Wheel", "zoom around the pointer"],
  ["Shift + wheel", "move along the time axis; also: drag with the middle button, or with the space bar held"],
  ["Click on a line", "pin that process and grey out all others; click again to unpin"],
  ["Double click", "show all"],
];
const kKeys: [string, string][] = [
  ["← →", "move the cursor through all strips"],
  ["Shift + ← →", "move along the time axis"],
  ["+ −", "zoom around the cursor"],
  ["Home", "show all"],
  ["[ ]", "begin and end the selection at the cursor"],
  ["Enter", "zoom to the selection"],
  ["Esc", "clear the selection"],
  ["?", "this help"],
];

function makeList(title: string, entries: [string, string][]): HTMLElement {
  const rows = entries.flatMap(([keys, words]) => [make("dt", "", make("kbd", "", keys)), make("dd", "", words)]);
  return make("div", "", make("h3", "", title), make("dl", "", ...rows));
}

function typing(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));
}

export function makeHelp(store: Store): HTMLDialogElement {
  const close = makeButton("reset", "Close", () => dialog.close());
  const lists = make(
    "div",
    "help-lists",
    makeList("Mouse, on the timeline", kGestures),
    makeList("Keys, when the timeline has the focus", kKeys),
  );
  const title = mark(make("h2", "", "Keys and gestures"), { id: "help-title" });
  const dialog = mark(make("dialog", "help", make("div", "help-head", title, close), lists), { "aria-labelledby": "help-title" });
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  }); // a click on the backdrop
  addEventListener("keydown", (event) => {
    if (typing(event.target) || dialog.open || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "?") dialog.showModal();
    else if (event.key === "Escape" && document.querySelector("dialog[open]") === null) store.set({ selection: null });
  });
  addEventListener(kHelpEvent, () => dialog.showModal());
  return dialog;
}
