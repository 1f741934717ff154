// Owns the tests of the comparison: two recordings in one page, a second page by choice and by drop, and what is refused.
// Does not: test the page of one recording, except that no comparison shows in it.
import assert from "node:assert/strict";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { paintedPixels } from "./browser.mjs";
import { makeBlamedPage } from "./blamed.mjs";
import { assertBytes, checkNoOverflow, settle } from "./checks.mjs";
import { makeFleet } from "./made_fleet.mjs";
import { loadSource } from "./source.mjs";
import { fillTemplate, kHostile, makeEmptyPage, makePage, pack } from "./synthetic.mjs";
import { makeStage } from "./stage.mjs";

const { withPage } = makeStage();

const kGib = 2 ** 30;

// The same run after the mend: a tenth of the copies, lines two further down, one type gone.
function makeMended() {
  const page = makeBlamedPage();
  const { report } = page;
  for (const row of [...report.by_line, ...report.by_type])
    Object.assign(row, { copies: Math.round(row.copies / 10), bytes: Math.round(row.copies / 10) * 4096 });
  report.by_line.forEach((row) => {
    row.line += 2;
  });
  report.by_type = report.by_type.filter((row) => row.type !== "tuple");
  report.totals.copied_bytes = Math.round(report.totals.copied_bytes / 10);
  report.totals.by_cause = Object.fromEntries(
    Object.entries(report.totals.by_cause).map(([cause, copies]) => [cause, Math.round(copies / 10)]),
  );
  page.totals.workers_private_kib = page.totals.workers_private_kib.map((kib) => Math.round(kib / 5));
  return page;
}

function makePair() {
  const [a, b] = [makeBlamedPage(), makeMended()];
  for (const { report } of [a, b]) report.totals.workers_copied_bytes = Math.round(0.9 * report.totals.copied_bytes);
  a.report.totals.peak_workers_private_bytes = 3.6 * kGib;
  b.report.totals.peak_workers_private_bytes = 0.5 * kGib;
  return [a, b];
}

const rowsOf = (page, id) =>
  page.$$eval(`#${id} tbody tr`, (all) =>
    all.map((row) => ({ name: row.querySelector("th").title, cells: [...row.cells].slice(1).map((cell) => cell.textContent) })),
  );
const plain = (text) => text.replaceAll("\u00a0", " ");
const saving = async (page) => plain(await page.textContent("#saving"));

test("two recordings in one page: the saving in one sentence, curves on shared axes, differences by name", async () => {
  const [a, b] = makePair();
  await withPage("compare-two", [a, b], {}, async (page) => {
    await settle(page);
    const less = (a.report.totals.workers_copied_bytes - b.report.totals.workers_copied_bytes) / kGib;
    assert.equal(
      await saving(page),
      `B's workers copy ${less.toFixed(1)} GiB less than A's (−90 %), and they peak 3.1 GiB lower (−86 %), over the same 3 min 00 s.`,
    );
    assert.equal(await page.locator(".doubts li").count(), 0, "the runs are alike");
    const { painted, colours } = await paintedPixels(page, ".compare-plot canvas");
    assert.ok(painted > 1000 && colours > 5, `${painted} pixels, ${colours} colours`);
    const [first] = await rowsOf(page, "compare-lines");
    assert.equal(first.name, a.report.by_line[0].file);
    assert.deepEqual(first.cells.slice(0, 2), ["Dataset.method_0", "10 → 12"], "a function that moved is the same function");
    assertBytes(first.cells[2], a.report.by_line[0].bytes, "A");
    assertBytes(first.cells[3], b.report.by_line[0].bytes, "B");
    assert.match(first.cells[4], /^−[\d.]+ [KMG]iB$/);
    assert.equal(first.cells[5], "−90 %");
    const tuple = (await rowsOf(page, "compare-types")).find((row) => row.name === "tuple");
    assert.deepEqual(
      tuple.cells.slice(1).map((text) => text.replace(/[\d.]+ MiB/, "x")),
      ["none", "−x", "−100 %"],
    );
    assert.equal((await rowsOf(page, "compare-causes"))[0].cells.at(-1), "−90 %");
    assertBytes(await page.textContent("#tile-copied .tile-value"), a.report.totals.copied_bytes, "the rest of the page is A");
    await page.locator(".compare-plot .u-over").hover({ position: { x: 500, y: 80 } });
    const [, shownA, shownB] = /A ([\d.]+ [KMG]iB), B ([\d.]+ [KMG]iB)$/.exec(await page.textContent(".compare-reading"));
    assert.ok(parseFloat(shownA) > 0 && shownA !== shownB);
    await page.locator(".compare-legend .switch-entry", { hasText: "Each worker" }).click();
    await settle(page);
    assert.match(await page.textContent(".compare-reading"), /0:00 is the start of each run's first worker/);
  });
});

test("swapped and removed by keys; then nothing of it is left", async () => {
  const [a, b] = makePair();
  await withPage("compare-keys", [a, b], {}, async (page) => {
    await page.focus(".compare-tools .toggle >> nth=0");
    await page.keyboard.press("Enter");
    assert.match(await saving(page), /^B's workers copy [\d.]+ GiB more than A's \(\+900 %\), and they peak 3\.1 GiB higher \(\+620 %\)/);
    assert.match(await page.textContent("#compare"), /Everything below shows B/);
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    assert.ok(!(await page.locator("#compare").isVisible()));
    assert.equal(
      await page.evaluate(() => document.activeElement.textContent),
      "Compare with…",
      "the focus is where one would begin again",
    );
  });
});

test("what differs no more than from run to run is alike, as in `cowprof diff`; what is not known is not 0", async () => {
  const { parsePayload } = await loadSource("data/decode.ts");
  const { doubtsInWords, savingInWords } = await loadSource("views/compare/words.ts");
  const page = (totals, run = {}) => {
    const data = makePage();
    Object.assign(data.report.totals, totals);
    Object.assign(data.run, run);
    return parsePayload(pack(data));
  };
  const words = async (...totals) => plain(savingInWords(...(await Promise.all(totals.map((one) => page(one))))));
  const of = (workers_copied_bytes, peak_workers_private_bytes) => ({ workers_copied_bytes, peak_workers_private_bytes });
  assert.match(await words(of(kGib, kGib), of(1.009 * kGib, 1.04 * kGib)), /^B's workers copy as much as A's .*, and they peak as high/);
  assert.match(await words(of(kGib, kGib), of(1.02 * kGib, 1.06 * kGib)), /^B's workers copy [\d.]+ MiB more than A's .* higher/);
  assert.match(await words(of(0, 1), of(3 * 128 * 4096, 1)), /^B's workers copy as much/, "128 pages for each of three workers");
  assert.match(await words(of(0, 1), of(3 * 128 * 4096 + 1, 1)), /^B's workers copy 1\.5 MiB more/);
  assert.doesNotMatch(await words(of(kGib, 0), of(kGib, 0)), /peak/);
  const [running, over] = [await page({}, { complete: false, live: true }), await page({})];
  assert.deepEqual(doubtsInWords(running, over), []);
  // Reports of older tools do not sum the workers.
  const copied = over.report.workers.reduce((sum, worker) => sum + worker.copiedBytes, 0);
  assert.equal(over.report.workersCopiedBytes, copied);
});

test("what makes the two runs unlike is said", async () => {
  const [a, b] = [makeBlamedPage(), makePage({ workers: 5, samples: 60 })];
  b.report.exactness.copies = "sampled";
  b.run.complete = false;
  b.report.losses = { events_dropped: 7, processes_dropped: 2, regions_dropped: 1, maps_full: 3 };
  await withPage("compare-unlike", [a, b], {}, async (page) => {
    assert.doesNotMatch(await saving(page), /over the same/);
    const doubts = plain((await page.$$eval(".doubts li", (all) => all.map((one) => one.textContent))).join("\n"));
    assert.match(doubts, /A was recorded for 3 min 00 s, B for 60\.0 s/);
    assert.match(doubts, /A had 3 workers in all, B 5/);
    assert.match(doubts, /A: every copy counted\. B: copies are estimated from samples/);
    assert.match(doubts, /B was cut off/);
    assert.match(doubts, /B lost 10 records/);
  });
  await withPage("compare-unknown", [a, makeEmptyPage()], {}, async (page) => {
    assert.match(await saving(page), /^How much more or less the workers copied is unknown: B doesn't say/);
    assert.match(await page.textContent("#compare-lines .note"), /B was recorded without these/);
    assert.equal((await rowsOf(page, "compare-lines"))[0].cells[4], "—", "unknown is no saving");
  });
});

const file = (name, text) => ({ name, mimeType: "text/html", buffer: Buffer.from(text) });
const kChosen = "input[type=file]";

test("a second page is chosen: by the button, with keys; its markup is never run", async () => {
  const [a, b] = makePair();
  b.report.target.command = kHostile[0];
  for (const [i, name] of kHostile.entries()) {
    Object.assign(b.report.by_line[i], { file: name, function: name });
    b.report.by_type[i].type = name;
  }
  const evil = fillTemplate(b).replace("<body>", `<body><img src=x onerror="globalThis.pwned=1"><script>globalThis.pwned=1</script>`);
  for (const width of [1280, 390]) {
    await withPage(`compare-chosen-${width}`, a, { width }, async (page) => {
      assert.ok(!(await page.locator("#compare").isVisible()), "alone, everything is as before");
      const choosing = page.waitForEvent("filechooser");
      await page.focus(".compare-button");
      await page.keyboard.press("Enter");
      await (await choosing).setFiles(file(`${kHostile[0].replaceAll("/", "")}.html`, evil));
      await page.waitForSelector("#saving:visible");
      assert.match(await saving(page), /^B's workers copy [\d.]+ GiB less than A's/);
      assert.equal(await page.evaluate(() => globalThis.pwned), undefined);
      assert.equal(await page.locator("main img, main svg, main script, main iframe").count(), 0);
      assert.ok((await page.textContent(".run-b")).includes(kHostile[0]), "the command is text");
      assert.doesNotMatch(await page.textContent("main"), /[\u202a-\u202e\u2066-\u2069\u0000\u0007]/);
      await checkNoOverflow(page);
    });
  }
});

async function dropFile(page, name, text) {
  const transfer = await page.evaluateHandle(
    ([name, text]) => {
      const transfer = new DataTransfer();
      transfer.items.add(new File([text], name));
      return transfer;
    },
    [name, text],
  );
  await page.dispatchEvent("body", "dragover", { dataTransfer: transfer });
  assert.ok(await page.evaluate(() => document.documentElement.classList.contains("dropping")), "says where to drop");
  await page.dispatchEvent("body", "drop", { dataTransfer: transfer });
}

test("a second page is dropped", async () => {
  const [a, b] = makePair();
  await withPage("compare-dropped", a, { scheme: "dark" }, async (page) => {
    await dropFile(page, "after.html", fillTemplate(b));
    await page.waitForSelector("#saving:visible");
    assert.match(await page.textContent(".run-b"), /B, after after\.html/);
    assert.ok(!(await page.evaluate(() => document.documentElement.classList.contains("dropping"))));
  });
});

const old = () => gzipSync(JSON.stringify({ schema: "cowprof.page/1", report: {} })).toString("base64");
const kRefused = {
  "a recording": ["a.json", `{"schema":"cowprof.timeline/1","header":{}}`, /a\.json is a recording, .*cowprof view A\.json B\.json/],
  "a report": ["r.json", `{"schema":"cowprof.report/1"}`, /r\.json is a cowprof\.report, not a page/],
  "another JSON": ["x.json", `{"a":1}`, /x\.json is JSON, but not from cowprof/],
  "another page": [
    "x.html",
    "<html><script>globalThis.pwned=1</script></html>",
    /x\.html is not a cowprof page\. Choose an \.html file that cowprof view made/,
  ],
  "binary": ["x.bin", "\u0000\u0001\ufffd", /x\.bin is not a cowprof page/],
  "an empty file": ["x.html", "", /x\.html is not a cowprof page/],
  "a damaged page": [
    "x.html",
    () => fillTemplate("H4sIAAAA"),
    /x\.html: The recording in this page can't be read: the file is damaged or cut off/,
  ],
  "a page that was cut off": [
    "x.html",
    () => fillTemplate(makePage()).slice(0, -5000),
    /x\.html: The recording in this page can't be read/,
  ],
  "the page of a job": ["j.html", () => fillTemplate(makeFleet(3)), /j\.html: That is the page of a job with several ranks/],
  "the template": ["t.html", () => fillTemplate("__COWPROF_DATA__"), /t\.html is the empty template/],
  "an older page": [
    "old.html",
    () => fillTemplate(old()),
    /old\.html: This page holds cowprof\.page\/1; this viewer reads cowprof\.page\/2/,
  ],
};
test("what is no page is refused in words, and the comparison that was there stays", async () => {
  const [a, b] = makePair();
  await withPage("compare-refused", a, {}, async (page) => {
    for (const [what, [name, text, words]] of Object.entries(kRefused)) {
      await page.setInputFiles(kChosen, file(name, typeof text === "string" ? text : text()));
      await page.waitForFunction((wanted) => new RegExp(wanted).test(document.querySelector(".compare-alert").textContent), words.source);
      assert.match(await page.textContent("[role=alert]"), words, what);
      assert.ok(!(await page.locator("#saving").isVisible()));
    }
    assert.equal(await page.evaluate(() => globalThis.pwned), undefined);
    await page.setInputFiles(kChosen, file("b.html", fillTemplate(b)));
    await page.waitForSelector("#saving:visible");
    assert.equal(await page.textContent(".compare-alert"), "", "no word of the failures before");
    await page.setInputFiles(kChosen, file("x.json", "{}"));
    await page.waitForSelector(".compare-alert:not(:empty)");
    assert.ok(await page.locator("#saving").isVisible());
  });
});

test("390 pixels wide, both themes, and on paper", async () => {
  for (const scheme of ["light", "dark"])
    await withPage(`compare-390-${scheme}`, makePair(), { width: 390, height: 844, scheme }, checkNoOverflow);
  await withPage("compare-paper", makePair(), {}, async (page) => {
    await page.emulateMedia({ media: "print" });
    assert.equal(await page.locator("#compare button:visible:not(.sort), .compare-button:visible").count(), 0);
  });
});
