// Owns the tests of how the page shows a process that can never go on: pages that `cowprof view` made of real recordings, against the
// report of the same. COWPROF_HANG_PAGE and COWPROF_HANG_REPORT name the files of one with a hang, COWPROF_PAGE the page of one without.
// Does not: make a recording.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { after, before, test } from "node:test";
import { startBrowser, visitPage } from "./browser.mjs";
import { checkNoOverflow, checkQuiet } from "./checks.mjs";

const { COWPROF_HANG_PAGE: hangPage, COWPROF_HANG_REPORT: reportPath, COWPROF_PAGE: otherPage } = process.env;
const skip = hangPage ? false : "COWPROF_HANG_PAGE is not set: no page of a real recording to test";
if (skip) console.log(`hang.test.mjs: skipped, ${skip}`);
const kMark = '.mark[data-kind="hang"]';

let browser;
before(async () => {
  if (!skip) browser = await startBrowser();
});
after(() => browser?.close());

async function withPage(path, name, body) {
  checkQuiet(await visitPage(browser, resolve(path), name, {}, body));
}

test("a hang is a mark that says who waits for what, where it was found, and the first finding", { skip }, async () => {
  const report = JSON.parse(readFileSync(reportPath, "utf8"));
  const [hang] = report.hangs;
  await withPage(hangPage, "hang", async (page) => {
    assert.equal(await page.locator(kMark).count(), 1);
    const mark = page.locator(kMark);
    assert.match(await mark.getAttribute("class"), /\bbad\b/);
    await mark.hover();
    assert.ok(await mark.locator(".mark-tip").isVisible());
    const tip = await mark.locator(".mark-tip").textContent();
    assert.ok(tip.includes(`worker ${hang.pid} can never go on: `) && tip.includes(hang.what), tip);
    assert.ok(tip.includes(hang.holder.name), tip);
    const first = page.locator(".diagnosis").first();
    assert.equal(await first.locator(".diagnosis-id").textContent(), "fork-hang");
    assert.equal(await first.locator("h3").textContent(), report.diagnoses[0].summary);
    assert.ok((await first.locator(".advice").textContent()).includes("os.register_at_fork"));
    await checkNoOverflow(page);
  });
});

test("a recording without a hang has no such mark", { skip }, async () => {
  await withPage(otherPage, "no-hang", async (page) => {
    assert.ok((await page.locator(".mark").count()) > 0);
    assert.equal(await page.locator(kMark).count(), 0);
  });
});
