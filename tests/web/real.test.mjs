// Owns the tests of a page that `cowprof view` made of a real recording, against `cowprof report --json` of the same.
// Called by: npm test in web/, with COWPROF_PAGE and COWPROF_REPORT naming the two files.
// Does not: make a recording; without COWPROF_PAGE it says so and is skipped, with a wrong one it fails.
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import { after, before, test } from "node:test";
import { startBrowser, visitPage } from "./browser.mjs";
import { assertBytes, bytesShown, checkChartsPainted, checkLimitsTable, checkNoOverflow, checkQuiet, checkWorkersTable, hover, workerRows } from "./checks.mjs";

const { COWPROF_PAGE: pagePath, COWPROF_REPORT: reportPath } = process.env;
const skip = pagePath ? false : "COWPROF_PAGE is not set: no page of a real recording to test";
if (skip) console.log(`real.test.mjs: skipped, ${skip}`);

let browser;
let report;
before(async () => {
  if (skip) return;
  assert.ok(existsSync(pagePath), `COWPROF_PAGE names ${pagePath}, which does not exist`);
  assert.ok(reportPath && existsSync(reportPath), `COWPROF_REPORT names ${reportPath}, which does not exist`);
  report = JSON.parse(readFileSync(reportPath, "utf8"));
  browser = await startBrowser();
});
after(() => browser?.close());

async function withPage(name, options, body) {
  checkQuiet(await visitPage(browser, resolve(pagePath), `real-${name}`, options, body));
}

test("real recording: verdict, tables and charts", { skip }, async () => {
  await withPage("light", {}, async (page) => {
    assert.ok((await page.textContent("#verdict")).length > 10);
    assert.ok((await page.textContent(".command")).length > 0);
    assertBytes(await page.textContent("#tile-copied .tile-value"), report.totals.copied_bytes, "copied");
    await checkWorkersTable(page, report);
    await checkLimitsTable(page, report);
    await checkChartsPainted(page);
    await checkNoOverflow(page);
  });
});

test("real recording: causes, types, lines and findings are the report's", { skip }, async () => {
  const causes = report.totals.by_cause;
  if (causes.refcount === null) return console.log("real.test.mjs: this recording knows no causes");
  await withPage("why", {}, async (page) => {
    const shown = await page.$$eval(".cause-entry .cause-amount", (all) => all.map((one) => Number(one.title.replaceAll(/\D/g, ""))));
    assert.deepEqual(shown, Object.values(causes).filter((copies) => copies > 0).sort((a, b) => b - a));
    for (const [id, rows, name] of [["by-line", report.by_line, (row) => (row.line > 0 ? `${row.file}:${row.line}` : row.file)], ["by-type", report.by_type, (row) => row.type]]) {
      if (rows.length === 0) continue;
      assert.equal(await page.getAttribute(`#${id} tbody tr >> nth=0 >> th`, "title"), name(rows[0]));
      assertBytes(await page.textContent(`#${id} tbody tr >> nth=0 >> td.number >> nth=0`), rows[0].bytes, id);
    }
    assert.deepEqual(await page.$$eval(".diagnosis h3", (all) => all.map((head) => head.textContent)), report.diagnoses.map((one) => one.summary));
  });
});

test("real recording: hovering shows values, marks are there, sorting works", { skip }, async () => {
  await withPage("hover", {}, async (page) => {
    const { rows } = await hover(page, "memory", 0.5);
    assert.ok(rows.some((row) => row.name === "sum" && bytesShown(row.value) > 0));
    assert.ok(await page.locator(".mark").count() > 0, "a recording with workers has events");
    await page.locator("#workers thead th", { hasText: /^private/ }).locator("button").click();
    const shown = (await workerRows(page)).map((cells) => cells[5]).filter((text) => text !== "—").map(bytesShown);
    assert.deepEqual(shown, [...shown].sort((a, b) => b - a));
  });
});

test("real recording: dark and 390 pixels wide", { skip }, async () => {
  await withPage("dark-390", { width: 390, height: 844, scheme: "dark" }, async (page) => {
    const background = () => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
    const dark = await background();
    await checkNoOverflow(page);
    await page.click(".theme-button");
    assert.notEqual(await background(), dark);
  });
});
