// Owns the pictures of the documents: made anew from a real recording, and compared with docs/images by what they show, since no two
// recordings have the same figures. COWPROF_PICTURES is the folder with the recording; COWPROF_UPDATE replaces docs/images.
// Does not: record; pictures.sh does.
import assert from "node:assert/strict";
import { mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { deflateSync } from "node:zlib";
import { openPage, startBrowser } from "./browser.mjs";

const require = createRequire(new URL("../../web/package.json", import.meta.url));
const kImages = fileURLToPath(new URL("../../docs/images/", import.meta.url));
const kUpdate = "sudo tests/web/pictures.sh build/cowprof build/web-test --update";
const kMostBytes = 200_000;
const kSignature = Buffer.from("\x89PNG\r\n\x1a\n", "latin1");
const kPageWidth = 1300;
const kSize = { cols: 100, rows: 24 };
const kHeads =
  /^ *(cowprof(?= )|Forecast:|(?:workers|parent|worker|host|fds|shm|shm-inodes)(?= )|copied because of:|pid .*|every copy counted; .*)/;
const folder = process.env.COWPROF_PICTURES;

let browser;
before(async () => {
  browser = await startBrowser();
});
after(() => browser?.close());

// A picture of 256 colours takes half the bytes of Chromium's own; those beyond the 256 most frequent become the nearest of these.
async function encode(screenshot) {
  const page = await browser.newPage();
  try {
    const { width, height, palette, rows } = await page.evaluate(
      async (source) => {
        const image = await createImageBitmap(await (await fetch(source)).blob());
        const { width, height } = image;
        const context = new OffscreenCanvas(width, height).getContext("2d");
        context.drawImage(image, 0, 0);
        const pixels = new Uint32Array(context.getImageData(0, 0, width, height).data.buffer);
        const parts = (pixel) => [pixel & 255, (pixel >> 8) & 255, (pixel >> 16) & 255];
        const frequency = new Map();
        for (const pixel of pixels) frequency.set(pixel, (frequency.get(pixel) ?? 0) + 1);
        const palette = [...frequency.keys()]
          .sort((a, b) => frequency.get(b) - frequency.get(a))
          .slice(0, 256)
          .map(parts);
        const indexes = new Map();
        for (const pixel of frequency.keys()) {
          const distances = palette.map((colour) => parts(pixel).reduce((sum, part, i) => sum + (part - colour[i]) ** 2, 0));
          indexes.set(pixel, distances.indexOf(Math.min(...distances)));
        }
        const rows = [];
        for (let i = 0; i < pixels.length; i++) {
          if (i % width === 0) rows.push(0); // this row has no filter
          rows.push(indexes.get(pixels[i]));
        }
        return { width, height, palette: palette.flat(), rows };
      },
      `data:image/png;base64,${screenshot.toString("base64")}`,
    );
    const header = Buffer.alloc(13);
    header.writeUInt32BE(width, 0);
    header.writeUInt32BE(height, 4);
    header.set([8, 3], 8); // bits of an index, "palette"
    const parts = [chunk("IHDR", header), chunk("PLTE", Buffer.from(palette)), chunk("IDAT", deflateSync(Buffer.from(rows), { level: 9 }))];
    return Buffer.concat([kSignature, ...parts, chunk("IEND", Buffer.alloc(0))]);
  } finally {
    await page.close();
  }
}

function chunk(name, content) {
  const named = Buffer.concat([Buffer.from(name), content]);
  let crc = 0xffffffff;
  for (const byte of named) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  }
  const ends = Buffer.alloc(8);
  ends.writeUInt32BE(content.length, 0);
  ends.writeUInt32BE(~crc >>> 0, 4);
  return Buffer.concat([ends.subarray(0, 4), named, ends.subarray(4)]);
}

// `shown`: lines that are the same in every such picture unless the program has changed.
async function compare(name, screenshot, shown) {
  const picture = await encode(screenshot);
  const text = `${shown.join("\n")}\n`;
  writeFileSync(join(folder, `${name}.png`), picture);
  if (process.env.COWPROF_UPDATE) {
    mkdirSync(kImages, { recursive: true });
    writeFileSync(`${kImages}${name}.png`, picture);
    writeFileSync(`${kImages}${name}.txt`, text);
  }
  assert.ok(shown.length >= 8, text);
  assert.equal(
    text,
    readFileSync(`${kImages}${name}.txt`, "utf8"),
    `docs/images/${name}.png is out of date; look at what changed, then run: ${kUpdate}`,
  );
  assert.ok(picture.length < kMostBytes, `${name}.png has ${picture.length} bytes`);
  assert.ok(statSync(`${kImages}${name}.png`).size < kMostBytes);
}

test("the page", async () => {
  const { page, noted, close } = await openPage(browser, join(folder, "pictures.html"), { width: kPageWidth, height: 2600 });
  try {
    const height = await page.$eval("#timeline .strip", (strip) => Math.ceil(strip.getBoundingClientRect().bottom));
    const shown = await page.$$eval(
      "header button, .pill, .forecast-name, main dt, main h2, main summary, main .switch-entry",
      (all, height) =>
        all
          .filter((one) => one.checkVisibility() && one.getBoundingClientRect().bottom < height)
          .map((one) => one.textContent.replace(/(?<=^Forecast|^limit|\().*$/, "").trim()),
      height,
    );
    await compare("page", await page.screenshot({ clip: { x: 0, y: 0, width: kPageWidth, height } }), shown);
    assert.deepEqual(noted.errors, []);
  } finally {
    await close();
  }
});

test("the live screen", async () => {
  const recorded = readFileSync(join(folder, "pictures.typescript"));
  const leaves = recorded.indexOf("\x1b[H\x1b[J\x1b[?7h\x1b[?25h\x1b[?1049l");
  assert.ok(leaves > 0, "the screen was not left");
  const page = await browser.newPage({ viewport: { width: 1000, height: 700 } });
  try {
    await page.setContent(
      '<body style="margin:0;background:#1b1d23"><div id="screen" style="display:inline-block;padding:12px"></div></body>',
    );
    await page.addStyleTag({ path: require.resolve("@xterm/xterm/css/xterm.css") });
    await page.addScriptTag({ path: require.resolve("@xterm/xterm") });
    const lines = await page.evaluate(
      async ([size, bytes]) => {
        const theme = { background: "#1b1d23", foreground: "#d8dce4" };
        const terminal = new globalThis.Terminal({
          ...size,
          theme,
          fontFamily: "DejaVu Sans Mono",
          fontSize: 14,
          lineHeight: 1.2,
          cursorInactiveStyle: "none",
        });
        terminal.open(document.getElementById("screen"));
        await new Promise((resolve) => terminal.write(Uint8Array.from(bytes), resolve));
        await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
        return Array.from({ length: size.rows }, (_, row) => terminal.buffer.active.getLine(row).translateToString(true));
      },
      [kSize, [...recorded.subarray(0, leaves)]],
    );
    // What begins a line or heads the columns; figures and paths are the recording's, and so is whether a worker lives.
    const heads = lines.flatMap((line) => kHeads.exec(line)?.[1] ?? []).filter((head) => head !== "worker");
    await compare("live", await page.locator("#screen").screenshot(), [...new Set(heads)].sort());
  } finally {
    await page.close();
  }
});
