// Owns the tests of a page that follows a run: headless Chromium on a real `cowprof --serve`, by what is visible.
// COWPROF_TOOL names the tool; needs root.
// Does not: test who the server lets in; tests/system/test_serve.py does.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { startBrowser, takePicture } from "./browser.mjs";
import { bytesShown } from "./checks.mjs";

const tool = process.env.COWPROF_TOOL;
const skip = !tool
  ? "COWPROF_TOOL is not set: no tool to record with"
  : process.getuid() !== 0
    ? "not root: nothing can be recorded"
    : false;
if (skip) console.log(`live.test.mjs: skipped, ${skip}`);
const kWorkload = fileURLToPath(new URL("../system/workloads/steady_readers.py", import.meta.url));
const kDeadline = 30_000;

let browser;
let folder;
before(async () => {
  if (skip) return;
  folder = mkdtempSync(join(tmpdir(), "cowprof-live-"));
  browser = await startBrowser();
});
after(async () => {
  await browser?.close();
  if (folder) rmSync(folder, { recursive: true });
});

function firstLine(stream, pattern) {
  return new Promise((resolve, reject) => {
    const lines = createInterface(stream);
    lines.on("line", (line) => {
      if (pattern.test(line)) resolve(pattern.exec(line)[0]);
    });
    lines.on("close", () => reject(new Error(`no line with ${pattern}`)));
  });
}

// A run with two workers, its recorder, and the page in a browser; `body` gets all three.
async function withRun(name, body, options = {}) {
  const run = spawn("/usr/bin/python3", [kWorkload, "2"], { stdio: ["pipe", "pipe", "inherit"] });
  let recorder;
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const noted = { errors: [], requests: [] };
  try {
    await firstLine(run.stdout, /ready/);
    recorder = spawn(tool, ["--attach", run.pid, "--interval", "200ms", "--quiet", "--serve", "--output", join(folder, `${name}.json`)], {
      stdio: ["ignore", "ignore", "pipe"],
    });
    const address = await firstLine(recorder.stderr, /http:\/\/\S+/);
    const page = await context.newPage();
    page.setDefaultTimeout(kDeadline);
    page.on("console", (message) => {
      if (["error", "warning"].includes(message.type())) noted.errors.push(message.text());
    });
    page.on("pageerror", (error) => noted.errors.push(String(error)));
    page.on("request", (request) => {
      if (new URL(request.url()).origin !== new URL(address).origin) noted.requests.push(request.url());
    });
    await page.goto(address);
    await page.waitForSelector("main .live");
    await body({ page, run, recorder, noted });
    await takePicture(page, `live-${name}`);
    assert.deepEqual(
      noted.requests.filter((url) => !url.startsWith("data:")),
      [],
      "the page asks nobody but its server",
    );
  } finally {
    await context.close();
    run.kill("SIGKILL");
    recorder?.kill("SIGKILL");
  }
  return noted;
}

const copied = async (page) => bytesShown(await page.textContent("#tile-copied .tile-value"));
const state = (page) => page.getAttribute(".live", "data-state");

// Waits until more was copied than `amount`; the page itself is not told to do anything.
async function grownBeyond(page, amount) {
  const deadline = Date.now() + kDeadline;
  for (;;) {
    const now = await copied(page);
    if (now > amount) return now;
    assert.ok(Date.now() < deadline, `copied stays at ${now}`);
    await page.waitForTimeout(50);
  }
}

test("figures grow, the timeline follows, and the end is said", { skip }, async () => {
  const noted = await withRun("end", async ({ page, run, recorder }) => {
    assert.equal(await state(page), "live");
    await grownBeyond(page, await copied(page));
    assert.equal(await page.locator(".warning").count(), 0, "a run that goes on was not cut off");
    const shown = await page.textContent(".live-time");
    await page.waitForFunction((before) => document.querySelector(".live-time").textContent !== before, shown);
    await takePicture(page, "live-following");

    const over = new Promise((resolve) => recorder.once("exit", resolve));
    run.stdin.end();
    await page.waitForSelector('.live[data-state="ended"]');
    assert.equal(await over, 0, "the recorder ends well");
    assert.match(await page.textContent(".live-advice"), /cowprof view .*end\.json/);
    const last = await page.$$eval("#workers tbody.workers tr", (rows) => rows.map((row) => row.lastElementChild.textContent));
    assert.equal(last.length, 2);
    for (const words of last) assert.match(words, /SIGTERM/, "the page has the last sample");
  });
  assert.deepEqual(noted.errors, []);
});

test("focus, sorting, zoom, pin and what is unfolded survive updates", { skip }, async () => {
  const noted = await withRun("kept", async ({ page }) => {
    await grownBeyond(page, 2 ** 20);
    await page.locator("#workers thead button", { hasText: /^pid/ }).click();
    await page.locator("#workers thead button", { hasText: /^pid/ }).click();
    await page.locator("#workers tbody.workers .row-button").first().click();
    const pid = await page.locator("#workers tbody.workers .row-button").first().textContent();
    await page.locator("details summary", { hasText: /event/ }).click();
    for (let steps = 0; steps < 4; steps++) await page.locator(".zoom-step", { hasText: "+" }).click();
    const kept = () =>
      page.evaluate(() => ({
        sort:
          document.querySelector("#workers th[aria-sort]:not([aria-sort=none])").textContent +
          document.querySelector("#workers th[aria-sort]:not([aria-sort=none])").ariaSort,
        pinned: [...document.querySelectorAll(".row-button[aria-pressed=true]")].map((button) => button.textContent),
        unfolded: document.querySelectorAll("details[open]").length,
        zoomed: !document.querySelector(".show-all").hidden,
      }));
    const before = await kept();
    assert.deepEqual({ ...before, sort: "" }, { sort: "", pinned: [pid], unfolded: 1, zoomed: true });
    await page.locator(`#workers tbody.workers .row-button >> text=${pid}`).focus();
    await page.evaluate(() => scrollBy({ top: document.activeElement.getBoundingClientRect().top - 300, behavior: "instant" }));
    // Not scrollY: it moves along with what grows above.
    const top = () => page.evaluate(() => document.activeElement.getBoundingClientRect().top);
    const read = await top();
    let amount = await copied(page);
    for (let updates = 0; updates < 3; updates++) amount = await grownBeyond(page, amount);
    assert.equal(await page.evaluate(() => document.activeElement.textContent), pid, "the same row has the focus");
    assert.deepEqual(await kept(), before);
    assert.ok(Math.abs((await top()) - read) < 4, "what is being read stays where it is");
    await page.focus(".compare-button");
    for (let updates = 0; updates < 2; updates++) amount = await grownBeyond(page, amount);
    assert.equal(await page.evaluate(() => document.activeElement.className), "compare-button", "put back into a header that was rebuilt");
  });
  assert.deepEqual(noted.errors, []);
});

test("a server that falls silent is a lost connection, until it answers again", { skip }, async () => {
  const noted = await withRun("silent", async ({ page, recorder }) => {
    await grownBeyond(page, 2 ** 20);
    const children = readFileSync(`/proc/${recorder.pid}/task/${recorder.pid}/children`, "utf8").trim().split(" ").map(Number);
    const server = children.find((pid) => readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("serve-page"));
    process.kill(server, "SIGSTOP");
    await page.waitForSelector('.live[data-state="lost"]');
    const held = await copied(page); // the workers, who go on, may have copied all there is when the page hears again
    process.kill(server, "SIGCONT");
    await page.waitForSelector('.live[data-state="live"]');
    await grownBeyond(page, held);
  });
  assert.deepEqual(noted.errors, []);
});

test("pausing holds the page, going on catches up; a recorder that is killed is a lost connection", { skip }, async () => {
  const noted = await withRun(
    "lost",
    async ({ page, recorder }) => {
      await page.click(".live-button");
      assert.equal(await state(page), "paused");
      const held = await copied(page);
      await page.waitForResponse((response) => response.url().includes("/data") && response.status() === 200);
      await page.waitForResponse((response) => response.url().includes("/data") && response.status() === 200);
      assert.equal(await copied(page), held);
      await page.click(".live-button");
      await grownBeyond(page, held);
      recorder.kill("SIGKILL");
      await page.waitForSelector('.live[data-state="lost"]');
      assert.ok((await copied(page)) > held, "what was there stays");
    },
    { colorScheme: "dark", viewport: { width: 390, height: 844 } },
  );
  assert.ok(
    noted.errors.every((text) => text.includes("ERR_CONNECTION_REFUSED")),
    String(noted.errors),
  );
});
