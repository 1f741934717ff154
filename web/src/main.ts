// Owns the order of the page: load the recording, then put one section under the other.
// Called by: the browser, once index.html is parsed.
// Does not: contain a section's content, or let an exception reach the reader.
import "uplot/dist/uPlot.min.css";
import "./style.css";
import { makeEventsDetails, makeTermsDetails } from "./appendix";
import { addCompare } from "./compare";
import { loadPages, type Page } from "./decode";
import { makeDiagnosesSection } from "./diagnoses";
import { make, mark } from "./dom";
import { makeFooter } from "./footer";
import { visibleText } from "./format";
import { makeHeader, makeTiles } from "./header";
import { makeHelp } from "./help";
import { followedFile, followRun } from "./live";
import { makePageMap } from "./pagemap";
import { renewed, type Section } from "./renew";
import { makeShmSection } from "./shm";
import { Store } from "./store";
import { makeLimitsSection } from "./tables";
import { startTheme } from "./theme";
import { makeTimelineSection } from "./timeline";
import { makeWhoSection } from "./who";
import { makeWhySection } from "./why";
import { makeWorkersSection } from "./workers";

const kSections: Section[] = [
  renewed(makeHeader),
  renewed(({ page }) => makeDiagnosesSection(page.report.diagnoses)),
  renewed(makeTiles),
  makeTimelineSection,
  makeWhySection,
  makeWhoSection,
  makePageMap,
  makeWorkersSection,
  makeShmSection,
  renewed(({ page }) => makeLimitsSection(page.report.limits)),
  renewed(({ page }) => makeEventsDetails(page)),
  makeTermsDetails,
  renewed(makeFooter),
  makeHelp,
];

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

interface Extras { second?: Page | undefined; badge?: HTMLElement }

function showPage(store: Store, app: HTMLElement, { second, badge }: Extras): void {
  const main = make("main", "", badge ?? null, ...kSections.map((makePart) => makePart(store)));
  app.replaceChildren(main);
  addCompare(store, second, main);
  document.title = visibleText(`cowprof: ${store.page.report.command || "recording"}`);
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
    const file = followedFile();
    if (file !== null) {
      const { store, badge } = await followRun(file);
      return showPage(store, app, { badge });
    }
    const [page, second] = await loadPages();
    if (page !== undefined) showPage(new Store(page), app, { second });
  } catch (failure) {
    showFailure(app, failure);
  }
}

void start();
