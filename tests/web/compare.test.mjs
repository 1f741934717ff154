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

const kMib = 2 ** 20;
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
  b.comparisons = [makeComparison(), makeComparison({ verdict: "worse", sentence: "Worse: at their peak, B's workers hold more." })];
  return [a, b];
}

// As cowprof writes it; its words stand in no other place of the page.
function makeComparison(more = {}) {
  const figure = (label, a, b, change, verdict) => ({
    figure: "x",
    label,
    unit: "bytes",
    a: a === null ? null : { low: a, mean: a, high: a },
    b: b === null ? null : { low: b, mean: b, high: b },
    change: change === null ? null : { low: change - kMib, best: change, high: change + kMib },
    verdict,
  });
  return {
    verdict: "better",
    sentence: "Better: at their peak, B's workers hold 3.1 GiB less private memory (-86 %).",
    prediction: "Predicted (serialise): 3.0 GiB to 3.2 GiB less at the peak; measured: 3.1 GiB less.",
    notes: ["A ran `python3 a.py`, B `python3 b.py`."],
    a: ["a.json: 8 workers, fork, 3 min 00 s, exact counts (btf-tracepoints)"],
    b: ["b.json: 8 workers, fork, 3 min 00 s, exact counts (btf-tracepoints)"],
    sees_lines: { a: true, b: true },
    figures: [
      figure("private peak of the workers", 512 * kMib, 40 * kMib, -472 * kMib, "better"),
      figure("copied by the workers", 300 * kMib, 300.5 * kMib, 0.5 * kMib, "same"),
      figure("plateau that was ahead", 600 * kMib, null, null, null),
      { ...figure("time spent copying", 3, 2, -1, "better"), unit: "seconds" },
    ],
    ...more,
  };
}

const rowsOf = (page, id) =>
  page.$$eval(`#${id} tbody tr`, (all) =>
    all.map((row) => ({ name: row.querySelector("th").title, cells: [...row.cells].slice(1).map((cell) => cell.textContent) })),
  );
const saving = (page) => page.textContent("#saving");
const doubts = (page) => page.$$eval(".doubts li", (all) => all.map((one) => one.textContent));

test("two recordings in one page: verdict, notes and figures as cowprof judged them, curves on shared axes, differences by name", async () => {
  const [a, b] = makePair();
  await withPage("compare-two", [a, b], {}, async (page) => {
    await settle(page);
    const [{ sentence, prediction, notes, ...sides }] = b.comparisons;
    assert.equal(await saving(page), sentence);
    assert.deepEqual(await doubts(page), [prediction, ...notes]);
    assert.ok((await page.textContent(".run-a")).includes(sides.a[0]) && (await page.textContent(".run-b")).includes(sides.b[0]));
    assert.deepEqual((await rowsOf(page, "compare-figures")).map(({ name, cells }) => [name, ...cells]).sort(), [
      ["copied by the workers", "same (−512.0 KiB to +1.5 MiB)", "300.0 MiB", "300.5 MiB", "+512.0 KiB", "+0.2 %"],
      ["plateau that was ahead", "", "600.0 MiB", "—", "—", "—"],
      ["private peak of the workers", "better (−473.0 MiB to −471.0 MiB)", "512.0 MiB", "40.0 MiB", "−472.0 MiB", "−92 %"],
    ]);
    assert.equal(await page.locator("#compare-figures .less").count(), 1, "what is the same has no colour");
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
    const words = await page.textContent(".compare-reading");
    assert.match(
      words,
      /^Private memory of each worker\. 0:00 is the start of each run's first worker\. .* figures of all workers together\.$/,
    );
    assert.match(await page.getAttribute(".compare-plot", "aria-label"), /^Private memory of each worker of A and of B/);
    await page.locator(".compare-plot .u-over").hover({ position: { x: 500, y: 80 } });
    assert.match(await page.textContent(".compare-reading"), / after the first worker's start, all workers together: A /);
  });
});

test("pages of two sizes: copies by cause are in bytes of each side's pages", async () => {
  const [a, b] = [makeBlamedPage(), makeBlamedPage()];
  b.run.page_bytes = 65536;
  await withPage("compare-page-sizes", [a, b], {}, async (page) => {
    const [first] = await rowsOf(page, "compare-causes");
    assert.equal(first.cells.at(-1), "+1500 %");
  });
});

test("swapped and removed by keys; then nothing of it is left", async () => {
  const [a, b] = makePair();
  await withPage("compare-keys", [a, b], {}, async (page) => {
    await page.focus(".compare-tools .toggle >> nth=0");
    await page.keyboard.press("Enter");
    assert.equal(await saving(page), b.comparisons[1].sentence);
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

test("warnings of the other recording stand beside it, on either side; the page's own are at its top", async () => {
  const [a, b] = makePair();
  a.warnings = ["A was cut off."];
  b.warnings = ["B lost 12 events."];
  await withPage("compare-warnings", [a, b], {}, async (page) => {
    const shown = () => page.$$eval(".compare-run .warning", (all) => all.map((one) => [one.parentElement.className, one.textContent]));
    assert.deepEqual(await shown(), [["compare-run run-b", b.warnings[0]]]);
    await page.click(".compare-tools .toggle >> nth=0");
    assert.deepEqual(await shown(), [["compare-run run-a", b.warnings[0]]]);
  });
});

test("what can't be compared has no verdict: neither words nor colours of the page's own", async () => {
  const [a, b] = makePair();
  const sentence = "Can't be compared: In b.json, a process did not end well: worker 7: killed by SIGKILL.";
  const figures = makeComparison().figures.map((figure) => ({ ...figure, verdict: null }));
  b.comparisons = [makeComparison({ verdict: null, sentence, prediction: null, notes: [], figures, sees_lines: { a: false, b: false } })];
  await withPage("compare-failed", [a, b], {}, async (page) => {
    assert.equal(await saving(page), sentence);
    assert.equal((await doubts(page)).length, 0);
    const colour = (selector) => page.$eval(selector, (cell) => getComputedStyle(cell).color);
    assert.equal(await colour("#compare-figures td.less"), await colour("#compare-figures td.number"));
  });
});

test("a comparison of several recordings of a side says what the curves are of", async () => {
  const [a, b] = makePair();
  b.comparisons = [makeComparison({ b: ["b1.json: 8 workers", "b2.json: 8 workers"] })];
  await withPage("compare-several", [a, b], {}, async (page) => {
    assert.match(await page.textContent(".run-b"), /b1\.json.*b2\.json/);
    assert.match(await page.textContent("#compare"), /The verdict and the figures of the workers are of all recordings/);
  });
});

test("a side without lines: none where it copied nothing or saw whatever there was, otherwise unknown", async () => {
  const change = async (name, sees, copies) => {
    const [a, b] = makePair();
    b.report.by_line = [];
    b.report.totals.copies = copies ?? b.report.totals.copies;
    b.comparisons = [makeComparison({ sees_lines: { a: true, b: sees } })];
    let shown;
    await withPage(name, [a, b], {}, async (page) => {
      const [{ cells }] = await rowsOf(page, "compare-lines");
      shown = [cells[3], cells[5], await page.textContent("#compare-lines .note")];
    });
    return shown;
  };
  const unknown = ["—", "—", "These figures are not known for B, so the change is not known either."];
  const none = ["none", "−100 %", ""];
  assert.deepEqual(await change("compare-no-copies", false, 0), none);
  assert.deepEqual(await change("compare-no-python", true), none);
  assert.deepEqual(await change("compare-unseen", false), unknown);
  await withPage("compare-unknown", [makeBlamedPage(), makeEmptyPage()], {}, async (page) => {
    assert.match(await saving(page), /^Not judged: /);
    assert.equal(await page.textContent("#compare-lines .note"), unknown[2]);
    assert.equal((await rowsOf(page, "compare-lines"))[0].cells[4], "—", "unknown is no saving");
  });
});

test("when a recording was made has its time zone", async () => {
  const [a, b] = makePair();
  a.run.started = "2026-11-28T04:24:30Z";
  await withPage("compare-when", [a, b], {}, async (page) => {
    assert.match(await page.textContent(".run-a"), /recorded 2026-11-28 04:24 UTC/);
  });
});

test("of very many workers the curves are those that peak highest, which is said", async () => {
  await withPage("compare-many", [makePage({ workers: 70, samples: 20 }), makePage()], {}, async (page) => {
    assert.match(await page.textContent(".run-a"), /workers: (\d+ at once, )?70/);
    assert.doesNotMatch(await page.textContent(".compare-chart"), /Drawn/);
    await page.locator(".compare-legend .switch-entry", { hasText: "Each worker" }).click();
    await settle(page);
    assert.match(await page.textContent(".compare-chart"), /Drawn: of A 64 of 70 workers, those that peak highest\./);
  });
});

test("reports of older tools do not sum the workers", async () => {
  const { report } = await (await loadSource("data/decode.ts")).parsePayload(pack(makePage()));
  assert.equal(
    report.workersCopiedBytes,
    report.workers.reduce((sum, worker) => sum + worker.copiedBytes, 0),
  );
});

const file = (name, text) => ({ name, mimeType: "text/html", buffer: Buffer.from(text) });
const kChosen = "input[type=file]";

test("a second page is chosen: by the button, with keys; its markup is never run", async () => {
  const [a, b] = makePair();
  delete b.comparisons; // a page of its own
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
      assert.match(await saving(page), /^Not judged: .*cowprof diff/);
      assert.equal((await doubts(page)).length, 0);
      const copied = (await rowsOf(page, "compare-figures")).find(({ name }) => name === "copied by the workers").cells;
      assertBytes(copied[1], a.report.totals.workers_copied_bytes, "A");
      assertBytes(copied[2], b.report.totals.workers_copied_bytes, "B");
      assert.equal(copied[0], "", "no verdict");
      assert.ok((await page.textContent(".run-b")).includes(b.verdict), "what cowprof says of it alone");
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
