// Owns the tests of the top of the page: verdict, forecast against the nearest limit, the first finding with its code sketch.
// Does not: test the sections below; page.test.mjs and why.test.mjs do.
import assert from "node:assert/strict";
import { test } from "node:test";
import { assertBytes, checkNoOverflow } from "./checks.mjs";
import { kHostile, makeNullPage, makePage } from "./synthetic.mjs";
import { makeStage } from "./stage.mjs";

const { withPage } = makeStage("header-");

const edges = (page, selector) =>
  page.$eval(selector, (part) => {
    const bar = part.parentElement.getBoundingClientRect();
    const box = part.getBoundingClientRect();
    return [(box.left - bar.left) / bar.width, (box.right - bar.left) / bar.width];
  });

for (const scheme of ["light", "dark"]) {
  test(`verdict, forecast and fix stand above the fold (${scheme})`, async () => {
    const data = makePage();
    await withPage(scheme, data, { scheme }, async (page) => {
      assert.equal(await page.textContent("#verdict"), data.verdict);
      const bottoms = await page.$$eval("#verdict, #forecast-section, .diagnosis >> nth=0", (all) =>
        all.map((one) => one.getBoundingClientRect().bottom),
      );
      for (const bottom of bottoms) assert.ok(bottom <= 900, `ends at ${bottom}`);
      assert.ok((await page.locator(".sketch").first().boundingBox()).y + 100 < 900);
    });
  });
}

test("the bar: what is used, where it will end, and the limit, in the report's figures", async () => {
  const data = makePage();
  const [limit] = data.report.forecast.limits;
  await withPage("bar", data, {}, async (page) => {
    assert.ok((await page.textContent(".forecast-words")).includes(data.report.forecast.sentence));
    assert.equal(await page.textContent(".forecast-words .pill"), "Forecast: will exceed a limit"); // its sentence has the time
    const values = await page.$$eval(".forecast-value", (all) => all.map((one) => one.textContent));
    assertBytes(values[0], limit.used, "used");
    const [low, high] = values[1].split(" to ");
    assertBytes(low, limit.peak.low, "low");
    assertBytes(high, limit.peak.high, "high");
    assertBytes(values[2], limit.limit, "limit");
    const whole = Math.max(limit.limit, limit.peak.high);
    assert.ok(Math.abs((await edges(page, ".forecast-used"))[1] - limit.used / whole) < 0.01);
    const range = await edges(page, ".forecast-range");
    assert.ok(Math.abs(range[0] - limit.peak.low / whole) < 0.01 && Math.abs(range[1] - limit.peak.high / whole) < 0.01);
    assert.match(await page.getAttribute(".forecast-bar", "aria-label"), /^used: .*, forecast: .*, limit cgroup-v1 \/job1: /);
  });
});

test("a forecast that a finding contradicts is not called safe, and has no height", async () => {
  const data = makePage();
  const { forecast } = data.report;
  Object.assign(forecast, { shape: null, verdict: "unknown", sentence: "grows, but too slowly or for too short a time to tell how far" });
  Object.assign(forecast.limits[0], { verdict: "unknown", peak: { low: forecast.limits[0].used, best: null, high: null } });
  await withPage("contradicted", data, {}, async (page) => {
    assert.equal(await page.textContent(".forecast-words"), forecast.sentence);
    assert.match(await page.getAttribute(".forecast-bar", "aria-label"), /, forecast: —, limit /);
    assert.equal(await page.locator(".forecast-range, .forecast-best").count(), 0);
  });
});

test("of a run that is over it is said what it came to, not what is to come", async () => {
  const data = makePage();
  Object.assign(data.report.forecast, { ended: true, verdict: "will-exceed", eta_limit_seconds: 0 });
  data.events_dropped = 7;
  await withPage("ended", data, {}, async (page) => {
    assert.equal(await page.textContent("#forecast-section .pill"), "A limit was met");
    assert.match(await page.getAttribute(".forecast-bar", "aria-label"), /^used at the end: .*, at most: /);
    await page.click("summary:has-text('events')");
    assert.match(await page.textContent("details:has(table.events) .note"), /^and 7 more; 7 of them are not in the page/);
  });
});

test("the headline is the tool's first sentence, whatever characters it has", async () => {
  const data = makePage();
  const sentence = "Reading Python objects duplicated 1.6 GiB; 79 % of it at train.py:36 in Reviews.__getitem__. Really: Yes.";
  data.report.headline = { diagnosis: "cow-refcount", sentence };
  data.verdict = `${sentence} 590.9 MiB private to 2 workers at the peak.`;
  await withPage("headline", data, {}, async (page) => {
    assert.equal(await page.textContent("#verdict"), data.verdict);
    assert.equal(await page.textContent("h1"), sentence);
    assert.equal(await page.textContent(".verdict-rest"), " 590.9 MiB private to 2 workers at the peak.");
  });
});

test("the tool's forecast is said once, though its verdict ends with it", async () => {
  const data = makePage();
  data.verdict = `3 workers copied 2.5 GiB. Reference counts of str. Forecast: ${data.report.forecast.sentence}.`;
  await withPage("once", data, {}, async (page) => {
    assert.equal(await page.textContent("#verdict"), "3 workers copied 2.5 GiB. Reference counts of str.");
    assert.equal((await page.textContent(".page-header")).split(data.report.forecast.sentence).length, 2);
  });
});

test("the sketch keeps its lines and is copied as it is; hostile code stays text", async () => {
  const data = makePage();
  await withPage("sketch", data, {}, async (page) => {
    assert.equal(await page.textContent(".sketch code"), data.report.diagnoses[0].sketch);
    await page.evaluate(() => {
      Object.defineProperty(navigator, "clipboard", {
        value: {
          writeText: async (text) => {
            globalThis.copied = text;
          },
        },
      });
    });
    await page.click(".copy-sketch");
    assert.equal(await page.evaluate(() => globalThis.copied), data.report.diagnoses[0].sketch);
  });
  data.report.diagnoses[0].sketch = kHostile.join("\n");
  data.report.forecast.sentence = kHostile[0];
  data.report.forecast.limits[0].name = kHostile.join(" ");
  for (const width of [1280, 390]) {
    await withPage(`hostile-${width}`, data, { width }, async (page) => {
      assert.equal(await page.evaluate(() => globalThis.pwned), undefined);
      assert.equal(await page.locator("main img, main svg, main script").count(), 0);
      assert.ok((await page.textContent(".sketch code")).includes(kHostile[1]));
      assert.doesNotMatch(await page.textContent(".sketch code"), /[\u202a-\u202e\u2066-\u2069\u0000\u0007]/);
      await checkNoOverflow(page);
    });
  }
});

test("no forecast: no bar, and no word of one", async () => {
  await withPage("none", makeNullPage(), {}, async (page) => assert.equal(await page.locator("#forecast-section").count(), 0));
});
