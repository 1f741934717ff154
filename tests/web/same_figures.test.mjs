// Owns the test that the text report, the JSON report, the page and the alert hook give the same figure for the same thing.
// COWPROF_PAGE, COWPROF_REPORT, COWPROF_TEXT and COWPROF_ALERTS name four views of one recording; without COWPROF_TEXT the tests are skipped.
// Does not: make a recording. Each view is parsed from what it shows.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { after, before, test } from "node:test";
import { startBrowser, visitPage } from "./browser.mjs";
import { assertBytes, checkLimitsTable, checkQuiet, checkWorkersTable } from "./checks.mjs";

const { COWPROF_PAGE: pagePath, COWPROF_REPORT: reportPath, COWPROF_TEXT: textPath, COWPROF_ALERTS: alertsPath } = process.env;
const skip = textPath ? false : "COWPROF_TEXT is not set: no text report of a real recording to test";
if (skip) console.log(`same_figures.test.mjs: skipped, ${skip}`);

const kAmount = String.raw`[\d.]+ (?:B|KiB|MiB|GiB|TiB)`;

let browser;
let report;
let text;
let lines;
before(async () => {
  if (skip) return;
  report = JSON.parse(readFileSync(reportPath, "utf8"));
  text = readFileSync(textPath, "utf8");
  lines = text.split("\n");
  browser = await startBrowser();
});
after(() => browser?.close());

async function withPage(name, body) {
  checkQuiet(await visitPage(browser, resolve(pagePath), `same-${name}`, {}, body));
}

// The lines below a heading, up to the next empty one.
function section(heading) {
  const start = lines.findIndex((line) => line.trim().startsWith(heading));
  assert.ok(start >= 0, `the text has "${heading}"`);
  return lines.slice(start + 1, lines.indexOf("", start));
}

test("the same verdict", { skip }, async () => {
  assert.ok(lines[0].startsWith(report.headline.sentence), lines[0]);
  assert.equal(report.diagnoses[0].summary, report.headline.sentence);
  await withPage("verdict", async (page) => assert.equal(await page.textContent("#verdict"), lines[0]));
});

test("the same figures of each process", { skip }, async () => {
  const row = new RegExp(String.raw`^  [a-z][\w ]*?\s+(\d+)\s+([\d,]+)\s+(${kAmount})\s+(${kAmount})\s+(${kAmount})\s+(${kAmount})  `);
  const shown = lines.map((line) => row.exec(line)).filter(Boolean);
  const processes = [report.parent, ...report.workers];
  assert.equal(shown.length, processes.length);
  for (const [, pid, copies, ...amounts] of shown) {
    const of = processes.find((one) => String(one.pid) === pid);
    assert.equal(Number(copies.replaceAll(",", "")), of.copies, pid);
    const expected = [of.copied_bytes, of.private_bytes, of.peak_private_bytes, of.still_shared_bytes];
    amounts.forEach((amount, i) => assertBytes(amount, expected[i], `process ${pid}, column ${i}`));
  }
  await withPage("processes", (page) => checkWorkersTable(page, report));
});

test("the same causes, in the sentence too", { skip }, async () => {
  const sum = (cause) => report.workers.reduce((total, worker) => total + worker.by_cause[cause], 0);
  const causes = new Map();
  for (const line of section("why the workers' pages were copied")) {
    const [, share, amount, cause] = new RegExp(String.raw`^ +([\d.]+) % +(${kAmount})  (\w+)$`).exec(line) ?? assert.fail(line);
    assertBytes(amount, 4096 * sum(cause), cause);
    const copies = report.workers.reduce((total, worker) => total + worker.copies, 0);
    assert.ok(Math.abs(Number(share) - (100 * sum(cause)) / copies) < 0.06, `${line}, of ${copies} copies`);
    causes.set(cause, amount);
  }
  assert.equal(report.headline.diagnosis, "cow-refcount");
  assert.ok(report.headline.sentence.includes(causes.get("refcount")), `${report.headline.sentence}: ${causes.get("refcount")}`);
  await withPage("causes", async (page) => {
    for (const pid of report.workers.map((worker) => worker.pid)) {
      const worker = report.workers.find((one) => one.pid === pid);
      await page
        .locator("#workers .row-button", { hasText: String(pid) })
        .first()
        .click();
      await page.waitForFunction((of) => document.querySelector("#who .lead").textContent.includes(of), String(pid));
      const shown = await page.$$eval(".cause-entry .cause-amount", (all) => all.map((one) => Number(one.title.replaceAll(/\D/g, ""))));
      const expected = Object.values(worker.by_cause).filter((copies) => copies > 0);
      assert.deepEqual(
        shown.sort((a, b) => b - a),
        expected.sort((a, b) => b - a),
        `worker ${pid}`,
      );
    }
  });
});

test("the same peak, and its parts", { skip }, async () => {
  const [, peak, workers] = new RegExp(String.raw`(${kAmount}) private to (\d+) workers? at the peak`).exec(lines[0]);
  assertBytes(peak, report.peak.bytes, "peak");
  assert.ok(Number(workers) >= 1 && Number(workers) <= report.workers.length);
  for (const [, amount, part] of lines[0].matchAll(new RegExp(String.raw`(${kAmount}) (copied|new)[,.]`, "g")))
    assertBytes(amount, report.peak.split[part], part);
});

test("the same limits", { skip }, async () => {
  const rows = section("limits").map((line) => line.trim());
  assert.equal(rows.length, report.limits.length);
  for (const limit of report.limits) {
    const row = rows.find((line) => line.startsWith(`${limit.kind} `)) ?? assert.fail(limit.kind);
    const [, used, peak] = /([\d.,]+(?: \w?i?B)?) of .*\(peak ([\d.,]+(?: \w?i?B)?)\)$/.exec(row) ?? assert.fail(row);
    if (limit.unit === "bytes") {
      assertBytes(used, limit.used, row);
      assertBytes(peak, limit.peak, row);
    } else {
      assert.deepEqual(
        [used, peak].map((count) => Number(count.replaceAll(",", ""))),
        [limit.used, limit.peak],
        row,
      );
    }
  }
  await withPage("limits", (page) => checkLimitsTable(page, report));
});

test("the same alerts", { skip }, async () => {
  const taken = readFileSync(alertsPath, "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
  assert.ok(taken.length >= 1, "there was an alert");
  assert.equal(taken.length, report.alerts.length);
  const listed = section("alerts");
  for (const [i, alert] of taken.entries()) {
    for (const key of ["t", "rule", "over", "kind", "name", "limit", "used", "text", "advice"])
      assert.equal(alert[key], report.alerts[i][key], key);
    assert.ok(listed[i].includes(alert.text), `${listed[i]}: ${alert.text}`);
    if (alert.over) continue;
    const [, percent, used, limit] = new RegExp(String.raw`(\d+) % full: (${kAmount}) of (${kAmount}) used`).exec(alert.text);
    assertBytes(used, alert.used, alert.text);
    assertBytes(limit, alert.limit, alert.text);
    assert.equal(Number(percent), Math.round((100 * alert.used) / alert.limit), alert.text);
  }
  await withPage("alerts", async (page) => {
    const events = await page.textContent('details.panel:has-text("events")');
    for (const alert of taken) assert.ok(events.includes(alert.text), alert.text);
  });
});
