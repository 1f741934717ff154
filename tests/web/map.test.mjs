// Owns the tests of the page map by what is visible: the colour of known pages at known times, the words, the keys, the saved picture.
// Does not: test the other sections; page.test.mjs and its neighbours do.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { kOut, openPage, startBrowser, takePicture, writePage } from "./browser.mjs";
import { assertBytes, checkNoOverflow, checkQuiet, settle } from "./checks.mjs";
import { kBase, makeLargeMapPage, makeMapPage } from "./made_map.mjs";
import { fillTemplate, kHostile, makeEmptyPage, makePage } from "./synthetic.mjs";

let browser;
before(async () => (browser = await startBrowser()));
after(() => browser?.close());

async function withMap(name, data, options, body) {
  const { page, noted, close } = await openPage(browser, writePage(`map-${name}`, fillTemplate(data)), options);
  try {
    if (options.calm) await page.emulateMedia({ reducedMotion: "reduce" });
    await page.locator("#map").scrollIntoViewIfNeeded();
    if (!options.empty) await page.waitForFunction(() => document.querySelector(".map-figures strong") !== null);
    await body(page);
    await takePicture(page.locator("#map"), `map-${name}`, {});
  } finally {
    await close();
  }
  noted.requests = noted.requests.filter((url) => !url.startsWith("blob:")); // the saved picture, made here
  checkQuiet(noted);
}

async function goTo(page, seconds) {
  await page.$eval(
    ".map-slider",
    (slider, value) => {
      slider.value = String(value);
      slider.dispatchEvent(new Event("input"));
    },
    seconds,
  );
  await settle(page);
}

// Puts the keyboard's cursor on a page of an arena in the first line of the map.
async function focusPage(page, arena, column = 0, row = 0) {
  await page.focus(".map-frame");
  await page.keyboard.press("Home");
  for (let i = 0; i < arena; i++) await page.keyboard.press("Shift+ArrowRight");
  for (let i = 0; i < column; i++) await page.keyboard.press("ArrowRight");
  for (let i = 0; i < row; i++) await page.keyboard.press("ArrowDown");
}

// The colour in the middle of the page that the keyboard's cursor frames.
function colourThere(page) {
  return page.evaluate(() => {
    const [canvas, cell] = [document.querySelector(".map-canvas"), document.querySelector(".map-cell")];
    const scale = canvas.width / canvas.clientWidth;
    const [x, y] = [cell.offsetLeft + cell.offsetWidth / 2, cell.offsetTop + cell.offsetHeight / 2].map((one) => Math.floor(one * scale));
    return [...canvas.getContext("2d").getImageData(x, y, 1, 1).data]
      .slice(0, 3)
      .map((level) => level.toString(16).padStart(2, "0"))
      .join("");
  });
}

function themeColour(page, name) {
  return page.evaluate((key) => getComputedStyle(document.documentElement).getPropertyValue(key).trim().replace("#", ""), `--${name}`);
}

const tipLines = (page) => page.$$eval(".map-tip p", (lines) => lines.map((line) => line.textContent));

for (const scheme of ["light", "dark"]) {
  test(`a page has the colour of its cause from its copy on, not before (${scheme})`, async () => {
    await withMap(`colours-${scheme}`, makeMapPage(), { scheme }, async (page) => {
      const names = ["refcount", "gc-header", "map-shared", "map-new", "map-private"];
      const [refcount, collector, shared, fresh, hidden] = await Promise.all(names.map((name) => themeColour(page, name)));
      assert.equal(new Set([refcount, collector, shared, fresh, hidden]).size, names.length);
      const colours = async (arena, times) => {
        await focusPage(page, arena, 3, 2);
        const found = [];
        for (const seconds of times) {
          await goTo(page, seconds);
          found.push(await colourThere(page));
        }
        return found;
      };
      assert.deepEqual(await colours(1, [29, 59, 29, 179]), [shared, refcount, shared, refcount]);
      assert.deepEqual(await colours(4, [110, 179]), [shared, collector]);
      assert.deepEqual(await colours(3, [89, 179]), [shared, refcount]);
      assert.deepEqual(await colours(0, [29, 159]), [shared, shared]);
      assert.deepEqual(await colours(5, [140, 179]), [shared, fresh], "an arena of the worker's own");
      const textureOf = async (arena) => {
        const found = [];
        for (const [column, row] of [
          [0, 0],
          [1, 0],
          [0, 1],
          [1, 1],
        ]) {
          await focusPage(page, arena, column, row);
          found.push(await colourThere(page));
        }
        return found;
      };
      assert.deepEqual(await textureOf(5), [fresh, fresh, shared, shared], "stripes");
      assert.deepEqual(await textureOf(0), [hidden, shared, shared, hidden], "private by count, and nobody saw the copies");
      const [, flash] = await colours(1, [29, 30.5]);
      assert.ok(flash !== shared && flash !== refcount, "a fresh copy stands out");
    });
  });
}

test("figures and legend run along; the selection counts only what it holds", async () => {
  await withMap("figures", makeMapPage(), {}, async (page) => {
    const figures = () => page.textContent(".map-figures strong");
    const amount = (name) => page.locator(".map-legend li", { hasText: name }).locator(".map-amount").textContent();
    assert.equal(await figures(), "3.6 MiB"); // 256 + 256 + 128 + 256 + 20 + 1 pages
    assert.equal(await amount("Reference counts"), "2.5 MiB");
    assert.equal(await amount("Garbage collector"), "1.0 MiB");
    assert.equal(await amount("Data"), "84.0 KiB");
    await goTo(page, 45);
    assert.equal(await figures(), "1.0 MiB");
    await page.focus(".plots");
    await page.keyboard.press("["); // the span begins at the cursor
    await goTo(page, 100);
    await page.focus(".plots");
    await page.keyboard.press("]");
    await settle(page);
    assert.equal(await figures(), "1.6 MiB"); // 256 + 128 + 20 + 1
    assert.match(await page.textContent(".map-figures"), /recorded as copied from 0:4\d\.\d to 1:(39|40)/);
    await focusPage(page, 1);
    assert.equal(await colourThere(page), await themeColour(page, "map-shared"), "copied before the selection");
    await page.keyboard.press("Escape"); // the page's cursor first, then the selection
    await page.keyboard.press("Escape");
    await settle(page);
    await goTo(page, 179);
    assert.equal(await figures(), "3.6 MiB");
  });
});

test("hovering says region, cause, time and place; the keyboard says the same", async () => {
  await withMap("hover", makeMapPage(), {}, async (page) => {
    await focusPage(page, 1, 3, 2);
    const lines = await tipLines(page);
    assert.deepEqual(lines.slice(0, 4), [
      "Copied: Reference counts",
      `pymalloc arena at 0x${((kBase + 256) * 4096).toString(16)}`,
      `page 36 of 256, 0x${((kBase + 256 + 35) * 4096).toString(16)}`,
      "between 0:10.0 and 0:30.0",
    ]);
    assert.equal(lines[4], "Sweep at 0:20.0: 0 private, 256 shared");
    assert.equal(await page.textContent(".map-unseen"), lines.join(". "), "read out");
    const box = await page.locator(".map-cell").boundingBox();
    await page.keyboard.press("End");
    assert.notDeepEqual(await tipLines(page), lines);
    await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
    assert.deepEqual(await tipLines(page), lines);
    await goTo(page, 20);
    await page.mouse.move(box.x + box.width / 2 + 1, box.y + box.height / 2);
    assert.deepEqual((await tipLines(page)).slice(0, 1), ["Not copied at this time"]);
    assert.match((await tipLines(page))[3], /^Copied between 0:\d\d\.0 and 0:30\.0: Reference counts$/);
    await page.keyboard.press("Escape");
    assert.ok(await page.locator(".map-tip").isHidden());
  });
});

test("the cursor of the timeline and the scrubber are one", async () => {
  await withMap("cursor", makeMapPage(), {}, async (page) => {
    await goTo(page, 60);
    const line = await page
      .locator(".cursor-line")
      .first()
      .evaluate((one) => ({ hidden: one.hidden, at: one.style.transform }));
    assert.equal(line.hidden, false);
    await goTo(page, 90);
    assert.notEqual(
      await page
        .locator(".cursor-line")
        .first()
        .evaluate((one) => one.style.transform),
      line.at,
    );
    const over = page.locator(".plots");
    await over.scrollIntoViewIfNeeded();
    const box = await over.boundingBox();
    await page.mouse.move(box.x + box.width * 0.3, box.y + box.height * 0.3);
    await settle(page);
    const hovered = Number(await page.inputValue(".map-slider"));
    assert.ok(hovered > 5 && hovered < 80, `the scrubber followed to ${hovered}`);
    await page.mouse.move(2, 2);
    await settle(page);
    assert.ok(Math.abs(Number(await page.inputValue(".map-slider")) - 90) < 0.5, "and came back");
  });
});

test("play runs and pauses, by button and by space; nothing plays by itself", async () => {
  await withMap("play", makeMapPage(), {}, async (page) => {
    const position = async () => Number(await page.inputValue(".map-slider"));
    const end = await position();
    assert.equal(await page.textContent(".map-play"), "Play");
    await page.focus(".map-slider");
    await page.keyboard.press(" ");
    assert.equal(await page.textContent(".map-play"), "Pause");
    await page.waitForFunction((last) => Number(document.querySelector(".map-slider").value) < last * 0.5, end);
    const early = await position();
    await page.waitForFunction((before) => Number(document.querySelector(".map-slider").value) > before + 5, early);
    await page.click(".map-play");
    await settle(page); // the last step may still be on its way
    const paused = await position();
    await settle(page);
    assert.equal(await position(), paused);
    await page.focus(".map-slider");
    await page.keyboard.press("ArrowRight");
    assert.ok((await position()) > paused, "the arrows go on from there");
    await page.focus(".map-frame");
    await page.keyboard.press(" ");
    await page.waitForFunction(
      () =>
        document.querySelector(".map-play").textContent === "Play" &&
        Number(document.querySelector(".map-slider").value) === Number(document.querySelector(".map-slider").max),
      null,
      { timeout: 60_000 },
    );
  });
});

test("who wants less motion sees still pictures without flashes", async () => {
  await withMap("calm", makeMapPage(), { calm: true }, async (page) => {
    await goTo(page, 30.5);
    await focusPage(page, 1);
    assert.equal(await colourThere(page), await themeColour(page, "refcount"));
    await goTo(page, 0);
    await page.click(".map-play");
    const seen = await page.evaluate(
      () =>
        new Promise((done) => {
          const values = new Set();
          const began = performance.now();
          const look = () => {
            values.add(document.querySelector(".map-slider").value);
            if (performance.now() - began < 3000) requestAnimationFrame(look);
            else done(values.size);
          };
          look();
        }),
    );
    assert.ok(seen <= 5, `${seen} pictures in 3 seconds`);
  });
});

test("the picture is saved as a PNG with the map in it", async () => {
  await withMap("picture", makeMapPage(), { scheme: "dark" }, async (page) => {
    await goTo(page, 90);
    const [download] = await Promise.all([page.waitForEvent("download"), page.click("text=Save picture")]);
    assert.match(download.suggestedFilename(), /^cowprof-map-4200-(89\.\d|90\.0)s\.png$/);
    const path = `${kOut}map-saved.png`;
    await download.saveAs(path);
    const bytes = readFileSync(path);
    assert.equal(bytes.subarray(1, 4).toString(), "PNG");
    assert.deepEqual([bytes.readUInt32BE(16), bytes.readUInt32BE(20)], [3200, 1800]);
    const other = await browser.newPage();
    const shares = await other.evaluate(
      async ({ data, names }) => {
        const image = await createImageBitmap(await (await fetch(`data:image/png;base64,${data}`)).blob());
        const canvas = new OffscreenCanvas(image.width, image.height);
        const context = canvas.getContext("2d");
        context.drawImage(image, 0, 0);
        const counts = Object.fromEntries(names.map((name) => [name, 0]));
        const pixels = context.getImageData(0, 0, image.width, image.height).data;
        for (let i = 0; i < pixels.length; i += 4) {
          const colour = [pixels[i], pixels[i + 1], pixels[i + 2]].map((level) => level.toString(16).padStart(2, "0")).join("");
          if (colour in counts) counts[colour]++;
        }
        return counts;
      },
      {
        data: bytes.toString("base64"),
        names: [await themeColour(page, "refcount"), await themeColour(page, "map-shared"), await themeColour(page, "text")],
      },
    );
    await other.close();
    for (const [colour, pixels] of Object.entries(shares)) assert.ok(pixels > 1000, `${pixels} pixels of ${colour}`);
  });
});

test("the large view fills the window and gives the map back", async () => {
  await withMap("large", makeMapPage({ arenas: 300 }), { width: 1600, height: 1000, scheme: "dark" }, async (page) => {
    const area = () => page.$eval(".map-canvas", (canvas) => canvas.clientWidth * canvas.clientHeight);
    const before = await area();
    await page.click("text=Large");
    await settle(page);
    assert.ok((await area()) > before * 1.3, `${await area()} after ${before}`);
    await checkNoOverflow(page);
    await takePicture(page, "map-large-open", {});
    await page.keyboard.press("Escape");
    await settle(page);
    assert.equal(await area(), before);
    assert.equal(await page.locator("#map > .map-body").count(), 1);
    await goTo(page, 45);
    await page.focus(".plots");
    await page.keyboard.press("["); // selects a span
    await page.click("text=Large");
    await page.focus(".map-play");
    await page.keyboard.press("Escape");
    await settle(page);
    assert.equal(await page.locator("#map > .map-body").count(), 1);
    assert.ok(await page.locator(".selection-status").isVisible(), "only the large view is closed");
  });
});

test("another process: by the chooser, or by pinning it", async () => {
  await withMap("process", makeMapPage(), {}, async (page) => {
    const chosen = () => page.$eval("#map .chooser", (one) => one.selectedOptions[0].textContent);
    assert.equal(await chosen(), "worker 4200: 3.6 MiB copied");
    await page.selectOption("#map .chooser", { label: "worker 4201: 320.0 KiB copied" });
    assert.equal(await page.textContent(".map-figures strong"), "320.0 KiB");
    await page.locator(".legend-pair", { hasText: "worker 4200" }).locator("button").last().click();
    await settle(page);
    assert.equal(await chosen(), "worker 4200: 3.6 MiB copied");
    await page.selectOption("#map .chooser", { label: "parent 4199: 0 B copied" });
    assert.match(await page.textContent("#map"), /No copied page of this process was recorded/);
  });
});

test("what the map can't show is said", async () => {
  const data = makeMapPage();
  const note = "the map of copied pages ends here, after 1048576 pages; copies are counted and explained as before";
  data.events.push({ t: 100, kind: "note", index: null, pid: null, text: note });
  data.report.losses.pages_dropped = 12;
  data.pages_dropped = 1234;
  data.region_counts_dropped = 5;
  data.pages.t_ms.push(170_000);
  data.pages.index.push(1);
  data.pages.cause.push(5);
  data.pages.first_page.push(kBase - 5000);
  data.pages.pages.push(7);
  await withMap("limits", data, {}, async (page) => {
    const notes = await page.textContent(".map-notes");
    assert.ok(notes.includes(note));
    assert.match(notes, /12 copied pages are missing/);
    assert.match(notes, /1,234 copied pages are not in this page/);
    assert.match(notes, /What sweeps found in some regions is not in this page: there are too many\./);
    assert.match(notes, /7 copied pages lie outside every region/);
    assert.match(notes, /Not drawn: 1 other region \(19\.5 MiB\)/);
    const copied = (nth) => data.processes[nth].copies.at(-1) * 4096;
    const [, all] = /^3\.6 MiB drawn, of (.*) copied; the map ends at 1:40$/.exec(await page.textContent(".map-figures"));
    assertBytes(all, copied(1), "all that it copied");
    const options = await page.$$eval("#map .chooser option", (all) => all.map((option) => option.textContent));
    assertBytes(/^worker 4200: 3\.6 MiB drawn, of (.*) copied$/.exec(options[1])[1], copied(1));
    assertBytes(/^parent 4199: none drawn, of (.*) copied$/.exec(options[0])[1], copied(0));
    const times = [...new Set(data.pages.t_ms)].sort((a, b) => a - b);
    const gap = Math.max(...times.slice(1).map((ms, i) => ms - times[i])) / 1000;
    assert.ok(notes.includes(`Records with copies are up to ${gap.toFixed(1)} s apart.`), notes);
    await page.click(".map-table summary");
    await page.waitForSelector(".map-table tbody tr");
    const rows = await page.$$eval(".map-table tbody tr", (all) => all.map((row) => [...row.cells].map((cell) => cell.textContent)));
    assert.deepEqual(rows[0], ["6 pymalloc arenas", `from 0x${(kBase * 4096).toString(16)}`, "1,536", "896", "58 %"]);
    assert.deepEqual(rows.find(([name]) => name === "[heap]").slice(2), ["300", "20", "6.7 %"]);
    assert.deepEqual(rows.find(([name]) => name === "file libpython3.11.so").slice(2), ["2,000", "1", "0.1 %"]);
  });
});

test("regions of different times make one picture: arenas go over the mapping they were cut from, other workers' memory is left out", async () => {
  const data = makeMapPage();
  const add = (region, index) => {
    const columns = {
      t_ms: 10_000,
      index,
      region: data.regions.push({ name: "", space: 0, ...region }) - 1,
      private_pages: 1,
      shared_pages: 200,
      new_pages: 0,
    };
    for (const [key, value] of Object.entries(columns)) data.region_counts[key].push(value);
  };
  add({ kind: "mmap", start: kBase * 4096, bytes: 6 * 256 * 4096 }, 1);
  add({ kind: "mmap", start: (kBase - 100) * 4096, bytes: 300 * 4096 }, 1);
  add({ kind: "pymalloc-arena", start: (kBase + 100 * 256) * 4096, bytes: 256 * 4096 }, 2);
  await withMap("overlap", data, {}, async (page) => {
    assert.match(await page.textContent(".map-notes"), /Not drawn: 2 other regions \(19\.9 MiB\)/); // 100 pages of the second mapping
    await page.click(".map-table summary");
    await page.waitForSelector(".map-table tbody tr");
    const rows = await page.$$eval(".map-table tbody tr", (all) => all.map((row) => [...row.cells].map((cell) => cell.textContent)));
    assert.deepEqual(rows[0], ["6 pymalloc arenas", `from 0x${(kBase * 4096).toString(16)}`, "1,536", "896", "58 %"]);
    assert.equal(rows.length, 3);
  });
});

test("a recording without pages says why", async () => {
  await withMap("empty", makeEmptyPage(), { empty: true }, async (page) => {
    await page.waitForFunction(() => /No process was recorded/.test(document.querySelector("#map").textContent));
    assert.ok(await page.locator(".map-play").isHidden());
  });
  const counted = makePage();
  for (const key of Object.keys(counted.pages)) counted.pages[key] = [];
  counted.run.exactness = "page-map";
  await withMap("counted", counted, { empty: true }, async (page) => {
    await page.waitForFunction(() =>
      /does not say which pages were copied, only how many \(copies read from the page map/.test(
        document.querySelector("#map").textContent,
      ),
    );
    assert.ok(await page.locator(".map-canvas").isHidden());
  });
});

test("damaged and hostile data: names are text, absurd figures are left out", async () => {
  for (const [nth, name] of kHostile.entries()) {
    const data = makeMapPage({ fileName: name });
    data.processes[1].role = name;
    data.pages.t_ms.push(170_000, 171_000, 172_000);
    data.pages.index.push(1, 1, 1);
    data.pages.cause.push(77, 0, 0);
    data.pages.first_page.push(kBase, null, kBase);
    data.pages.pages.push(1, 5, 2 ** 50);
    data.regions.push(
      { kind: name, name, start: 2 ** 52, bytes: 2 ** 52, space: 0 },
      { kind: "mmap", name, start: 0, bytes: 2 ** 50, space: 0 },
    );
    await withMap(`hostile-${nth}`, data, nth % 2 === 0 ? {} : { width: 390, height: 844 }, async (page) => {
      await page.focus(".map-frame");
      await page.keyboard.press("End");
      assert.ok((await tipLines(page)).length >= 3);
      await page.click(".map-table summary");
      assert.equal(await page.evaluate(() => globalThis.pwned), undefined);
      assert.equal(await page.locator("#map img, #map svg, #map script").count(), 0);
      assert.equal(await page.textContent(".map-figures strong"), "3.6 MiB");
    });
  }
});

test("390 pixels wide, light and dark", async () => {
  for (const scheme of ["light", "dark"]) {
    await withMap(`390-${scheme}`, makeMapPage({ arenas: 80 }), { width: 390, height: 844, scheme }, async (page) => {
      await checkNoOverflow(page);
      assert.ok((await page.$eval(".map-canvas", (canvas) => canvas.clientWidth)) <= 390);
    });
  }
});

test("300,000 pages: a step of the scrubber", async () => {
  await withMap("300000", makeLargeMapPage(1200), { scheme: "dark" }, async (page) => {
    const spent = await page.evaluate(async () => {
      const slider = document.querySelector(".map-slider");
      const frame = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
      const ask = globalThis.requestAnimationFrame.bind(globalThis);
      const times = [];
      globalThis.requestAnimationFrame = (body) =>
        ask((now) => {
          const began = performance.now();
          body(now);
          times.push(performance.now() - began);
        });
      const step = async (share) => {
        times.length = 0;
        const began = performance.now();
        slider.value = String(Number(slider.min) + share * (slider.max - slider.min));
        slider.dispatchEvent(new Event("input"));
        const direct = performance.now() - began;
        await frame();
        return direct + Math.max(...times);
      };
      await step(0);
      const forward = [],
        backward = [];
      for (let i = 1; i <= 100; i++) forward.push(await step(i / 101));
      for (let i = 100; i > 0; i--) backward.push(await step(i / 101));
      const jumps = [await step(0), await step(0.99), await step(0), await step(0.99)];
      const middle = (all) => [...all].sort((a, b) => a - b)[all.length >> 1];
      return { forward: middle(forward), backward: middle(backward), worst: Math.max(...forward, ...backward), jump: middle(jumps) };
    });
    console.log(
      `map.test.mjs: 307,200 pages: a step forward ${spent.forward.toFixed(1)} ms, backward ${spent.backward.toFixed(1)} ms (medians), slowest ${spent.worst.toFixed(1)} ms, whole recording at once ${spent.jump.toFixed(1)} ms`,
    );
    assert.ok(spent.forward < 100 && spent.backward < 100, "even on a busy machine"); // 16 ms on an idle one
    assert.ok((await page.$eval(".map-canvas", (canvas) => canvas.clientHeight)) <= 640);
  });
});

test("several workers side by side, on one clock, and in the saved picture", async () => {
  await withMap("several", makeMapPage({ arenas: 80 }), {}, async (page) => {
    await page.selectOption("#map .chooser", { label: "2 workers side by side" });
    assert.equal(await page.locator(".map-canvas").count(), 2);
    assert.deepEqual(await page.$$eval(".map-caption", (all) => all.map((one) => one.textContent.split(" of")[0])), [
      "worker 4200: 3.6 MiB",
      "worker 4201: 320.0 KiB",
    ]);
    assert.match(await page.textContent(".map-figures"), /^3\.9 MiB copied by 2 processes$/);
    await goTo(page, 45);
    assert.deepEqual(await page.$$eval(".map-caption", (all) => all.map((one) => one.textContent.split(" of")[0])), [
      "worker 4200: 1.0 MiB",
      "worker 4201: 0 B",
    ]);
    const [left, right] = await page.$$eval(".map-canvas", (all) => all.map((one) => one.getBoundingClientRect().toJSON()));
    assert.ok(left.top === right.top && left.right < right.left, "side by side");
    const [download] = await Promise.all([page.waitForEvent("download"), page.click("text=Save picture")]);
    assert.match(download.suggestedFilename(), /^cowprof-map-several-4[45]\.\ds\.png$/);
    await download.saveAs(`${kOut}map-saved-several.png`);
  });
  const data = makeMapPage();
  Object.assign(data.processes[1], { role: "rank", worker: false, label: "rank 0" });
  await withMap("several-ranks", data, {}, async (page) => {
    const options = await page.$$eval("#map .chooser option", (all) => all.map((option) => option.textContent));
    assert.equal(options.at(-1), "2 processes side by side");
  });
});
