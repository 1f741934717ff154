// Owns the tests of the page by what is visible, on synthetic recordings of cases that real ones can't be made to show.
// Does not: test the tool; real.test.mjs uses a page of a real recording.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { kOut } from "./browser.mjs";
import {
  assertBytes,
  bytesShown,
  canvasText,
  checkChartsPainted,
  checkLimitsTable,
  checkNoOverflow,
  checkWorkersTable,
  settle,
  workerRows,
} from "./checks.mjs";
import { kTemplate, makePage } from "./synthetic.mjs";
import { makeStage } from "./stage.mjs";

const { withPage } = makeStage();

test("the template is small, has one placeholder, and a strict policy", () => {
  const html = readFileSync(kTemplate, "utf8");
  assert.ok(Buffer.byteLength(html) <= 300 * 1024);
  assert.equal(html.split("__COWPROF_DATA__").length, 2);
  assert.ok(html.includes('<script id="cowprof-data" type="text/plain">__COWPROF_DATA__</script>'));
  const [, policy] = /http-equiv="Content-Security-Policy" content="([^"]*)"/.exec(html);
  assert.match(policy, /^default-src 'none'; script-src 'sha256-[^']+'; style-src 'sha256-[^']+'; img-src data:/);
  assert.doesNotMatch(policy, /unsafe/);
});

test("after the end, the nearest limit is the one whose peak filled it most, as in the verdict", async () => {
  const data = makePage();
  const bytes = (kind, name, limit, used, peak) => ({ kind, name, unit: "bytes", limit, used, peak, ratio: used / limit });
  data.report.limits = [bytes("host", "MemTotal+SwapTotal", 1000, 130, 140), bytes("cgroup-v1", "/job", 100, 12, 100)];
  data.report.nearest_limit = 0;
  for (const [ended, value, detail] of [
    [true, "100 %", "cgroup-v1 /job, at the peak; 12 % at "],
    [false, "13 %", "host MemTotal+SwapTotal, as of "],
  ]) {
    data.report.forecast = { ...data.report.forecast, ended, limits: [{ kind: "cgroup-v1", name: "/job" }], nearest_limit: 0 };
    await withPage(`nearest-${ended}`, data, {}, async (page) => {
      assert.equal(await page.textContent("#tile-limit .tile-value"), value);
      assert.ok((await page.textContent("#tile-limit")).includes(detail));
      const shares = await page.$$eval("#limits .ratio", (all) => all.map((cell) => [cell.textContent, cell.classList.contains("bad")]));
      const expected = ended
        ? [
            ["100 %", true],
            ["14 %", false],
          ]
        : [
            ["13 %", false],
            ["12 %", false],
          ];
      assert.deepEqual(shares, expected, "and so does the table");
    });
  }
});

test("a limit that has changed since: how near the program came is of the limit of that moment", async () => {
  const data = makePage();
  const bytes = (name, limit, peak, peak_ratio) => ({
    ...{ kind: "cgroup-v2", name, unit: "bytes", limit, used: 0, peak },
    ...{ ratio: 0, peak_ratio },
  });
  data.report.limits = [bytes("/job", 2 ** 32, 2 ** 31, 0.98), bytes("/job/step", 2 ** 31, 1.5 * 2 ** 30, 0.75)];
  data.report.forecast = { ...data.report.forecast, ended: true };
  await withPage("changed-limit", data, {}, async (page) => {
    assert.equal(await page.textContent("#tile-limit .tile-value"), "98 %");
    assert.ok((await page.textContent("#tile-limit")).includes("of its limit then, now 4.0 GiB: cgroup-v2 /job, at the peak; "));
    assert.equal(await page.textContent("#limits .ratio >> nth=0"), "98 %");
  });
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
    assert.equal(await page.textContent("#diagnoses .advice h4"), "What to do, saves about 800.0 MiB to 1000.0 MiB");
    await checkNoOverflow(page);
  });
});

test("workers: how many at once, how many in all, and what is not listed", async () => {
  const data = makePage();
  data.report.worker_slots = { configured: 2, living_at_once: 2, started: 40_003 };
  data.report.unlisted = { processes: 40_000, copies: 256, copied_bytes: 2 ** 20, by_cause: {} };
  await withPage("slots", data, {}, async (page) => {
    assert.match(await page.textContent(".facts"), /workers2 at once, 40,003 started/);
    assert.equal(
      await page.textContent("#workers > .note"),
      "40,000 more processes that have ended are not listed, and the flame graph lacks them. Together they copied 1.0 MiB.",
    );
  });
  await withPage("slots-few", makePage(), {}, async (page) => {
    assert.match(await page.textContent(".facts"), /workers3(?! at once)/);
    assert.equal(await page.textContent("#workers > .note"), "");
  });
});

test("start methods: the sentence and what was judged, why nothing was, or no section", async () => {
  const row = { method: "spawn", root: "DataLoader.dataset", why_unknown: null, failures: [], unknowns: [], at_seconds: 3 };
  const unjudged = { ...row, root: null, sentence: null };
  for (const [name, of, words] of [
    ["judged", { ...row, sentence: "spawn would send 3.0 MiB" }, "Spawn would send 3.0 MiB. Judged: DataLoader.dataset."],
    ["too-old", { ...unjudged, at_seconds: null, why_unknown: "this is 3.7" }, "Not judged: this is 3.7."],
    ["nothing", { ...unjudged, why_unknown: "no DataLoader was found" }, null],
  ]) {
    const data = makePage();
    data.report.start_methods = [of];
    await withPage(`start-${name}`, data, {}, async (page) => {
      assert.equal(await page.locator("#start-methods").isVisible(), words !== null);
      if (words !== null) assert.equal(await page.textContent("#start-methods .lead"), words);
    });
  }
});

test("the tile's peak is no lower than the verdict's, and of every sample", async () => {
  const kept = Math.max(...makePage().totals.private_kib);
  for (const [peak_private_kib, workers, shown, words] of [
    [kept + 2048, 0, kept + 2048, "peak of all processes, parent included; "],
    [kept, (kept + 4096) * 1024, kept + 4096, "peak of the workers alone; "],
  ]) {
    const data = makePage();
    Object.assign(data.totals, { peak_private_kib });
    data.report.totals.peak_workers_private_bytes = workers;
    await withPage(`peak-${shown}`, data, {}, async (page) => {
      assertBytes(await page.textContent("#tile-private .tile-value"), shown * 1024, "peak");
      assert.ok((await page.textContent("#tile-private")).includes(words));
    });
  }
});

test('a saving that may be nothing is "at most", as in the report', async () => {
  const data = makePage();
  data.report.diagnoses[0].saves_bytes = { low: 0, best: 2 ** 20, high: 2 ** 21 };
  await withPage("at-most", data, {}, async (page) =>
    assert.equal(await page.textContent("#diagnoses .advice h4"), "What to do, saves at most 2.0 MiB"),
  );
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

for (const [name, options] of [
  ["three", { workers: 3 }],
  ["many", { workers: 64, samples: 600 }],
]) {
  test(`390 pixels wide, ${name}: nothing runs off the side`, async () => {
    await withPage(
      `${name}-390`,
      makePage(options),
      { width: 390, height: 844, scheme: name === "many" ? "dark" : "light" },
      async (page) => {
        await checkNoOverflow(page);
        await checkChartsPainted(page);
      },
    );
  });
}

test("on paper: light, whole, without buttons", async () => {
  await withPage("print", makePage({ workers: 20 }), { scheme: "dark" }, async (page) => {
    await page.emulateMedia({ media: "print" });
    assert.ok(!(await page.locator(".theme-button").isVisible()));
    assert.ok((await page.pdf({ path: `${kOut}print.pdf` })).length > 10000);
  });
});
