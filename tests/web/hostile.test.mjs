// Owns the test of a page that `cowprof view` made of a real recording full of hostile names, and that the page requests nothing.
// COWPROF_HOSTILE_PAGE names the page, COWPROF_HOSTILE_NAMES the names as JSON; without them the test is skipped.
// Does not: make the recording, which is one of tests/system/workloads/hostile_names.py.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { after, before, test } from "node:test";
import { startBrowser, visitPage } from "./browser.mjs";
import { checkQuiet } from "./checks.mjs";

const { COWPROF_HOSTILE_PAGE: pagePath, COWPROF_HOSTILE_NAMES: namesPath } = process.env;
const skip = pagePath ? false : "COWPROF_HOSTILE_PAGE is not set: no page full of hostile names to test";
if (skip) console.log(`hostile.test.mjs: skipped, ${skip}`);

let browser;
before(async () => {
  if (!skip) browser = await startBrowser();
});
after(() => browser?.close());

// Escapes of a terminal, marks of direction, what ends a line for a script.
const kUnprintable = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/;

test("50 hostile names of commands, arguments, paths, types and functions: text, and nothing else", { skip }, async () => {
  const names = JSON.parse(readFileSync(namesPath, "utf8"));
  assert.ok(names.length >= 50);
  for (const width of [1280, 390]) {
    checkQuiet(
      await visitPage(browser, resolve(pagePath), `hostile-real-${width}`, { width }, async (page) => {
        for (const mark of (await page.locator(".mark").all()).slice(0, 10)) await mark.hover({ force: true });
        for (const summary of await page.locator("summary").all()) if (await summary.isVisible()) await summary.click();
        assert.equal(await page.evaluate(() => globalThis.pwned), undefined, "no name was executed");
        assert.equal(
          await page.locator("main img, main script, main iframe, main object, main base, main meta, main link, main style").count(),
          0,
        );
        assert.equal(await page.locator('a[href^="javascript"], [onerror], [onload], [ontoggle]').count(), 0);
        const text = await page.textContent("main");
        assert.doesNotMatch(text, kUnprintable);
        assert.ok((await page.textContent(".command")).includes(names[0]), "they are really there, as text");
      }),
    );
  }
});
