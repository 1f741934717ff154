// What `cowprof diff` and `check` print for a pull request, rendered by marked, which reads GitHub's dialect, in Chromium.
// COWPROF_MARKDOWN names recordings, separated by ':'; COWPROF_TOOL is the tool. Without them the tests are skipped.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import { startBrowser, takePicture, writePage } from "./browser.mjs";

const require = createRequire(new URL("../../web/package.json", import.meta.url));
const { marked } = require("marked");

const { COWPROF_MARKDOWN: recordings, COWPROF_TOOL: tool } = process.env;
const skip = recordings && tool ? false : "COWPROF_MARKDOWN is not set: no recordings to compare";
if (skip) console.log(`markdown.test.mjs: skipped, ${skip}`);

const kStyle = "table { border-collapse: collapse } td, th { border: 1px solid #ccc; padding: 4px 10px }";

let browser;
before(async () => {
  if (!skip) browser = await startBrowser();
});
after(() => browser?.close());

// Each table as rows of texts, the header first; and the text of everything.
async function render(name, words) {
  const { stdout } = spawnSync(tool, [...words, "--format", "markdown"], { encoding: "utf8" });
  assert.match(stdout, new RegExp(`^<!-- cowprof ${words[0]} -->\n`));
  const body = marked.parse(stdout, { gfm: true });
  const path = writePage(name, `<!doctype html><meta charset="utf-8"><style>${kStyle}</style><main>${body}</main>`);
  const page = await browser.newPage();
  await page.goto(pathToFileURL(path).href);
  await takePicture(page, name);
  const tables = await page.$$eval("table", (found) =>
    found.map((table) => [...table.rows].map((row) => [...row.cells].map((cell) => cell.textContent))),
  );
  const text = await page.textContent("main");
  const elements = await page.$$eval("main *", (found) => [...new Set(found.map((one) => one.localName))].sort());
  await page.close();
  for (const table of tables) for (const row of table) assert.equal(row.length, table[0].length);
  const plain = ["p", "strong", "table", "tbody", "td", "th", "thead", "tr"];
  assert.deepEqual(
    elements.filter((one) => !plain.includes(one)),
    [],
    "no name became an element",
  );
  assert.doesNotMatch(text, /\| ?---|\\[|*_<]/, "nothing is left of the markup");
  return { tables, text };
}

test("diff: the figures, the lines and the types are tables", { skip }, async () => {
  for (const [index, recording] of recordings.split(":").entries()) {
    const { tables } = await render(`markdown-diff-${index}`, ["diff", recording, recording]);
    assert.deepEqual(
      [recording, ...tables.map((table) => table[0])],
      [recording, ...["", "line", "type"].map((title) => [title, "A", "B", "change", ""])],
    );
    assert.equal(tables[0][1][0], "copied by the workers");
    for (const table of tables) assert.ok(table.length > 1);
  }
});

test("check: a row for each bound", { skip }, async () => {
  for (const [index, recording] of recordings.split(":").entries()) {
    const { tables, text } = await render(`markdown-check-${index}`, ["check", recording, "--max-copied=1KiB", "--max-private=1TiB"]);
    assert.equal(tables[0].length, 3);
    assert.match(text, /--max-copied 1KiB/);
  }
});
