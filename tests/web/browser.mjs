// Owns the tests' browser: starts it, opens a page from a file, and records everything that a good page never does.
// Does not: judge; the tests assert on what was recorded.
import { existsSync, mkdirSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath, pathToFileURL } from "node:url";

const require = createRequire(new URL("../../web/package.json", import.meta.url));
const { chromium } = require("playwright-core");

// The same engine as Chromium's, with 40 % less CPU time for these tests.
const kShell = "/usr/bin/chromium-headless-shell";
const kChromium = process.env.COWPROF_CHROMIUM ?? (existsSync(kShell) ? kShell : "/usr/bin/chromium");
const kArguments = [
  "--headless",
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];
export const kOut = fileURLToPath(new URL("out/", import.meta.url));

export function startBrowser() {
  mkdirSync(kOut, { recursive: true });
  return chromium.launch({ executablePath: kChromium, args: kArguments });
}

export function writePage(name, html) {
  mkdirSync(kOut, { recursive: true });
  const path = `${kOut}${name}.html`;
  writeFileSync(path, html);
  return path;
}

// Opens a file; `noted` fills with console errors, exceptions, policy violations and requests beyond the file itself.
export async function openPage(browser, path, { width = 1280, height = 900, scheme = "light" } = {}) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: scheme });
  const page = await context.newPage();
  const url = pathToFileURL(path).href;
  const noted = { errors: [], requests: [], violations: [] };
  page.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) noted.errors.push(message.text());
  });
  page.on("pageerror", (error) => noted.errors.push(String(error)));
  page.on("dialog", (dialog) => {
    noted.errors.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on("request", (request) => {
    if (request.url() !== url && !request.url().startsWith("data:")) noted.requests.push(request.url());
  });
  await page.exposeFunction("noteViolation", (text) => noted.violations.push(text));
  await page.addInitScript(() => {
    document.addEventListener("securitypolicyviolation", (event) =>
      globalThis.noteViolation(`${event.violatedDirective} ${event.blockedURI}`),
    );
  });
  await page.goto(url);
  await page.waitForSelector("main");
  return { page, noted, close: () => context.close() };
}

// For people to look at, in out/, where COWPROF_WEB_PICTURES is set: a third of the time of a visit.
export async function takePicture(what, name, options = { fullPage: true }) {
  if (process.env.COWPROF_WEB_PICTURES) await what.screenshot({ path: `${kOut}${name}.png`, ...options });
}

// Opens a page, lets `body` look at it, takes a picture, and returns what was noted.
export async function visitPage(browser, path, name, options, body) {
  const { page, noted, close } = await openPage(browser, path, options);
  try {
    await body(page);
    await takePicture(page, name);
    return noted;
  } finally {
    await close();
  }
}

// How many pixels of a canvas are painted, and in how many colours.
export function paintedPixels(page, selector) {
  return page.$eval(selector, (canvas) => {
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    const colours = new Set();
    let painted = 0;
    for (let i = 0; i < data.length; i += 4) {
      if (data[i + 3] === 0) continue;
      painted++;
      colours.add((data[i] << 16) | (data[i + 1] << 8) | data[i + 2]);
    }
    return { painted, colours: colours.size };
  });
}
