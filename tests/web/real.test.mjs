// Owns the tests of a page that `cowprof view` made of a real recording, against `cowprof report --json` of the same.
// COWPROF_PAGE and COWPROF_REPORT name the two files; without COWPROF_PAGE the tests are skipped.
// Does not: make a recording.
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import { after, before, test } from "node:test";
import { startBrowser, visitPage } from "./browser.mjs";
import {
  assertBytes,
  bytesShown,
  checkChartsPainted,
  checkLimitsTable,
  checkNoOverflow,
  checkQuiet,
  checkWorkersTable,
  hover,
  workerRows,
} from "./checks.mjs";

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
    assert.deepEqual(
      shown,
      Object.values(causes)
        .filter((copies) => copies > 0)
        .sort((a, b) => b - a),
    );
    for (const [id, rows, name] of [
      ["by-line", report.by_line, (row) => (row.line > 0 ? `${row.file}:${row.line}` : row.file)],
      ["by-type", report.by_type, (row) => row.type],
    ]) {
      if (rows.length === 0) continue;
      assert.equal(await page.getAttribute(`#${id} tbody tr >> nth=0 >> th`, "title"), name(rows[0]));
      assertBytes(await page.textContent(`#${id} tbody tr >> nth=0 >> td.number >> nth=0`), rows[0].bytes, id);
    }
    assert.deepEqual(
      await page.$$eval(".diagnosis h3", (all) => all.map((head) => head.textContent)),
      report.diagnoses.map((one) => one.summary),
    );
  });
});

test("real recording: remedies are the report's, in its order", { skip }, async () => {
  await withPage("remedies", {}, async (page) => {
    assert.deepEqual(
      await page.$$eval("#remedies tbody tr", (rows) =>
        rows.map((row) => [row.cells[0].textContent, row.cells[1].textContent.split(",")[0]]),
      ),
      report.remedies.map((one) => [one.action, one.saves]),
    );
  });
});

// Every row of every table, read back through the copy as CSV.
test("real recording: all rows of lines, types, native code, regions and workers are the report's", { skip }, async () => {
  await withPage("rows", {}, async (page) => {
    await page.evaluate(() => {
      Object.defineProperty(navigator, "clipboard", {
        value: {
          writeText: async (text) => {
            globalThis.copied = text;
          },
        },
      });
    });
    const copied = async (selector) => {
      await page.evaluate(() => {
        globalThis.copied = undefined;
      });
      await page.click(selector);
      await page.waitForFunction(() => globalThis.copied !== undefined);
      return (await page.evaluate(() => globalThis.copied))
        .split("\r\n")
        .slice(1, -1)
        .map((line) => line.split(",").slice(-3).map(Number));
    };
    for (const [id, rows] of [
      ["by-line", report.by_line],
      ["by-type", report.by_type],
      ["by-native", report.by_native],
    ]) {
      if (rows.length === 0) continue;
      assert.deepEqual(
        (await copied(`#${id} .copy-all`)).sort((a, b) => b[2] - a[2]),
        rows.map((row) => [row.copies, row.bytes, row.share]),
        id,
      );
    }
    const regions = report.by_region.map((row) => [row.copied_pages * 4096, row.pages * 4096, row.share]).sort((a, b) => b[2] - a[2]);
    if (regions.length > 0)
      assert.deepEqual(
        (await copied("#by-region .copy-all")).sort((a, b) => b[2] - a[2]),
        regions,
      );
    const workers = await copied("#workers .copy-all");
    assert.deepEqual(
      workers.map(([reuses, fills]) => [reuses, fills]).sort(),
      [report.parent, ...report.workers].map((row) => [row.reuses, row.zero_fills]).sort(),
    );
  });
});

test("real recording: the icicle holds all copies, and a worker's are the report's", { skip }, async () => {
  if (report.by_line.length === 0) return console.log("real.test.mjs: this recording has no stacks");
  const amount = async (page) => /Flame graph of ([\d.]+ \w+)/.exec(await page.getAttribute(".icicle-view", "aria-label"))[1];
  await withPage("icicle", {}, async (page) => {
    const whole = bytesShown(await amount(page));
    assert.ok(
      Math.abs(whole - report.totals.copied_bytes) <= 0.01 * report.totals.copied_bytes,
      `${whole} of ${report.totals.copied_bytes}`,
    );
    const worker = report.workers.reduce((most, row) => (row.copies > most.copies ? row : most));
    await page
      .locator("#workers .row-button", { hasText: String(worker.pid) })
      .first()
      .click();
    await page.waitForFunction((pid) => document.querySelector("#who .lead").textContent.includes(pid), String(worker.pid));
    const own = bytesShown(await amount(page));
    assert.ok(Math.abs(own - worker.copied_bytes) <= 0.01 * worker.copied_bytes + 2 ** 17, `${own} of ${worker.copied_bytes}`);
    assertBytes(await page.textContent("#by-line tbody:last-child td.number >> nth=0"), worker.by_line[0].bytes, "its first line");
  });
});

test("real recording: hovering shows values, marks are there, sorting works", { skip }, async () => {
  await withPage("hover", {}, async (page) => {
    const { rows } = await hover(page, "memory", 0.5);
    assert.ok(rows.some((row) => row.name === "sum" && bytesShown(row.value) > 0));
    assert.ok((await page.locator(".mark").count()) > 0, "a recording with workers has events");
    await page
      .locator("#workers thead th", { hasText: /^private/ })
      .locator("button")
      .press("Enter"); // a click may miss while the charts are still being laid out
    const shown = (await workerRows(page))
      .map((cells) => cells[5])
      .filter((text) => text !== "—")
      .map(bytesShown);
    assert.deepEqual(
      shown,
      [...shown].sort((a, b) => b - a),
    );
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
