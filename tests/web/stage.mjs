// Owns the browser of one test file, and the visit that most tests make: open synthetic data as a page, check it, find no errors.
// Does not: judge what is on the page.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { after, before } from "node:test";
import { openPage, startBrowser, visitPage, writePage } from "./browser.mjs";
import { checkQuiet } from "./checks.mjs";
import { fillTemplate, kTemplate } from "./synthetic.mjs";

// `prefix`: of the names of pages and pictures in out/.
export function makeStage(prefix = "") {
  let browser;
  before(async () => {
    assert.ok(existsSync(kTemplate), "web/dist/template.html is missing: run npm run build in web/ first");
    browser = await startBrowser();
  });
  after(() => browser?.close());
  return {
    withPage: async (name, content, options, body) =>
      checkQuiet(await visitPage(browser, writePage(prefix + name, fillTemplate(content)), prefix + name, options, body)),
    // A page that is there already.
    visit: async (path, name, options, body) => checkQuiet(await visitPage(browser, path, prefix + name, options, body)),
    open: (name, content, options) => openPage(browser, writePage(prefix + name, fillTemplate(content)), options),
  };
}
