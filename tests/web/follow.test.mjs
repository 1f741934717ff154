// Owns the tests of a page that follows a made run: headless Chromium and a server of this file, whose answers are known.
// Does not: test a real recording; live.test.mjs does.
import assert from "node:assert/strict";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { after, before, test } from "node:test";
import { openPage, startBrowser, writePage } from "./browser.mjs";
import { fillTemplate, kTemplate, makeRunningPage, pack } from "./synthetic.mjs";

const kNoNetwork = "default-src 'none';";

let browser;
before(async () => (browser = await startBrowser()));
after(() => browser?.close());

// Serves a recording as `cowprof --serve` does; `tell` replaces it by another, `setAge` makes its last sample so old.
async function withRun(first, body) {
  let [packed, version, age] = [Buffer.from(pack(first), "base64"), 1, 0];
  const template = readFileSync(kTemplate, "utf8").replace(kNoNetwork, `${kNoNetwork} connect-src 'self';`);
  const html = fillTemplate(`live ${Buffer.from("run.json").toString("base64")}`, template);
  const server = createServer((request, response) => {
    if (!request.url.startsWith("/data")) return response.end(html);
    const known = request.headers["if-none-match"] === `"${version}"`;
    response.writeHead(known ? 304 : 200, { "ETag": `"${version}"`, "Cowprof-Poll-Seconds": "0.2", "Cowprof-Sample-Age": String(age) });
    return response.end(known ? undefined : packed);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
  const errors = [];
  try {
    const page = await context.newPage();
    page.on("pageerror", (error) => errors.push(String(error)));
    await page.goto(`http://127.0.0.1:${server.address().port}/?token`);
    await page.waitForSelector('.live[data-state="live"]');
    const tell = (data) => {
      [packed, version] = [Buffer.from(pack(data), "base64"), version + 1];
    };
    const setAge = (seconds) => (age = seconds);
    await body(page, tell, setAge);
  } finally {
    await context.close();
    server.closeAllConnections();
    server.close();
  }
  assert.deepEqual(errors, []);
}

test("an event and a process that get other words later have them at the marks and in the chooser", async () => {
  const data = makeRunningPage({ samples: 170, live: true });
  const later = structuredClone(data);
  later.events.find(({ kind }) => kind === "exit").text = "worker 4201 was killed by the kernel's OOM killer";
  later.report.workers[0].label = "worker 1 of rank 0";
  await withRun(data, async (page, tell) => {
    assert.match(await page.textContent(".lane"), /worker 4201 was killed by SIGKILL/);
    tell(later);
    await page.waitForFunction(() => document.querySelector(".lane").textContent.includes("the kernel's OOM killer"));
    await page.waitForFunction(() => document.querySelector("#scope").textContent.includes("worker 1 of rank 0"));
  });
});

test("an older recording that is decoded for longer does not replace the last one", async () => {
  const [first, held, last] = [100, 120, 170].map((samples) => makeRunningPage({ samples, live: true }));
  Object.assign(last.run, { live: false, complete: true });
  await withRun(first, async (page, tell) => {
    await page.click(".live-button");
    const received = page.waitForResponse((response) => response.url().includes("/data") && response.status() === 200);
    tell(held);
    await (await received).finished();
    await page.evaluate(() => {
      const { arrayBuffer } = Response.prototype;
      const waits = [1500]; // milliseconds that unpacking takes longer, first of the one that is held
      Response.prototype.arrayBuffer = async function () {
        await new Promise((resolve) => setTimeout(resolve, waits.shift() ?? 0));
        return arrayBuffer.call(this);
      };
    });
    await page.evaluate(() => document.querySelector(".live-button").click());
    tell(last);
    await page.waitForSelector('.live[data-state="ended"]');
    await page.waitForTimeout(2000);
    assert.equal(await page.getAttribute(".live", "data-state"), "ended");
    assert.equal(await page.textContent(".live-time"), "2 min 49 s");
  });
});

test("a recorder that has fallen silent, though the server answers, is not live", async () => {
  await withRun(makeRunningPage({ samples: 170, live: true }), async (page, _tell, setAge) => {
    setAge(9);
    await page.waitForTimeout(500);
    assert.equal(await page.getAttribute(".live", "data-state"), "live");
    setAge(187);
    await page.waitForSelector('.live[data-state="silent"]');
    assert.match(await page.textContent(".live"), /no new sample for3 min 07 s/);
    assert.match(await page.textContent(".live-advice"), /^All figures are of 2 min 49 s\. Is the recorder stopped, or its disk full\?$/);
    setAge(0.2);
    await page.waitForSelector('.live[data-state="live"]');
    assert.equal(await page.textContent(".live-advice"), "");
  });
});

test("a live page that was saved as a file says what to do, not the browser's words", async () => {
  const file = writePage("saved-live", fillTemplate(`live ${Buffer.from("my run.json").toString("base64")}`));
  const { page, close } = await openPage(browser, file, {});
  try {
    const words = "The run can't be followed: the server doesn't answer. If it is over: cowprof view 'my run.json'";
    assert.equal(await page.textContent(".failure"), words);
  } finally {
    await close();
  }
});
