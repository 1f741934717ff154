// Measures the page with a million samples: first paint, zoom, panning and heap, beside another viewer as a reference.
//   node tests/bench/page_speed.mjs [--page FILE] [--rounds 5] [--no-peer]     after npm run build in web/
// FILE is a page made by `cowprof view` (from the timeline of tests/bench/million.py); without it a synthetic one is used. The reference
// is speedscope, installed by npm into the temporary folder, with a profile of as many samples; without npm it is skipped and the reason
// printed. Run it alone on the machine; where other work shares it, compare CPU time per frame. The goals are 2 s to first paint, 150 ms
// to zoom, 30 frames a second, 150 MB of heap and a page of 300 KB. Prints, never asserts.
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { cpus, loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { startBrowser, writePage } from "../web/browser.mjs";
import { fillTemplate, kTemplate, makePage } from "../web/synthetic.mjs";

const kPeer = "speedscope@1.25.0";
const kPanMs = 2000;
const kZooms = 10;
const kWorkers = 64;
const kSamples = 15625;

function option(name, fallback) {
  const at = process.argv.indexOf(`--${name}`);
  return at < 0 ? fallback : process.argv[at + 1];
}

const median = (values) => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)];
const most = (values) => Math.max(...values);

function makeOurPage() {
  const given = option("page", null);
  if (given === null) return { path: writePage("bench-million", fillTemplate(makePage({ workers: kWorkers, samples: kSamples }))), what: "made up" };
  // The recording of that page in the current build of the viewer.
  const [, payload] = /<script id="cowprof-data" type="text\/plain">([^<]*)</.exec(readFileSync(given, "utf8"));
  return { path: writePage("bench-million", fillTemplate(payload)), what: given };
}

// The same "random" stacks in every run: 2,000 functions, ten deep on average.
function makePeerProfile() {
  let state = 7;
  const random = (below) => {
    state = (state * 1103515245 + 12345) & 0x7fffffff;
    return state % below;
  };
  const frames = Array.from({ length: 2000 }, (_, i) => ({ name: `function_${i}`, file: `module_${i % 90}.py`, line: i }));
  const stacks = Array.from({ length: 3000 }, (_, i) => Array.from({ length: 5 + random(11) }, (_, depth) => (depth < 3 ? depth : random(20) * 100 + (i % 100))));
  const samples = Array.from({ length: kWorkers * kSamples }, () => stacks[random(stacks.length)]);
  return JSON.stringify({
    $schema: "https://www.speedscope.app/file-format-schema.json", shared: { frames },
    profiles: [{ type: "sampled", name: "million", unit: "milliseconds", startValue: 0, endValue: samples.length, samples, weights: samples.map(() => 1) }],
  });
}

// Opens speedscope as its own command line does: a script beside it passes the profile.
function makePeerPage() {
  const folder = join(tmpdir(), "cowprof-page-bench");
  mkdirSync(folder, { recursive: true });
  const release = join(folder, "node_modules/speedscope/dist/release");
  if (!existsSync(release)) execFileSync("npm", ["install", "--silent", "--no-save", "--ignore-scripts", "--prefix", folder, kPeer], { timeout: 120000, stdio: "pipe" });
  const profile = join(folder, "million.js");
  writeFileSync(profile, `speedscope.loadFileFromBase64("million.json", "${Buffer.from(makePeerProfile()).toString("base64")}")`);
  return { url: `${pathToFileURL(join(release, readdirSync(release).find((name) => name === "index.html"))).href}#localProfilePath=${profile}`, bytes: statSync(profile).size };
}

// Milliseconds from a wheel event to the end of the frame that shows it.
async function measureZooms(page, target) {
  const zooms = [];
  for (let i = 0; i < kZooms; i++) {
    zooms.push(await page.evaluate(async ({ selector, by, ctrlKey }) => {
      const box = document.querySelector(selector).getBoundingClientRect();
      const from = performance.now();
      document.querySelector(selector).dispatchEvent(new WheelEvent("wheel", { deltaY: by, ctrlKey, clientX: box.left + box.width * 0.4, clientY: box.top + 90, bubbles: true, cancelable: true }));
      await new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
      return performance.now() - from;
    }, { ...target, by: i < kZooms / 2 ? -150 : 150 }));
  }
  return zooms;
}

// Zooms in twofold and pans in every frame for two seconds.
function measurePan(page, target) {
  return page.evaluate(async ({ selector, ctrlKey, sideways, ms }) => {
    const element = document.querySelector(selector);
    const box = element.getBoundingClientRect();
    const at = { clientX: box.left + box.width * 0.4, clientY: box.top + 90, bubbles: true, cancelable: true };
    for (let i = 0; i < 2; i++) element.dispatchEvent(new WheelEvent("wheel", { deltaY: -180, ctrlKey, ...at }));
    await new Promise(requestAnimationFrame);
    const from = performance.now();
    const frames = [];
    while (performance.now() - from < ms) {
      element.dispatchEvent(new WheelEvent("wheel", { deltaX: Math.floor(frames.length / 40) % 2 === 0 ? 12 : -12, shiftKey: sideways, ...at }));
      await new Promise(requestAnimationFrame);
      frames.push(performance.now());
    }
    const waits = frames.map((time, i) => time - (frames[i - 1] ?? from));
    return { frames: frames.length, rate: frames.length / ((frames.at(-1) - from) / 1000), longest: Math.max(...waits) };
  }, { ...target, ms: kPanMs });
}

// CPU seconds of all browser processes: the cost of a frame, independent of other load.
async function cpuSeconds(browser) {
  const session = await browser.newBrowserCDPSession();
  const { processInfo } = await session.send("SystemInfo.getProcessInfo");
  await session.detach();
  return processInfo.reduce((sum, one) => sum + one.cpuTime, 0);
}

async function measureHeap(page) {
  const session = await page.context().newCDPSession(page);
  const peak = await session.send("Runtime.getHeapUsage");
  await session.send("HeapProfiler.collectGarbage");
  const kept = await session.send("Runtime.getHeapUsage");
  const sum = ({ usedSize, backingStorageSize }) => (usedSize + (backingStorageSize ?? 0)) / 1e6;
  return { now: sum(peak), kept: sum(kept) };
}

// First paint: the charts exist, and two frames have been shown since.
async function measureOnce(browser, url, { ready, ...target }) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
  const page = await context.newPage();
  await page.goto(url, { waitUntil: "commit" });
  await page.waitForFunction(ready, null, { timeout: 180000, polling: "raf" });
  const paint = await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now())))));
  await page.evaluate((selector) => document.querySelector(selector).scrollIntoView(), target.selector);
  await page.waitForTimeout(800); // right after scrolling, wheel events still scroll the page
  const box = await page.locator(target.selector).first().boundingBox();
  await page.mouse.move(box.x + box.width * 0.4, box.y + 90);
  const zooms = await measureZooms(page, target);
  const before = await cpuSeconds(browser);
  const pan = await measurePan(page, target);
  const cpu = ((await cpuSeconds(browser)) - before) * 1000 / pan.frames;
  const heap = await measureHeap(page);
  await context.close();
  return { paint, zooms, pan, cpu, heap };
}

async function measure(name, url, target, count) {
  const browser = await startBrowser();
  const rounds = [];
  for (let i = 0; i < count; i++) rounds.push(await measureOnce(browser, url, target));
  await browser.close();
  const of = (pick) => rounds.map(pick);
  return {
    "": name,
    "first paint ms": `${median(of((one) => one.paint)).toFixed(0)} (${most(of((one) => one.paint)).toFixed(0)})`,
    "zoom ms": `${median(rounds.flatMap((one) => one.zooms)).toFixed(0)} (${most(of((one) => median(one.zooms))).toFixed(0)})`,
    "pan frames/s": `${median(of((one) => one.pan.rate)).toFixed(0)} (${Math.min(...of((one) => one.pan.rate)).toFixed(0)})`,
    "CPU ms per frame": median(of((one) => one.cpu)).toFixed(0),
    "longest frame ms": most(of((one) => one.pan.longest)).toFixed(0),
    "heap MB": `${median(of((one) => one.heap.now)).toFixed(0)} (${median(of((one) => one.heap.kept)).toFixed(0)} kept)`,
  };
}

const kRounds = Number(option("rounds", 5));
const kPeerRounds = 1; // needs minutes and gigabytes
const ours = makeOurPage();
console.log(`${cpus().length} CPUs, load ${loadavg()[0].toFixed(1)} before the start; ${kWorkers * kSamples} samples (${ours.what}); median (worst) of ${kRounds} rounds, of the peer ${kPeerRounds}`);
console.log(`empty page ${(statSync(kTemplate).size / 1024).toFixed(0)} KiB, page ${(statSync(ours.path).size / 2 ** 20).toFixed(1)} MiB`);
const table = [await measure("cowprof", pathToFileURL(ours.path).href, { selector: ".plots", ready: () => document.querySelectorAll(".strip canvas").length >= 3, ctrlKey: false, sideways: true }, kRounds)];
if (!process.argv.includes("--no-peer")) {
  try {
    const peer = makePeerPage();
    console.log(`${kPeer}: profile ${(peer.bytes / 2 ** 20).toFixed(1)} MiB`);
    const ready = () => document.body.innerText.includes("Time Order") && document.querySelectorAll("canvas").length > 0 && !/loading/i.test(document.body.innerText);
    table.push(await measure("speedscope", peer.url, { selector: "canvas", ready, ctrlKey: true, sideways: false }, kPeerRounds));
  } catch (failure) {
    console.log(`speedscope was skipped: ${String(failure.message ?? failure).split("\n")[0]}`);
  }
}
console.table(table);
console.log(`load ${loadavg()[0].toFixed(1)} at the end`);
