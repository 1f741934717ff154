// Owns the tests of the page with hostile, missing, empty and broken data.
// Does not: test how a good page looks and works; page.test.mjs does.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { gzipSync } from "node:zlib";
import { openPage, startBrowser, visitPage, writePage } from "./browser.mjs";
import { checkNoOverflow, checkQuiet, checkWorkersTable, hover, workerRows } from "./checks.mjs";
import { fillTemplate, kHostile, kTemplate, makeEmptyPage, makeHostilePage, makeNullPage, makePage, pack } from "./synthetic.mjs";

let browser;
before(async () => {
  browser = await startBrowser();
});
after(() => browser?.close());

async function withPage(name, content, options, body) {
  const path = writePage(name, typeof content === "string" ? content : fillTemplate(content));
  checkQuiet(await visitPage(browser, path, name, options, body));
}

test("hostile names are shown as text and never run", async () => {
  for (const width of [1280, 390]) {
    await withPage(`hostile-${width}`, makeHostilePage(), { width }, async (page) => {
      await page.locator(".mark").first().hover();
      await page.click("summary >> nth=0");
      assert.equal(await page.evaluate(() => globalThis.pwned), undefined);
      assert.equal(await page.locator("main img, main svg, main script, main iframe").count(), 0, "no element came from a name");
      const text = await page.textContent("main");
      for (const name of kHostile.slice(0, 3)) assert.ok(text.includes(name), `${name} is shown as it is`);
      assert.ok(text.includes("\\u{202e}gnp.exe"), "a direction change is spelt out");
      assert.doesNotMatch(text, /[\u202a-\u202e\u2066-\u2069\u0000\u0007]/);
      await checkNoOverflow(page);
    });
  }
});

test("the policy holds: a script put into the page does not run", async () => {
  const opened = await openPage(browser, writePage("policy", fillTemplate(makePage())));
  const ran = await opened.page.evaluate(() => {
    const script = document.createElement("script");
    script.append("globalThis.pwned = 1");
    try {
      document.body.append(script);
    } catch {
      return "refused";
    }
    return globalThis.pwned ?? "blocked";
  });
  assert.match(ran, /refused|blocked/);
  for (let i = 0; i < 40 && opened.noted.violations.length === 0; i++) await opened.page.waitForTimeout(50);
  assert.ok(opened.noted.violations.length > 0, "and the violation is noted: the other tests would see one");
  await opened.close();
});

test("a copy that a browser saved without the recording says so", async () => {
  const copy = fillTemplate(makePage()).replace(/<script id="cowprof-data".*?<\/script>/s, "");
  await withPage("saved-copy", copy, {}, async (page) => {
    assert.match(await page.textContent(".failure"), /^This copy was saved by a browser, .* Copy the \.html file itself/);
  });
});

test("an empty recording is a sentence, not a failure", async () => {
  await withPage("empty", makeEmptyPage(), {}, async (page) => {
    assert.match(await page.textContent("#timeline"), /No samples were recorded/);
    assert.match(await page.textContent("#workers"), /No workers were seen/);
    assert.equal(await page.textContent("#tile-copied .tile-value"), "—");
  });
});

test("one sample is a page like any other", async () => {
  const data = makePage({ workers: 2, samples: 1 });
  await withPage("one-sample", data, {}, async (page) => checkWorkersTable(page, data.report));
});

test("unknown figures are dashes; losses and a recording without an end are said loudly", async () => {
  const data = makeNullPage();
  await withPage("nulls", data, {}, async (page) => {
    await checkWorkersTable(page, data.report);
    assert.deepEqual(await page.$$eval(".page-header .warning", (all) => all.map((one) => one.textContent)), data.warnings);
    assert.match(await page.textContent(".page-header"), /copies could not be counted on this host/);
    assert.equal((await hover(page, "memory", 0.5)).rows[0].more, "—");
  });
});

const kBroken = {
  "the template itself": [() => readFileSync(kTemplate, "utf8"), /empty template/],
  "no base64": [() => fillTemplate("%%%%"), /can't be read/],
  "no gzip": [() => fillTemplate(Buffer.from("not gzip").toString("base64")), /can't be read/],
  "gzip cut off": [() => fillTemplate(Buffer.from(pack(makePage()), "base64").subarray(0, 900).toString("base64")), /can't be read/],
  "no JSON": [() => fillTemplate(gzipSync("{oops").toString("base64")), /can't be read/],
  "another schema": [
    () => fillTemplate({ schema: "cowprof.page/1", times_ms: [0, 5], processes: [] }),
    /cowprof\.page\/1.*cowprof\.page\/2/,
  ],
};
for (const [name, [html, sentence]] of Object.entries(kBroken)) {
  test(`what can't be read is said in a sentence: ${name}`, async () => {
    await withPage(`broken-${name.replaceAll(" ", "-")}`, html(), {}, async (page) => {
      assert.match(await page.textContent("main"), sentence);
    });
  });
}

test("wrong types and missing keys are unknown, not an exception", async () => {
  const odd = {
    schema: "cowprof.page/2",
    report: { workers: [null, 3, { pid: "x" }], limits: {}, totals: 4, diagnoses: [[]] },
    times_ms: [0, 1000, 1000],
    processes: [{}, 7, { first: 9, private_kib: "x", causes: 3 }, { copies: [1] }],
    totals: null,
    events: [{ t: null }, 1],
    limits: [5],
  };
  await withPage("odd", odd, {}, async (page) => {
    assert.equal((await workerRows(page)).length, 3);
  });
});
