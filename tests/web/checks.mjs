// Owns the checks of every good page, synthetic or real, against the report it was made from.
// Does not: open pages. Figures are read from what is shown, not from the page's code.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { paintedPixels } from "./browser.mjs";

const kUnits = { B: 1, KiB: 2 ** 10, MiB: 2 ** 20, GiB: 2 ** 30, TiB: 2 ** 40 };

export function bytesShown(text) {
  const [, value, unit] = /^([\d.]+) (B|KiB|MiB|GiB|TiB)$/.exec(text.trim()) ?? assert.fail(`not an amount of memory: "${text}"`);
  return Number(value) * kUnits[unit];
}

export function secondsShown(text) {
  return text.split(":").reduce((total, part) => total * 60 + Number(part), 0);
}

// The figure must be the report's, rounded to the one decimal shown.
export function assertBytes(shown, expected, what) {
  if (expected === null) return assert.equal(shown.trim(), "—", what);
  const unit = kUnits[shown.trim().split(" ").at(-1)];
  const difference = Math.abs(bytesShown(shown) - expected);
  return assert.ok(difference <= (unit === 1 ? 0.5 : 0.0501 * unit), `${what}: the page shows ${shown}, the report says ${expected}`);
}

export function assertCount(shown, expected, what) {
  assert.equal(shown.trim(), expected === null ? "—" : expected.toLocaleString("en-US"), what);
}

function exitWords(row) {
  if (row.exit === null) return row.ended_at === null ? "running" : "ended";
  if (row.exit.text) return row.exit.text;
  const cause = row.exit.cause ? ` (${row.exit.cause})` : "";
  return row.exit.kind === "signaled" ? `killed by ${row.exit.signal}${cause}` : `exit ${row.exit.code}${cause}`;
}

export function workerRows(page) {
  return page.$$eval("#workers tbody.workers tr", (rows) => rows.map((row) => [...row.cells].map((cell) => cell.textContent)));
}

function checkRow(cells, row) {
  const what = `worker ${row.pid}`;
  assert.equal(cells[0], String(row.pid), what);
  assert.equal(cells[1], row.role, what);
  assertCount(cells[2], row.index, `${what} index`);
  assertCount(cells[3], row.copies, `${what} copies`);
  assertBytes(cells[4], row.copied_bytes, `${what} copied`);
  assertBytes(cells[5], row.private_bytes, `${what} private`);
  assertBytes(cells[6], row.peak_private_bytes, `${what} peak`);
  assertBytes(cells[7], row.still_shared_bytes, `${what} still shared`);
  assertCount(cells[8], row.reuses, `${what} reuses`);
  assertCount(cells[9], row.zero_fills, `${what} zero-fills`);
  assert.equal(cells[10], exitWords(row), `${what} exit`);
}

export async function checkWorkersTable(page, report) {
  const rows = await workerRows(page);
  assert.equal(rows.length, report.workers.length, "one row for each worker of the report");
  for (const row of report.workers) {
    const cells = rows.find((one) => one[0] === String(row.pid) && (row.index === null || one[2] === row.index.toLocaleString("en-US")));
    assert.ok(cells, `worker ${row.pid} has a row`);
    checkRow(cells, row);
  }
}

export async function checkLimitsTable(page, report) {
  const rows = await page.$$eval("#limits tbody tr", (all) => all.map((row) => [...row.cells].map((cell) => cell.textContent.trim())));
  assert.equal(rows.length, report.limits.length, "one row for each limit of the report");
  for (const limit of report.limits) {
    const row = rows.find((cells) => cells[0] === `${limit.kind} ${limit.name}`);
    assert.ok(row, `the limit ${limit.kind} ${limit.name} is shown`);
    if (limit.limit === null) assert.equal(row[3], "no limit");
    else if (limit.unit === "bytes") assertBytes(row[3], limit.limit, `${limit.name} limit`);
    else assertCount(row[3], limit.limit, `${limit.name} limit`);
  }
}

export async function checkChartsPainted(page) {
  for (const strip of ["sum", "memory", "rate"]) {
    const { painted, colours } = await paintedPixels(page, `.strip.${strip} canvas`);
    assert.ok(painted > 1500 && colours > 3, `the ${strip} strip is drawn (${painted} pixels, ${colours} colours)`);
  }
}

// The tooltip of a strip: under "memory" and "sum" value and rate of each process, under "rate" rate and share of each cause.
export async function hover(page, strip, share) {
  const over = page.locator(`.strip.${strip} .u-over`);
  await over.scrollIntoViewIfNeeded();
  const box = await over.boundingBox();
  await page.mouse.move(box.x + box.width * share - 3, box.y + box.height / 2);
  await page.mouse.move(box.x + box.width * share, box.y + box.height / 2);
  await page.waitForSelector(".tooltip:not([hidden])");
  const time = await page.textContent(".tooltip .tip-time");
  const cells = await page.$$eval(".tooltip .tip-name, .tooltip .tip-value", (all) => all.map((cell) => cell.textContent));
  const rows = [];
  for (let i = 0; i < cells.length; i += 3) rows.push({ name: cells[i], value: cells[i + 1], more: cells[i + 2] });
  return { time, rows };
}

// What is drawn, in short: two pictures are the same if these are.
export async function canvasText(page, strip) {
  const url = await page.$eval(`.strip.${strip} canvas`, (canvas) => canvas.toDataURL());
  return createHash("sha256").update(url).digest("hex");
}

export async function settle(page) {
  await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));
}

export function checkQuiet(noted) {
  assert.deepEqual(noted, { errors: [], requests: [], violations: [] }, "no error, no request, no policy violation");
}

export async function checkNoOverflow(page) {
  const { scroll, client } = await page.evaluate(() => ({
    scroll: document.documentElement.scrollWidth,
    client: document.documentElement.clientWidth,
  }));
  assert.ok(scroll <= client, `the page is ${scroll} wide in a window of ${client}`);
}
