// Owns the tests of what the page says about why memory was copied: findings, causes, blame tables, footnotes.
// Does not: test charts or the other tables; page.test.mjs does.
import assert from "node:assert/strict";
import { test } from "node:test";
import { kOut } from "./browser.mjs";
import { assertBytes, checkNoOverflow, checkQuiet, settle } from "./checks.mjs";
import { kCauseShares, makeBlamedPage, makeHostileBlame } from "./blamed.mjs";
import { kHostile, makeEmptyPage, makeNullPage, makePage } from "./synthetic.mjs";
import { makeStage } from "./stage.mjs";

const { open, withPage } = makeStage();

const legend = (page) =>
  page.$$eval(".cause-entry", (all) =>
    all.map((entry) => ({
      name: entry.querySelector("strong").textContent,
      words: entry.querySelector(".cause-why")?.textContent ?? "",
      share: parseFloat(entry.querySelector(".cause-share").textContent.replace("< ", "")),
      bytes: entry.querySelector(".cause-amount").textContent,
    })),
  );
const rowsOf = (page, id) =>
  page.$$eval(`#${id} tbody tr`, (all) =>
    all.map((row) => ({
      name: row.querySelector(".name").textContent,
      title: row.querySelector("th").title,
      cells: [...row.cells].slice(1).map((cell) => cell.textContent),
    })),
  );

test("findings stand right below the verdict, in the report's order, with advice; evidence is folded", async () => {
  const data = makeBlamedPage();
  await withPage("why-light", data, {}, async (page) => {
    const order = await page.$$eval("main > *:not([hidden])", (all) =>
      all
        .flatMap((section) => (section.className === "rerendered" ? [...section.children] : section))
        .map((section) => section.id || section.className),
    );
    assert.deepEqual(order.slice(0, 4), ["page-header", "diagnoses", "tiles", "timeline"]);
    assert.deepEqual(
      await page.$$eval(".diagnosis h3", (all) => all.map((head) => head.textContent)),
      data.report.diagnoses.map((one) => one.summary),
    );
    for (const { advice } of data.report.diagnoses) assert.ok((await page.textContent("#diagnoses")).includes(advice[0]));
    assert.ok(!(await page.locator(".evidence li").first().isVisible()));
    await page.locator(".evidence summary").first().click();
    assert.ok(await page.locator(".evidence li").first().isVisible());
    await checkNoOverflow(page);
  });
});

test("the causes: one bar and a legend in words, bytes and percent", async () => {
  const data = makeBlamedPage();
  const { by_cause: causes, copies } = data.report.totals;
  await withPage("why-causes", data, {}, async (page) => {
    const entries = await legend(page);
    const expected = Object.values(causes).sort((a, b) => b - a);
    assert.equal(entries.length, expected.length);
    entries.forEach((entry, i) => {
      assertBytes(entry.bytes, expected[i] * 4096, entry.name);
      assert.ok(Math.abs(entry.share - (100 * expected[i]) / copies) <= 0.5, `${entry.name}: ${entry.share} %`);
      assert.ok(entry.words.length > 20, `${entry.name} is explained`);
    });
    const widths = await page.$$eval(".causes.whole .cause", (all) => all.map((one) => one.getBoundingClientRect().width));
    assert.equal(widths.length, Object.keys(kCauseShares).length);
    assert.ok(Math.abs(widths[0] / widths.reduce((sum, width) => sum + width) - causes.refcount / copies) < 0.02, "as long as its share");
    assert.match(await page.getAttribute(".causes.whole", "aria-label"), /^Reference counts 6[23] %, Garbage collector 14 %/);
    assert.equal(await page.locator("#workers .bar.split .causes").count(), 4, "small bars for the parent and each worker");
    assert.match(await page.getAttribute("#workers .bar.split >> nth=1", "title"), /^Reference counts 6\d %/);
  });
});

test("causes differ by colour and by hatching, light and dark", async () => {
  for (const scheme of ["light", "dark"]) {
    await withPage(`why-${scheme === "dark" ? "dark" : "colours"}`, makeBlamedPage(), { scheme }, async (page) => {
      const looks = await page.$$eval(".causes.whole .cause", (all) =>
        all.map((one) => [
          getComputedStyle(one).backgroundColor,
          getComputedStyle(one).backgroundImage + getComputedStyle(one).backgroundSize,
        ]),
      );
      assert.equal(new Set(looks.map(([colour]) => colour)).size, 9, "nine colours");
      assert.equal(new Set(looks.map(([, image]) => image)).size, 9, "nine hatchings");
    });
  }
});

test("tables: twelve lines at first, shortened paths with the whole in the title, shares with their uncertainty", async () => {
  const data = makeBlamedPage();
  await withPage("why-tables", data, {}, async (page) => {
    const shown = await rowsOf(page, "by-line");
    assert.equal(shown.length, 12);
    shown.forEach((row, i) => {
      const line = data.report.by_line[i];
      assert.equal(row.title, `${line.file}:${line.line}`);
      assert.ok(row.name.endsWith(`/module_${i}.py:${line.line}`) && row.name.startsWith("/") && row.name.length <= 62, row.name);
      assert.equal(row.cells[0], line.function);
      assertBytes(row.cells[1], line.bytes, row.name);
      assert.match(row.cells[2], /^(< )?[\d.]+ % ± [\d.]+$/);
    });
    assert.match(shown[2].name, /^\/home\/….*\/module_2\.py:12$/);
    assert.equal(shown[0].cells[2], "50 % ± 4", "rounded up, never understated");
    assert.equal((await page.textContent("main")).split("estimated from").length, 2, "said once");
    assert.match(await page.textContent("#who"), /estimated from 1,132 samples/);
    assert.equal((await rowsOf(page, "by-native"))[1].name, "(no symbol)");
    const region = (await rowsOf(page, "by-region"))[0];
    assert.deepEqual([region.name, ...region.cells], ["pymalloc-arena", "0x7f0000000000", "117.2 MiB", "250.0 MiB", "50 %"]);
    await page.locator("#by-line .more").click();
    assert.equal((await rowsOf(page, "by-line")).length, 26);
  });
});

test("tables sort by a click; unknown stays last", async () => {
  const data = makeBlamedPage();
  Object.assign(data.report.by_line[3], { share: null, bytes: null, copies: null });
  await withPage("why-sort", data, {}, async (page) => {
    const head = (title) => page.locator("#by-line thead th", { hasText: title });
    assert.equal(await head("share").getAttribute("aria-sort"), "descending");
    await page.locator("#by-line .more").click();
    await head("copied").locator("button").click();
    await head("copied").locator("button").click();
    const rows = await rowsOf(page, "by-line");
    assert.equal(await head("copied").getAttribute("aria-sort"), "ascending");
    assert.deepEqual(rows.at(-1).cells.slice(1), ["—", "—"], "not 0");
    assertBytes(rows[0].cells[1], Math.min(...data.report.by_line.map((line) => line.bytes ?? Infinity)), "the smallest");
    await head("function").locator("button").click();
    assert.equal((await rowsOf(page, "by-line"))[0].cells[0], "Dataset.method_0");
  });
});

test("one worker: causes, lines and types are its own; what is known of all only is left out", async () => {
  const data = makeBlamedPage();
  const [, worker] = data.report.workers;
  await withPage("why-worker", data, {}, async (page) => {
    await page.selectOption("#scope", { label: `worker ${worker.pid}` });
    await settle(page);
    assertBytes(await page.textContent(".why-total strong"), worker.copied_bytes, "copied by the worker");
    assertBytes((await legend(page))[0].bytes, worker.by_cause.refcount * 4096, "its reference counts");
    assert.equal((await rowsOf(page, "by-line"))[0].title, `${worker.by_line[0].file}:${worker.by_line[0].line}`);
    assert.equal(await page.locator("#by-region:visible").count(), 0);
    assert.match(await page.textContent("#who"), /The 10 largest of worker/);
    await page.selectOption("#scope", { label: "all processes" });
    await settle(page);
    assertBytes(await page.textContent(".why-total strong"), data.report.totals.copied_bytes, "copied by all");
  });
});

test("footnotes: what copying cost, and what the comparison of pages found", async () => {
  const data = makeBlamedPage();
  const lived = data.report.workers.reduce((sum, row) => sum + (row.ended_at ?? data.report.duration_seconds) - row.started_at, 0);
  const spent = data.report.workers.reduce((sum, row) => sum + row.copy_seconds, 0);
  await withPage("why-print", data, {}, async (page) => {
    const text = await page.textContent("#why");
    const [, seconds, percent] = /(\d+\.\d) seconds of CPU went into copying \(([\d.]+) % of the workers' run time\)/.exec(text);
    assert.ok(Math.abs(Number(seconds) - spent) < 0.06 && Math.abs(Number(percent) - (100 * spent) / lived) < 0.06);
    assert.match(
      text,
      /96 % of 12,500 copied pages are byte for byte what they were before; 2.4 % differ only in reference counts, 0.8 % only in the/,
    );
    assert.match(text, /17,871 copies were inspected one by one.*none proved wrong/);
  });
});

test("a row and a whole table can be copied as text, with whole paths", async () => {
  const data = makeBlamedPage();
  await withPage("why-copy", data, {}, async (page) => {
    await page.evaluate(() => {
      Object.defineProperty(navigator, "clipboard", {
        value: {
          writeText: async (text) => {
            globalThis.copied = text;
          },
        },
      });
    });
    await page.locator("#by-line tbody tr").nth(2).hover();
    await page.locator("#by-line tbody tr .copy").nth(2).click();
    const [name, called, bytes, share] = (await page.evaluate(() => globalThis.copied)).split("\t");
    const line = data.report.by_line[2];
    assert.deepEqual([name, called], [`${line.file}:${line.line}`, line.function]);
    assertBytes(bytes, line.bytes, "copied");
    assert.match(share, /^[\d.]+ % ± [\d.]+$/);
    assert.equal(await page.locator("#by-line tbody tr .copy").nth(2).textContent(), "copied");
    assert.equal(await page.textContent("body > [role=status]"), "copied", "it is read out, too");
    await page.locator("#by-type .copy-all").click();
    assert.equal(
      (await page.evaluate(() => globalThis.copied)).split("\r\n").length,
      data.report.by_type.length + 2,
      "a head, and all rows, not only those shown",
    );
  });
});

// The longest task of a change of scope, in ms.
async function waitFor(page, scope) {
  await page.evaluate(() => {
    globalThis.waits ??= new PerformanceObserver((list) => list.getEntries().forEach((entry) => globalThis.waits.ms.push(entry.duration)));
    globalThis.waits.observe({ type: "longtask" });
    globalThis.waits.ms = [0];
  });
  await page.selectOption("#scope", { index: scope });
  await settle(page);
  return page.evaluate(() => Math.max(...globalThis.waits.ms));
}

test("a thousand rows: twelve are made, a hundred more on request, without a wait", async (context) => {
  const few = await open("why-twelve", makeBlamedPage({ rows: 12, workers: 64 }));
  const opened = await open("why-thousand", makeBlamedPage({ rows: 1000, workers: 64 }));
  const { page } = opened;
  assert.equal(await page.locator("#by-line tbody tr").count(), 12);
  for (const id of ["by-line", "by-type", "by-native"]) await page.locator(`#${id} .more`).click();
  for (const id of ["by-line", "by-type", "by-native"])
    assert.equal(await page.locator(`#${id} tbody tr`).count(), id === "by-line" ? 112 : 108);
  assert.equal(await page.textContent("#by-line .more"), "Show 100 more of 1,000");
  await page.locator("#by-line thead th", { hasText: "function" }).locator("button").click();
  // The quickest of five, in turns: other work shares the cores.
  const waits = { ofFew: [], ofMany: [] };
  for (const scope of [40, 41, 42, 43, 44]) {
    waits.ofFew.push(await waitFor(few.page, scope));
    waits.ofMany.push(await waitFor(page, scope));
  }
  const [ofFew, wait] = [Math.min(...waits.ofFew), Math.min(...waits.ofMany)];
  context.diagnostic(`longest wait ${wait.toFixed(0)} ms, with twelve rows ${ofFew.toFixed(0)} ms`);
  assert.ok(wait <= Math.max(200, 2 * ofFew), "a slow machine is slow with twelve rows, too");
  checkQuiet(opened.noted);
  await opened.close();
  await few.close();
});

test("hostile names of types, files, functions, symbols, modules, regions and causes stay text", async () => {
  for (const width of [1280, 390]) {
    await withPage(`why-hostile-${width}`, makeHostileBlame(), { width }, async (page) => {
      for (const label of [1, 0]) {
        await page.selectOption("#scope", { index: label });
        await settle(page);
        assert.equal(await page.evaluate(() => globalThis.pwned), undefined);
        assert.equal(await page.locator("main img, main svg, main script, main iframe").count(), 0);
      }
      for (const id of ["by-type", "by-native", "by-region", "diagnoses"])
        assert.ok((await page.textContent(`#${id}`)).includes(kHostile[0]), `${id} shows it as it is`);
      assert.ok((await rowsOf(page, "by-line")).some((row) => row.title === `${kHostile[0]}:10` && row.cells[0] === kHostile[0]));
      assert.ok((await page.textContent(".cause-legend")).includes(kHostile[0]));
      assert.doesNotMatch(await page.textContent("main"), /[\u202a-\u202e\u2066-\u2069\u0000\u0007]/);
      await checkNoOverflow(page);
    });
  }
});

test("nothing known: no section, or a sentence; never 0", async () => {
  const unknown = makePage();
  unknown.report.totals.by_cause = Object.fromEntries(Object.keys(kCauseShares).map((cause) => [cause, null]));
  Object.assign(unknown.report, { by_type: [], by_line: [], diagnoses: [] });
  unknown.report.totals.copy_seconds = null;
  for (const row of [unknown.report.parent, ...unknown.report.workers]) row.by_cause = null;
  await withPage("why-unknown", unknown, {}, async (page) => {
    assert.match(await page.textContent("#why"), /Not known/);
    assert.doesNotMatch(await page.textContent("#why .why-content"), /\d/, "no figure at all");
    assert.equal(await page.locator("#diagnoses:visible, #scope:visible, .causes.whole:visible, .verified:not(:empty)").count(), 0);
  });
  for (const [name, data] of [
    ["why-empty", makeEmptyPage()],
    ["why-nulls", makeNullPage()],
  ]) {
    if (name === "why-nulls") Object.assign(data.report, { by_type: [], by_line: [] });
    await withPage(name, data, {}, async (page) => assert.equal(await page.locator("#why:visible").count(), 0));
  }
  const clean = makeBlamedPage();
  clean.report.workers[0].by_cause = null;
  for (const key of ["by_type", "by_line"]) delete clean.report.workers[0][key];
  clean.report.workers[1].by_cause = Object.fromEntries(Object.keys(kCauseShares).map((cause) => [cause, 0]));
  Object.assign(clean.report.workers[1], { by_type: undefined, by_line: undefined });
  await withPage("why-partly", clean, {}, async (page) => {
    assert.ok(
      !(await page.$$eval("#scope option", (all) => all.map((one) => one.textContent))).includes("worker 4200"),
      "nothing to choose",
    );
    await page.selectOption("#scope", { label: "worker 4201" });
    await settle(page);
    assert.match(await page.textContent(".why-content"), /No page was copied by worker 4201\./);
  });
});

test("a span of a recording without copies: no page was copied, as without the span", async () => {
  const data = makePage();
  const none = Object.fromEntries(Object.keys(kCauseShares).map((cause) => [cause, 0]));
  for (const row of [data.report.totals, data.report.parent, ...data.report.workers]) Object.assign(row, { by_cause: none, copies: 0 });
  for (const columns of [data.totals, ...data.processes]) Object.assign(columns, { causes: {}, copies: columns.copies.map(() => 0) });
  Object.assign(data.report, { by_type: [], by_line: [] });
  await withPage("why-none-within", data, {}, async (page) => {
    const strip = page.locator(".strip.sum .u-over");
    await strip.scrollIntoViewIfNeeded();
    const box = await strip.boundingBox();
    await page.mouse.move(box.x + box.width * 0.2, box.y + 40);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.4, box.y + 40, { steps: 4 });
    await page.mouse.up();
    await page.waitForFunction(() => / to /.test(document.querySelector(".why-content").textContent));
    assert.match(await page.textContent(".why-content"), /^No page was copied by any process, [\d.]+ s to /);
  });
});

test("390 pixels wide and on paper", async () => {
  await withPage("why-390", makeBlamedPage(), { width: 390, height: 844 }, async (page) => {
    await checkNoOverflow(page);
    const sides = await page.$$eval("#by-line tbody tr *", (all) => Math.max(...all.map((one) => one.getBoundingClientRect().right)));
    assert.ok(sides <= 390, "rows are not wider than the window");
  });
  await withPage("why-390-dark", makeBlamedPage(), { width: 390, height: 844, scheme: "dark" }, checkNoOverflow);
  await withPage("why-paper", makeBlamedPage(), {}, async (page) => {
    await page.emulateMedia({ media: "print" });
    assert.equal(await page.locator(".copy:visible, .more:visible, #scope:visible").count(), 0);
    await page.evaluate(() => dispatchEvent(new Event("beforeprint")));
    assert.ok(await page.locator(".evidence li").first().isVisible(), "nothing stays folded on paper");
    assert.ok((await page.pdf({ path: `${kOut}why.pdf` })).length > 10000);
  });
});
