// Owns the order of the page: load the recording, then put one section under the other.
// Called by: the browser, once index.html is parsed.
// Does not: contain a section's content, or let an exception reach the reader.
import "uplot/dist/uPlot.min.css";
import "./style.css";
import { makeEventsDetails, makeTermsDetails } from "./appendix";
import { loadPages, type Page, type Track } from "./decode";
import { makeDiagnosesSection } from "./diagnoses";
import { make, makeSection, mark } from "./dom";
import { visibleText } from "./format";
import { makeHeader, makeTiles } from "./header";
import { makePageMap } from "./pagemap";
import type { Process } from "./report";
import { makeLimitsSection, makeWorkersSection } from "./tables";
import { Store } from "./store";
import { startTheme } from "./theme";
import { Timeline } from "./timeline";
import { makeWhySection } from "./why";

// A pid can come back in a long recording: then the index decides.
function trackOf(page: Page, process: Process | null): Track | null {
  const same = page.processes.filter((track) => process !== null && track.pid === process.pid);
  return (same.length > 1 ? same.find((track) => track.index === process?.index) : undefined) ?? same[0] ?? null;
}

function makeFooter(page: Page): HTMLElement {
  const { tool, kernel, started, pageBytes, intervalSeconds } = page.run;
  const parts = [
    tool, kernel === "" ? "" : `Linux ${kernel}`, started === "" ? "" : `recorded ${started}`,
    intervalSeconds === null ? "" : `one sample every ${intervalSeconds} s`, pageBytes === null ? "" : `pages of ${pageBytes} bytes`,
  ];
  return make("footer", "page-footer", parts.filter((part) => part !== "").join(" · "));
}

function makeTimelineSection(timeline: Timeline | null): HTMLElement {
  const section = makeSection("timeline", "Timeline", "");
  section.append(timeline?.element ?? make("p", "empty", "No samples were recorded, so there is nothing to draw."));
  return section;
}

// On paper nothing can be unfolded.
function unfoldForPrint(main: HTMLElement): void {
  let folded: HTMLDetailsElement[] = [];
  addEventListener("beforeprint", () => {
    folded = [...main.querySelectorAll<HTMLDetailsElement>("details.printed:not([open])")];
    for (const details of folded) details.open = true;
  });
  addEventListener("afterprint", () => {
    for (const details of folded) details.open = false;
  });
}

function showPage(store: Store, app: HTMLElement): void {
  const { page } = store;
  const timeline = page.seconds.length > 0 ? new Timeline(page) : null;
  const workers = makeWorkersSection(page.report.workers, page.report.parent, {
    point: (process) => timeline?.point(trackOf(page, process)),
    choose: (process) => timeline?.choose(trackOf(page, process)),
  });
  const sections = [
    makeHeader(page), makeDiagnosesSection(page.report.diagnoses), makeTiles(page), makeWhySection(page.report, page.run.pageBytes),
    makeTimelineSection(timeline), makePageMap(store), workers, makeLimitsSection(page.report.limits), makeEventsDetails(page.events), makeTermsDetails(), makeFooter(page),
  ];
  const main = make("main", "", ...sections);
  app.replaceChildren(main);
  document.title = visibleText(`cowprof: ${page.report.command || "recording"}`);
  timeline?.start();
  unfoldForPrint(main);
}

function showFailure(app: HTMLElement, failure: unknown): void {
  const reason = failure instanceof Error ? failure.message : "This recording can't be shown.";
  app.replaceChildren(make("main", "", mark(make("p", "failure", reason), { role: "alert" })));
}

async function start(): Promise<void> {
  const app = document.getElementById("app") ?? document.body;
  startTheme();
  try {
    const [page] = await loadPages();
    if (page !== undefined) showPage(new Store(page), app);
  } catch (failure) {
    showFailure(app, failure);
  }
}

void start();
