// Owns the tests of the page by what is seen, on made-up recordings that real ones can't be made to be.
// Called by: npm test in web/, after npm run build.
// Does not: test the tool; real.test.mjs takes a page of a real recording.
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { kOut, openPage, startBrowser, visitPage, writePage } from "./browser.mjs";
import {
  assertBytes, bytesShown, canvasText, checkChartsPainted, checkLimitsTable, checkNoOverflow, checkQuiet, checkWorkersTable, hover, secondsShown, settle, workerRows,
} from "./checks.mjs";
import { fillTemplate, kTemplate, makePage } from "./synthetic.mjs";

let browser;
before(async () => {
  assert.ok(existsSync(kTemplate), "web/dist/template.html is missing: run npm run build in web/ first");
  browser = await startBrowser();
});
after(() => browser?.close());

async function withPage(name, content, options, body) {
  checkQuiet(await visitPage(browser, writePage(name, fillTemplate(content)), name, options, body));
}

test("the template is small, has one placeholder, and a strict policy", () => {
  const html = readFileSync(kTemplate, "utf8");
  assert.ok(Buffer.byteLength(html) <= 300 * 1024);
  assert.equal(html.split("__COWPROF_DATA__").length, 2);
  assert.ok(html.includes('<script id="cowprof-data" type="text/plain">__COWPROF_DATA__</script>'));
  const [, policy] = /http-equiv="Content-Security-Policy" content="([^"]*)"/.exec(html);
  assert.match(policy, /^default-src 'none'; script-src 'sha256-[^']+'; style-src 'sha256-[^']+'; img-src data:/);
  assert.doesNotMatch(policy, /unsafe/);
});

test("three workers: verdict, tiles, tables and advice say what the report says", async () => {
  const data = makePage();
  await withPage("three-light", data, {}, async (page) => {
    assert.equal(await page.textContent("#verdict"), data.verdict);
    assertBytes(await page.textContent("#tile-copied .tile-value"), data.report.totals.copied_bytes, "copied");
    assertBytes(await page.textContent("#tile-private .tile-value"), Math.max(...data.totals.private_kib) * 1024, "peak");
    const ratio = Math.max(...data.report.limits.map((limit) => limit.ratio ?? 0));
    assert.equal(await page.textContent("#tile-limit .tile-value"), `${(ratio * 100).toFixed(0)} %`);
    assert.match(await page.textContent(".facts"), /every copy counted \(btf-tracepoints\)/);
    assert.equal(await page.locator(".warning").count(), 0, "nothing to warn of");
    await checkWorkersTable(page, data.report);
    await checkLimitsTable(page, data.report);
    await checkChartsPainted(page);
    for (const advice of data.report.diagnoses[0].advice) assert.ok((await page.textContent("#diagnoses")).includes(advice));
    await checkNoOverflow(page);
  });
});

test("hovering shows the values of that instant, in every strip", async () => {
  const data = makePage();
  const sums = data.totals.private_kib;
  await withPage("hover", data, {}, async (page) => {
    for (const [strip, share] of [["sum", 0.3], ["memory", 0.5], ["rate", 0.8]]) {
      const { time, rows } = await hover(page, strip, share);
      assertBytes(rows.find((row) => row.name === "sum").memory, sums[secondsShown(time)] * 1024, `sum at ${time}`);
      assert.ok(rows.some((row) => row.name === "worker 4200" && bytesShown(row.memory) > 0 && /^[\d,]+\/s$/.test(row.rate)));
    }
    await page.click('[data-measure="copies"]');
    const { time, rows } = await hover(page, "memory", 0.6);
    assertBytes(rows.find((row) => row.name === "sum").memory, data.totals.copies[secondsShown(time)] * 4096, "copied");
  });
});

test("a limit is drawn when it fits, and named when it is off the chart", async () => {
  await withPage("limits", makePage(), {}, async (page) => {
    const legend = await page.textContent(".legend");
    assert.ok(legend.includes("limit cgroup-v1 /job1"));
    assert.ok(!legend.includes("MemTotal") && !legend.includes("/dev/shm"));
    assert.match(await page.textContent(".timeline .note"), /The limit host MemTotal \(256.0 GiB\) is off the chart/);
  });
});

test("dragging zooms all strips, a double click resets", async () => {
  await withPage("zoom", makePage(), {}, async (page) => {
    const whole = await canvasText(page, "rate");
    const over = page.locator(".strip.sum .u-over");
    await over.scrollIntoViewIfNeeded();
    const box = await over.boundingBox();
    await page.mouse.move(box.x + box.width * 0.2, box.y + 40);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.3, box.y + 40, { steps: 4 });
    await page.mouse.up();
    await page.waitForSelector(".reset:not([hidden])");
    await settle(page);
    assert.notEqual(await canvasText(page, "rate"), whole, "the other strips zoom too");
    const at = secondsShown((await hover(page, "memory", 0.5)).time);
    assert.ok(Math.abs(at - 0.25 * 179) <= 2, `the middle is now at ${at} s`);
    await over.dblclick({ position: { x: 200, y: 40 } });
    await page.mouse.move(2, 2);
    await page.waitForSelector(".reset", { state: "hidden" });
    assert.ok(Math.abs(secondsShown((await hover(page, "memory", 0.5)).time) - 0.5 * 179) <= 2);
  });
});

test("the legend hides and shows a line", async () => {
  await withPage("legend", makePage(), {}, async (page) => {
    const entry = page.locator(".legend-entry", { hasText: "worker 4200" });
    await entry.click();
    assert.equal(await entry.getAttribute("aria-pressed"), "false");
    assert.ok(!(await hover(page, "memory", 0.5)).rows.some((row) => row.name === "worker 4200"));
    await entry.click();
    assert.ok((await hover(page, "memory", 0.5)).rows.some((row) => row.name === "worker 4200"));
  });
});

test("a click on a column head sorts, and says so", async () => {
  await withPage("sort", makePage({ workers: 9 }), {}, async (page) => {
    const head = page.locator("#workers thead th", { hasText: "copied" });
    const column = async () => (await workerRows(page)).map((cells) => bytesShown(cells[4]));
    const ordered = (values) => [...values].sort((a, b) => a - b);
    assert.equal(await head.getAttribute("aria-sort"), "descending", "whoever copied most stands on top");
    assert.deepEqual(await column(), ordered(await column()).reverse());
    await head.locator("button").click();
    assert.equal(await head.getAttribute("aria-sort"), "ascending");
    assert.deepEqual(await column(), ordered(await column()));
    await page.locator("#workers thead th", { hasText: "exit" }).locator("button").click();
    assert.equal(await head.getAttribute("aria-sort"), "none");
    assert.match((await workerRows(page))[0][10], /killed by/);
    assert.equal(await page.locator("#workers caption").count(), 1);
  });
});

test("the theme follows the system, and the button changes it", async () => {
  const background = (page) => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
  await withPage("three-dark", makePage(), { scheme: "dark" }, async (page) => {
    const [dark, drawn] = [await background(page), await canvasText(page, "memory")];
    await page.click(".theme-button");
    await settle(page);
    assert.notEqual(await background(page), dark);
    assert.notEqual(await canvasText(page, "memory"), drawn, "the charts change too");
    await page.click(".theme-button");
    assert.equal(await background(page), dark);
    await page.mouse.move(2, 2);
  });
});

test("events are marked, and hovering a mark tells what happened", async () => {
  await withPage("events", makePage(), {}, async (page) => {
    assert.ok(await page.locator('.mark[data-kind="process"]').count() >= 1);
    const oom = page.locator('.mark[data-kind="oom"]');
    await oom.hover();
    assert.ok(await oom.locator(".mark-tip").isVisible());
    assert.match(await oom.locator(".mark-tip").textContent(), /worker 4201 was killed by SIGKILL/);
    assert.equal(await page.locator('.mark[data-kind="signal"]').count(), 1);
    await page.click("summary >> nth=0");
    assert.match(await page.textContent("table.events"), /killedworker 4201 was killed by SIGKILL/);
  });
});

test("sixty-four workers: thin lines, the sum, and one that can be highlighted", async () => {
  const data = makePage({ workers: 64, samples: 600 });
  await withPage("many-light", data, {}, async (page) => {
    await checkWorkersTable(page, data.report);
    await checkChartsPainted(page);
    assert.ok(await page.locator(".legend-entry").count() < 8, "the legend does not list sixty-four lines");
    const plain = await canvasText(page, "memory");
    await page.selectOption(".chooser", { label: "worker 4230" });
    await settle(page);
    assert.notEqual(await canvasText(page, "memory"), plain);
    assert.ok((await hover(page, "rate", 0.5)).rows.some((row) => row.name === "worker 4230"));
  });
});

for (const [name, options] of [["three", { workers: 3 }], ["many", { workers: 64, samples: 600 }]]) {
  test(`390 pixels wide, ${name}: nothing runs off the side`, async () => {
    await withPage(`${name}-390`, makePage(options), { width: 390, height: 844, scheme: name === "many" ? "dark" : "light" }, async (page) => {
      await checkNoOverflow(page);
      await checkChartsPainted(page);
    });
  });
}

test("on paper: light, whole, without buttons", async () => {
  await withPage("print", makePage({ workers: 20 }), { scheme: "dark" }, async (page) => {
    await page.emulateMedia({ media: "print" });
    assert.ok(!(await page.locator(".theme-button").isVisible()));
    assert.ok((await page.pdf({ path: `${kOut}print.pdf` })).length > 10000);
  });
});

// The bounds asked of the page are 2 s, 150 ms and 150 MB; here the clock's are doubled, since other work may share the cores.
test("a million samples: shown, hovered and zoomed without a wait", async (context) => {
  const opened = await openPage(browser, writePage("million", fillTemplate(makePage({ workers: 64, samples: 15625 }))));
  const { page } = opened;
  await settle(page);
  const shown = await page.evaluate(() => performance.now());
  await page.evaluate(() => {
    globalThis.waits = [0];
    new PerformanceObserver((list) => list.getEntries().forEach((entry) => globalThis.waits.push(entry.duration))).observe({ type: "longtask" });
  });
  await hover(page, "memory", 0.4);
  const box = await page.locator(".strip.sum .u-over").boundingBox();
  await page.mouse.move(box.x + 200, box.y + 40);
  await page.mouse.down();
  await page.mouse.move(box.x + 600, box.y + 40, { steps: 3 });
  await page.mouse.up();
  await page.waitForSelector(".reset:not([hidden])");
  await settle(page);
  const wait = await page.evaluate(() => Math.max(...globalThis.waits));
  const heap = await page.evaluate(() => performance.memory.usedJSHeapSize / 1e6);
  context.diagnostic(`shown after ${shown.toFixed(0)} ms, longest wait ${wait.toFixed(0)} ms, heap ${heap.toFixed(0)} MB`);
  assert.ok(shown <= 4000 && wait <= 300 && heap <= 150);
  checkQuiet(opened.noted);
  await opened.close();
});
