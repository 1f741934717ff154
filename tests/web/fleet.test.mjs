// Owns the tests of the page of a job: a really recorded one of 64 ranks against its report (COWPROF_FLEET names its folder; without
// it those are skipped), 512 made ones, hostile names, and the section with the ranks of a launcher.
// Does not: make a recording; fleet.py does.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { test } from "node:test";
import { paintedPixels } from "./browser.mjs";
import { assertBytes, checkNoOverflow, settle } from "./checks.mjs";
import { makeFleet } from "./made_fleet.mjs";
import { loadSource } from "./source.mjs";
import { makeStage } from "./stage.mjs";
import { kHostile, makePage } from "./synthetic.mjs";

const { COWPROF_FLEET: folder } = process.env;
const skip = folder ? false : "COWPROF_FLEET is not set: no page of a recorded job to test";
if (skip) console.log(`fleet.test.mjs: skipped, ${skip}`);

const { withPage, visit } = makeStage();

const rowsOf = (page, id = "ranks-table") =>
  page.$$eval(`.${id} tbody:last-of-type tr`, (all) => all.map((row) => [...row.cells].map((cell) => cell.textContent)));
const namesOf = async (page) => (await rowsOf(page)).map(([name]) => /^(?:local )?rank \d+|^\S+/.exec(name)[0]);
const search = async (page, text) => {
  await page.fill("#ranks .search-box", text);
  await settle(page);
};

test("64 recorded ranks: sentence, rows, deaths and sums are the report's; the chart is painted", { skip }, async () => {
  const report = JSON.parse(readFileSync(`${folder}.report.json`, "utf8"));
  assert.equal(report.rows.length, 64);
  await visit(resolve(`${folder}.html`), "fleet-real", {}, async (page) => {
    await settle(page);
    assert.equal(await page.textContent("#verdict"), report.sentence);
    assertBytes(await page.textContent("#tile-copied .tile-value"), report.sums.copied_bytes, "copied");
    assertBytes(await page.textContent("#tile-private .tile-value"), report.sums.peak_bytes, "peaks");
    const rows = await rowsOf(page);
    assert.equal(rows.length, 64);
    report.rows.forEach((row, i) => {
      assert.ok(rows[i][0].startsWith(`rank ${row.rank}cowprof view `), rows[i][0]);
      assert.deepEqual(rows[i].slice(1, 3), [row.host, String(row.workers_at_once)]);
      assertBytes(rows[i][3], row.copied_bytes, "copied");
      assertBytes(rows[i][4], row.peak.bytes, "peak");
      assert.deepEqual(rows[i].slice(5), [
        row.forecast.outlook,
        row.headline.diagnosis,
        row.deaths.length === 0 ? "—" : String(row.deaths.length),
      ]);
    });
    const deaths = await rowsOf(page, "deaths-table");
    assert.equal(deaths.length, 4, "two workers, and then their ranks");
    assert.deepEqual(
      deaths.map((cells) => cells.slice(3)),
      report.deaths.map((death) => [death.process, death.text]),
    );
    assert.deepEqual(
      deaths.map((cells) => cells[1]),
      report.deaths.map((death) => death.wall.slice(11, 23)),
    );
    const { painted, colours } = await paintedPixels(page, ".fleet-plot canvas");
    assert.ok(painted > 5000 && colours > 5, `${painted} pixels, ${colours} colours`);
  });
});

test("64 recorded ranks: no wider than the window, in both themes", { skip }, async () => {
  for (const [width, scheme] of [
    [390, "dark"],
    [390, "light"],
    [1280, "dark"],
  ]) {
    await visit(resolve(`${folder}.html`), `fleet-real-${width}-${scheme}`, { width, scheme }, async (page) => {
      await page.click("#deaths .row-button >> nth=0");
      await settle(page);
      await checkNoOverflow(page);
    });
  }
});

test("a rank's filter, its line and its details, by keys", async () => {
  await withPage("fleet-keys", makeFleet(64), {}, async (page) => {
    await search(page, "3");
    assert.deepEqual(await namesOf(page), ["rank 3"], "a number is a rank, not a part of 13");
    await search(page, "0-2, 12");
    assert.deepEqual(await namesOf(page), ["rank 0", "rank 1", "rank 2", "rank 12"]);
    assert.equal(await page.textContent("#ranks .filter-count"), "4 of 64 rows");
    assert.equal(await page.locator(".fleet-legend li").count(), 4, "few lines have a colour each");
    await search(page, "node-7");
    assert.deepEqual(
      await namesOf(page),
      [56, 57, 58, 59, 60, 61, 62, 63].map((rank) => `rank ${rank}`),
    );
    await search(page, "nobody");
    assert.match(await page.textContent("#ranks"), /No rank to draw/);
    await search(page, "");
    await page.focus('.ranks-table .row-button:text-is("rank 7")');
    await page.keyboard.press("Enter");
    await settle(page);
    assert.equal(await page.evaluate(() => document.activeElement.textContent), "rank 7", "the focus stays");
    assert.equal(await page.getAttribute(".ranks-table .row-button:focus", "aria-pressed"), "true");
    assert.match(await page.textContent(".rank-detail"), /rank 7 on node-0.*Reading copied\..*train\.py:12 \(read\), dict/s);
    assert.match(await page.textContent(".rank-detail"), /worker 0 \(7\) killed/);
    assert.equal(await page.textContent(".fleet-legend li >> nth=0"), "rank 7 on node-0");
    await page.locator(".rank-detail .toggle").focus();
    await page.keyboard.press("Enter");
    assert.equal(await page.locator(".rank-detail").count(), 0);
    const over = await page.locator(".fleet-plot .u-over").boundingBox();
    await page.locator(".fleet-plot .u-over").click({ position: { x: over.width / 2, y: over.height / 2 } });
    const shown = /UTC: (rank \d+ on node-\d+) [\d.]+ MiB$/.exec(await page.textContent(".compare-reading"));
    assert.equal(shown[1], await page.textContent(".rank-detail h3"), "a click chooses the rank that is named");
  });
});

test("deaths of several days have a date, and are sorted by time", async () => {
  const made = makeFleet(2);
  const death = (row, wall) => ({ row, wall, t: 1, process: `worker ${row}`, text: "killed by SIGKILL" });
  made.fleet.deaths = [death(0, "2026-11-25T23:00:00.000Z"), death(1, "2026-11-26T08:00:00.000Z")];
  await withPage("fleet-days", made, {}, async (page) => {
    const times = async () => (await rowsOf(page, "deaths-table")).map((cells) => cells[1]);
    const days = ["2026-11-25 23:00:00.000", "2026-11-26 08:00:00.000"];
    assert.deepEqual(await times(), days);
    const head = page.locator(".deaths-table thead button", { hasText: "time (UTC)" });
    await head.click();
    assert.deepEqual(await times(), days);
    await head.click();
    assert.deepEqual(await times(), [...days].reverse());
  });
});

test("a job of several days: the chart and a rank's details have dates", async () => {
  const made = makeFleet(2);
  for (const row of made.fleet.rows) row.duration_seconds = 52 * 3600;
  for (const curve of made.curves) curve.times_ms = curve.times_ms.map((_, i) => (i * 52 * 3600_000) / 512);
  made.fleet.rows[0].deaths = [
    { t: 150_000, wall: "2026-11-27T02:40:00.000Z", boot_seconds: 1, process: "worker 0 (7)", text: "killed by SIGKILL" },
  ];
  await withPage("fleet-long", made, {}, async (page) => {
    await page.click('.ranks-table .row-button:text-is("rank 0")');
    await settle(page);
    const detail = await page.textContent(".rank-detail");
    assert.match(detail, /2026-11-25 09:00:00 UTC, 52 h 00 min/);
    assert.match(detail, /2026-11-27 02:40:00\.000 UTC: worker 0 \(7\) killed by SIGKILL/);
    assert.match(await page.getAttribute(".fleet-plot", "aria-label"), /from 2026-11-25 09:00:00 to 2026-11-27 1\d:\d\d:\d\d UTC/);
    const over = await page.locator(".fleet-plot .u-over").boundingBox();
    await page.locator(".fleet-plot .u-over").hover({ position: { x: over.width / 2, y: over.height / 2 } });
    assert.match(await page.textContent(".compare-reading"), /^2026-11-26 1\d:\d\d:\d\d\.\d UTC: rank 0/);
  });
});

test("a launcher's death is first in the list, and in the details of its ranks", async () => {
  const made = makeFleet(2);
  const wall = "2026-11-25T09:00:30.000Z";
  const death = { t: 30, wall, boot_seconds: 1, process: "launcher (42)", text: "killed by SIGKILL", launcher: true, with_launcher: false };
  for (const row of made.fleet.rows) row.launcher_deaths = [death];
  made.fleet.deaths = [{ ...death, row: 0 }];
  await withPage("fleet-launcher", made, {}, async (page) => {
    assert.deepEqual(await rowsOf(page, "deaths-table"), [
      ["1", "09:00:30.000", "launcher of rank 0", "launcher (42)", "killed by SIGKILL"],
    ]);
    assert.match(await page.textContent("#tile-deaths"), /11 launcher$/);
    assert.match(await page.textContent(".fleet-legend"), /┊a launcher ended badly$/);
    const dashes = await page.locator(".fleet-plot canvas").evaluate((canvas) => {
      const { data, width, height } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      const reds = new Uint32Array(width);
      for (let i = 0; i < data.length; i += 4) if (data[i + 3] > 200 && data[i] > 1.8 * data[i + 2]) reds[(i / 4) % width] += 1;
      return Math.max(...reds) / height;
    });
    assert.ok(dashes > 0.3 && dashes < 0.8, `a dashed line from top to bottom: ${dashes} of the height`);
    await page.click('.ranks-table .row-button:text-is("rank 1")');
    assert.match(await page.textContent(".rank-detail"), /launcher \(42\) killed by SIGKILL/);
    await search(page, "SIGKILL");
    assert.equal((await namesOf(page)).length, 2);
  });
});

test("columns sort: most copied first, the worst forecast first, unknown last", async () => {
  await withPage("fleet-sorted", makeFleet(20), {}, async (page) => {
    await page.click('.ranks-table .sort:text-is("copied")');
    const copied = (await rowsOf(page)).map((cells) => cells[3]);
    assert.deepEqual([copied[0], copied.at(-1)], ["109.0 MiB", "—"]);
    await page.click('.ranks-table .sort:text-is("forecast")');
    assert.equal((await rowsOf(page))[0][5], "will-exceed");
    await page.click('.ranks-table .sort:text-is("died")');
    assert.deepEqual((await namesOf(page))[0], "rank 7");
  });
});

test("512 ranks are shown within seconds, a hundred rows at first", async () => {
  await withPage("fleet-512", makeFleet(512), {}, async (page) => {
    await settle(page);
    assert.equal((await rowsOf(page)).length, 100);
    const took = await page.evaluate(async () => {
      const began = performance.now();
      document.querySelector(".ranks-table .row-button").click();
      await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
      return performance.now() - began;
    });
    console.log(`512 ranks: ${took.toFixed(0)} ms to choose one`);
    assert.ok(took < 3000, `${took} ms`);
    await checkNoOverflow(page);
  });
});

test("hostile names of files, hosts, jobs and findings are text; a copied command names the file", async () => {
  const { shellQuote } = await loadSource("core/shell_quote.ts");
  const names = [
    ...kHostile.slice(0, 3),
    "\u202egnp.exe\u2066 \u0007 name",
    "-rf $(id) `id` !x",
    "it's\n\\ü\u{1f600}.json",
    "a'b",
    "~/x",
    "a*b",
  ];
  for (const name of [...names, "plain/run-1.json"]) {
    const word = shellQuote(name);
    assert.doesNotMatch(word, /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u);
    const named = execFileSync("bash", ["-c", `printf %s ${word}`], {
      encoding: "utf8",
      stdio: ["ignore", "pipe", "pipe"],
      env: { LC_ALL: "C.UTF-8", PATH: process.env.PATH },
    });
    assert.equal(named, name.startsWith("-") ? `./${name}` : name);
  }
  assert.equal(shellQuote("bytes\ufffd"), null);
  for (const width of [1280, 390]) {
    await withPage(`fleet-hostile-${width}`, makeFleet(12, [...names, kHostile.at(-1)]), { width }, async (page) => {
      await page.click(".ranks-table .row-button >> nth=1");
      await settle(page);
      assert.equal(await page.evaluate(() => globalThis.pwned), undefined);
      assert.equal(await page.locator("main img, main svg, main script, main iframe, main [onerror], main [onload]").count(), 0);
      assert.ok((await page.textContent("#fleet-notes")).includes(kHostile[0]), "they are there, as text");
      assert.doesNotMatch(await page.textContent("main"), /[\u202a-\u202e\u2066-\u2069\u0000\u0007]/);
      await checkNoOverflow(page);
    });
  }
});

test("without rows, curves or types that fit, there is a page", async () => {
  for (const broken of [
    { schema: "cowprof.fleet-page/1" },
    {
      schema: "cowprof.fleet-page/1",
      fleet: { rows: [null, 7, { peak: "x", deaths: [3], started: "never" }], deaths: [{ row: 99 }, { row: 1 }] },
      curves: [7],
    },
  ])
    await withPage("fleet-broken", broken, {}, async (page) => {
      await settle(page);
      assert.equal(await page.textContent("#verdict"), "These recordings have no verdict.");
    });
});

test("the page of a launcher has a section with its ranks; that of another program has none", async () => {
  const launcher = makePage();
  launcher.report.ranks = makeFleet(3).fleet.rows;
  await withPage("fleet-launcher", launcher, {}, async (page) => {
    const rows = await rowsOf(page);
    assert.deepEqual(
      rows.map(([name]) => name),
      ["rank 0", "rank 1", "rank 2"],
    );
    assertBytes(rows[0][3], launcher.report.ranks[0].copied_bytes, "copied");
    await checkNoOverflow(page);
  });
  await withPage("fleet-no-launcher", makePage(), {}, async (page) => assert.ok(!(await page.locator("#ranks").isVisible())));
});
