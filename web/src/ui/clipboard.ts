// Owns copying text to the clipboard, and the button that confirms it.
// Does not: choose the text. Names are escaped as on the page, so they can't smuggle in control characters.
import { make, makeButton, mark } from "./dom";

const kSaidMs = 1200;

function copyBySelection(text: string): boolean {
  const area = make("textarea", "clipboard");
  area.value = text;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  return done;
}

async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text); // an older browser, or one that denies file:// pages the clipboard
  }
}

// Says for all buttons what happened: the name of a button with a label of its own does not change.
const kStatus = mark(make("div", "unseen"), { role: "status" });

export function makeCopyButton(className: string, label: string, text: () => string): HTMLButtonElement {
  const button = makeButton(`copy ${className}`.trim(), label, () => {
    void copyText(text()).then((done) => {
      button.textContent = kStatus.textContent = done ? "copied" : "can't copy";
      setTimeout(() => {
        button.textContent = label;
        kStatus.textContent = "";
      }, kSaidMs);
    });
  });
  if (!kStatus.isConnected) document.body.append(kStatus); // before it says anything, or it is not read out
  return button;
}
