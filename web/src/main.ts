// Owns the page: loads the recording and lists the sections in order.
// Does not: contain a section's content, or let an exception escape unseen.
import "uplot/dist/uPlot.min.css";
import "./ui/style.css";
import "./ui/table.css";
import "./ui/cause_bar.css";
import "./ui/blame_table.css";
import "./ui/rerender.css";
import { makeEventsDetails, makeTermsDetails } from "./views/appendix/appendix";
import { addCompare } from "./views/compare/compare";
import { parseContents, type Page } from "./data/decode";
import type { Fleet } from "./data/fleet";
import { makeDiagnosesSection } from "./views/diagnoses/diagnoses";
import { make, mark } from "./ui/dom";
import { makeFleetPage } from "./views/fleet/fleet";
import { makeRanksSection } from "./views/fleet/ranks_table";
import { makeFooter } from "./views/footer/footer";
import { visibleText } from "./core/format";
import { makeHeader, makeTiles } from "./views/header/header";
import { makeHelp } from "./views/help/help";
import { holdPlace } from "./live/hold_place";
import { followedFile, followRun } from "./live/live";
import { makePageMap } from "./views/map/map";
import { rerendered, type Section } from "./ui/rerender";
import { makeShmSection } from "./views/shm/shm";
import { makeRemediesSection } from "./views/remedies/remedies";
import { makeStartMethodsSection } from "./views/start_methods/start_methods";
import { Store } from "./store";
import { makeLimitsSection } from "./views/limits/limits";
import { startTheme } from "./ui/theme";
import { makeTimelineSection } from "./views/timeline/timeline";
import { makeWhoSection } from "./views/who/who";
import { makeWhySection } from "./views/why/why";
import { makeWorkersSection } from "./views/workers/workers";

const kSections: Section[] = [
  rerendered(makeHeader),
  rerendered(({ page }) => makeDiagnosesSection(page.report.diagnoses)),
  rerendered(makeTiles),
  rerendered(({ page }) => makeRanksSection(page.report.ranks)),
  makeTimelineSection,
  rerendered(({ page }) => makeRemediesSection(page.report.remedies)),
  makeWhySection,
  makeWhoSection,
  makePageMap,
  makeWorkersSection,
  makeShmSection,
  rerendered(({ page }) => makeStartMethodsSection(page.report.startMethods)),
  rerendered(({ page }) => makeLimitsSection(page.report.limits, page.report.forecast.ended)),
  rerendered(({ page }) => makeEventsDetails(page)),
  makeTermsDetails,
  rerendered(makeFooter),
  makeHelp,
];

// Unfolds details for printing, as nothing can be unfolded on paper.
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

interface Extras {
  second?: Page | undefined;
  badge?: HTMLElement;
}

function showPage(store: Store, app: HTMLElement, { second, badge }: Extras): void {
  const main = make("main", "", badge ?? null, ...kSections.map((makePart) => makePart(store)));
  app.replaceChildren(main);
  if (badge !== undefined) holdPlace(main);
  addCompare(store, second, main);
  document.title = visibleText(`cowprof: ${store.page.report.command || "recording"}`);
  unfoldForPrint(main);
}

function showFleet(app: HTMLElement, fleet: Fleet): void {
  app.replaceChildren(makeFleetPage(fleet));
  document.title = visibleText(`cowprof: ${fleet.ranks[0]?.job || "job"}, ${fleet.ranks.length} ranks`);
}

function showFailure(app: HTMLElement, failure: unknown): void {
  const reason = failure instanceof Error ? failure.message : "This recording can't be shown.";
  app.replaceChildren(make("main", "", mark(make("p", "failure", reason), { role: "alert" })));
}

const kSavedCopy =
  "This copy was saved by a browser, as a complete page, and lacks the recording. Copy the .html file itself, or save it as “HTML only”.";

// Takes the text that cowprof put into the page. Removes its element to free the memory.
function takeRecording(): string {
  const element = document.getElementById("cowprof-data");
  if (element === null) throw new Error(kSavedCopy);
  const text = element.textContent?.trim() ?? "";
  element.remove();
  return text;
}

async function start(): Promise<void> {
  const app = document.getElementById("app") ?? document.body;
  startTheme();
  try {
    const text = takeRecording();
    const file = followedFile(text);
    if (file !== null) {
      const { store, badge } = await followRun(file);
      return showPage(store, app, { badge });
    }
    const contents = await parseContents(text);
    if (!Array.isArray(contents)) return showFleet(app, contents);
    const [page, second] = contents;
    if (page !== undefined) showPage(new Store(page), app, { second });
  } catch (failure) {
    showFailure(app, failure);
  }
}

void start();
