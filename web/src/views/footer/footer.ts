// Owns the last line of the page: what recorded this, when, and at what interval.
import "./footer.css";
import { make } from "../../ui/dom";
import type { Store } from "../../store";

export function makeFooter({ page }: Store): HTMLElement {
  const { tool, kernel, started, pageBytes, intervalSeconds } = page.run;
  const parts = [
    tool,
    kernel === "" ? "" : `Linux ${kernel}`,
    started === "" ? "" : `recorded ${started}`,
    intervalSeconds === null ? "" : `one sample every ${intervalSeconds} s`,
    pageBytes === null ? "" : `pages of ${pageBytes} bytes`,
  ];
  return make("footer", "page-footer", parts.filter((part) => part !== "").join(" · "));
}
