// Owns the tests of who did it: the icicle, its search and keys, and tables that follow time, pin and search.
// Does not: test how the tables look for the whole recording; why.test.mjs does.
import assert from "node:assert/strict";
import { test } from "node:test";
import { paintedPixels } from "./browser.mjs";
import { makeBlamedPage } from "./blamed.mjs";
import { assertBytes, bytesShown, checkNoOverflow, checkQuiet, settle } from "./checks.mjs";
import { kHostile, makeEmptyPage, makePage } from "./synthetic.mjs";
import { makeStage } from "./stage.mjs";

const { open, withPage } = makeStage();

const kView = ".icicle-view";
const kRow = 21; // pixels

// Copies by place number up to checkpoint `to` minus those up to `from`, of the processes that `holds` says: the page must show these.
function copiesByPlace({ blame, places }, holds = () => true, [from, to] = [-1, Infinity]) {
  const sums = places.map(() => 0);
  let step = 0;
  blame.index.forEach((index, pair) => {
    let [before, after] = [0, 0];
    for (const end = step + blame.steps[pair]; step < end; step++) {
      if (blame.at[step] <= from) before = blame.copies[step];
      if (blame.at[step] <= to) after = blame.copies[step];
    }
    if (holds(index)) sums[blame.place[pair]] += Math.max(0, after - before);
  });
  return sums;
}

const sum = (values) => values.reduce((total, value) => total + value, 0);
const below = (data, sums, frame) => sum(sums.filter((_, place) => data.places[place].frames.includes(frame)));

async function hoverBox(page, x, row) {
  const view = page.locator(kView);
  await view.scrollIntoViewIfNeeded();
  await view.hover({ position: { x, y: row * kRow + 8 } });
  return page.textContent(".icicle-tip");
}

function assertTip(text, { name, place, copies, total }) {
  assert.ok(text.startsWith(`${name}${place}`), `${text} begins with ${name}${place}`);
  const [, share, bytes, count] = /([\d.]+) % · ([\d.]+ [KMG]iB), ([\d,]+) copies/.exec(text.slice(name.length + place.length));
  assert.ok(Math.abs(Number(share) - (100 * copies) / total) <= 0.5, `${share} %`);
  assertBytes(bytes, copies * 4096, name);
  assert.equal(Number(count.replaceAll(",", "")), copies, "copies");
}

// A drag is followed at the pace that the page can afford: waits until all sections say the span that is selected.
async function followed(page) {
  await page.waitForFunction(() => {
    const words = document.querySelector(".selection-status").checkVisibility()
      ? /^.* to .*(?= selected)/.exec(document.querySelector(".selection-status").textContent)[0]
      : null;
    return ["#who > .lead", ".why-total", "#workers > .lead"].every((one) => {
      const text = document.querySelector(one)?.textContent ?? "";
      return words === null ? !/\d to \d|\d s to \d/.test(text) : text.includes(words) || text === "";
    });
  });
}

// Drags over the strips; says what was selected, in seconds.
async function selectTime(page, from, to) {
  const strip = page.locator("#timeline .u-over").first();
  await strip.scrollIntoViewIfNeeded();
  const frame = await strip.boundingBox();
  await page.mouse.move(frame.x + frame.width * from, frame.y + 40);
  await page.mouse.down();
  await page.mouse.move(frame.x + frame.width * ((from + to) / 2), frame.y + 40);
  await page.mouse.move(frame.x + frame.width * to, frame.y + 40);
  await page.mouse.up();
  await followed(page);
  return [...(await page.textContent(".selection-status")).matchAll(/(?:(\d+):)?([\d.]+)(?: s)?(?= to| selected)/g)].map(
    ([, minutes = 0, seconds]) => Number(minutes) * 60 + Number(seconds),
  );
}

const rowsOf = (page, id) =>
  page.$$eval(`#${id} tbody tr`, (all) =>
    all.map((row) => ({ name: row.querySelector("th").title, cells: [...row.cells].slice(1).map((cell) => cell.textContent) })),
  );

for (const scheme of ["light", "dark"]) {
  test(`the icicle: outermost call on top, native code and type beneath; hover tells line, share, copies and bytes; ${scheme}`, async () => {
    const data = makePage();
    const sums = copiesByPlace(data);
    await withPage(`who-${scheme}`, data, { scheme }, async (page) => {
      const { painted, colours } = await paintedPixels(page, `${kView} canvas`);
      assert.ok(painted > 50000 && colours > 20, `${painted} pixels in ${colours} colours`);
      assertTip(await hoverBox(page, 10, 4), {
        name: "__getitem__",
        place: "/srv/train/dataset.py:41",
        copies: below(data, sums, 0),
        total: sum(sums),
      });
      assert.match(await hoverBox(page, 10, 5), /^unicode_hashlibpython3\.11\.so\.1\.0.*Reference counts 100 %$/);
      assert.match(await hoverBox(page, 10, 6), /^strthe type that was written/);
      await page.mouse.move(2, 2);
      assert.ok(!(await page.locator(".icicle-tip").isVisible()), "gone with the pointer");
    });
  });
}

test("a click zooms, the path leads back; the levels of native code and types can be left out", async () => {
  const data = makePage();
  const sums = copiesByPlace(data);
  await withPage("who-zoom", data, {}, async (page) => {
    await hoverBox(page, 10, 4);
    await page.locator(kView).click({ position: { x: 10, y: 4 * kRow + 8 } });
    await settle(page);
    assert.deepEqual(await page.$$eval(".crumbs > *", (all) => all.map((one) => one.textContent)), [
      "all copies",
      "main",
      "_worker_loop",
      "fetch",
      "__getitem__",
    ]);
    assertTip(await hoverBox(page, 10, 0), {
      name: "__getitem__",
      place: "/srv/train/dataset.py:41",
      copies: below(data, sums, 0),
      total: sum(sums),
    });
    const { width } = await page.locator(kView).boundingBox();
    assertTip(await hoverBox(page, width - 10, 1), {
      name: "decode",
      place: "/srv/train/dataset.py:88",
      copies: below(data, sums, 1),
      total: sum(sums),
    });
    await page.locator(".crumb", { hasText: "fetch" }).click();
    await settle(page);
    assert.match(await hoverBox(page, 10, 0), /^fetch/);
    await page.locator(".crumb", { hasText: "all copies" }).click();
    await settle(page);
    const heightOf = async () => (await page.locator(kView).boundingBox()).height;
    const whole = await heightOf();
    await page.locator(".toggle", { hasText: "types" }).click();
    await page.locator(".toggle", { hasText: "native code" }).click();
    await settle(page);
    assert.equal(await heightOf(), whole - 2 * kRow);
  });
});

test("keyboard only: reach it, walk it, zoom, go back; what is in focus is read out", async () => {
  await withPage("who-keys", makePage(), {}, async (page) => {
    await page.focus(".toggle >> text=types");
    await page.keyboard.press("Tab");
    assert.equal(await page.evaluate(() => document.activeElement.className), "icicle-view");
    assert.match(
      await page.getAttribute(kView, "aria-label"),
      /Flame graph of [\d.]+ GiB by Python line\. Arrow keys move, Enter zooms in, Escape goes back/,
    );
    for (let i = 0; i < 6; i++) await page.keyboard.press("ArrowDown");
    const status = page.locator(".icicle-tip[role=status]");
    assert.match(await status.textContent(), /^unicode_hash/);
    await page.keyboard.press("ArrowRight");
    assert.match(await status.textContent(), /^decode/);
    await page.keyboard.press("Enter");
    await settle(page);
    await page.waitForFunction(() => document.querySelector(".crumbs").textContent.endsWith("decode"));
    assert.equal(await page.evaluate(() => document.activeElement.className), "icicle-view", "the focus stays");
    await page.keyboard.press("Escape");
    await page.waitForFunction(() => document.querySelector(".crumbs").textContent.endsWith("__getitem__"));
    await page.keyboard.press("Home");
    await page.waitForFunction(() => !document.querySelector(".crumbs").checkVisibility());
  });
});

test("search: the share that matches, none counted twice; tables show the rows that contain it", async () => {
  const data = makeBlamedPage();
  const sums = copiesByPlace(data);
  await withPage("who-search", data, {}, async (page) => {
    const before = await page.locator(kView).screenshot();
    await page.fill("#who .search-box", "dataset.py");
    await settle(page);
    const share = (100 * below(data, sums, 0)) / sum(sums); // decode is called by __getitem__: counted once
    assert.equal(await page.textContent(".found"), `${share >= 9.95 ? share.toFixed(0) : share.toFixed(1)} % matched`);
    assert.ok(!before.equals(await page.locator(kView).screenshot()), "what does not match fades");
    await page.fill("#who .search-box", "MODULE_25");
    await settle(page);
    assert.deepEqual(
      (await rowsOf(page, "by-line")).map((row) => row.name),
      [`${data.report.by_line[25].file}:35`],
    );
    assert.equal(await page.textContent("#by-line .filter-count"), "1 of 26 rows");
    assert.equal(await page.textContent(".found"), "0 % matched");
    assert.match(await page.textContent("#by-type tbody:last-child"), /No row contains that text/);
    await page.fill("#who .search-box", "");
    await settle(page);
    assert.equal(await page.textContent(".found"), "");
    assert.equal((await rowsOf(page, "by-line")).length, 12);
  });
});

test("a selected time: lines, types, native code, regions, workers and causes follow it, and say so", async () => {
  const data = makePage();
  const late = data.report.workers.at(-1);
  late.started_at = 150;
  await withPage("who-time", data, {}, async (page) => {
    const span = await selectTime(page, 0.3, 0.55);
    assert.ok(span.length === 2 && span[0] > 40 && span[1] < 110, String(span));
    const checkpoints = span.map((seconds) => data.blame.times_ms.filter((ms) => ms <= seconds * 1000).length - 1);
    const sums = copiesByPlace(data, () => true, checkpoints);
    const words = await page.textContent("#who > .lead");
    const known = checkpoints.map((at) => `${(data.blame.times_ms[at] / 1000).toFixed(1)} s`).join(" to ");
    const selected = /^.* to .*(?= selected)/.exec(await page.textContent(".selection-status"))[0];
    assert.equal(
      words,
      `Lines that made copies in all processes, from ${known} (lines are recorded at intervals; selected: ${selected}); estimated from samples.`,
    );
    const lines = await rowsOf(page, "by-line");
    const [top] = data.frames[0];
    assert.equal(lines[0].name, `${top}:41`);
    assertBytes(lines[0].cells[1], sums[0] * 4096, "of the innermost line only");
    assert.ok(bytesShown(lines[0].cells[1]) < data.report.by_line[0].bytes, "less than in the whole recording");
    const types = Object.fromEntries((await rowsOf(page, "by-type")).map((row) => [row.name, row.cells[0]]));
    assertBytes(types.str, sums[0] * 4096, "str");
    assertBytes(types.dict, (sums[1] + sums[3]) * 4096, "dict");
    const gain = (values, first, t) => values[Math.min(values.length - 1, Math.floor(t) - first)] ?? 0;
    const copied = data.processes.slice(1).map((one) => gain(one.copies, one.first, span[1]) - gain(one.copies, one.first, span[0]));
    const workers = await page.$$eval("#workers tbody.workers tr", (rows) =>
      rows.map((row) => [row.cells[0].textContent, row.cells[3].textContent]),
    );
    data.processes
      .slice(1)
      .forEach((one, i) => assert.equal(workers.find(([pid]) => pid === String(one.pid))[1], copied[i].toLocaleString("en-US")));
    assert.match(await page.textContent("#workers .lead"), /what each copied from [\d.]+ s to [\d.]+ s, and held at the end/);
    const ends = await page.$$eval("#workers tbody.workers tr", (rows) =>
      rows.map(({ cells }) => [cells[0].textContent, cells[10].textContent]),
    );
    assert.equal(ends.find(([pid]) => pid === String(late.pid))[1], "not started yet");
    assert.ok((await page.locator("#by-region-then tbody tr").count()) > 3, "regions, as of the end of it");
    assert.match(await page.textContent(".why-total"), /copied by all processes, [\d.]+ s to [\d.]+ s/);
    await page.keyboard.press("Escape");
    await page.locator(".selection-status").waitFor({ state: "hidden" });
    await followed(page);
    assertBytes((await rowsOf(page, "by-line"))[0].cells[1], data.report.by_line[0].bytes, "the report's own rows again");
  });
});

test("a time without copies is said in words", async () => {
  const data = makePage();
  const blame = { ...data.blame, copies: data.blame.copies.map((_, i) => i - i), at: data.blame.at };
  await withPage("who-none", { ...data, blame }, {}, async (page) => {
    assert.equal(
      await page.textContent("#who > .empty"),
      "No line is known to have made copies in all processes, over the whole recording.",
    );
    assert.ok(!(await page.locator(kView).isVisible()));
  });
});

test("a time between two records of lines: the lines of both, with their times", async () => {
  const data = makeManyNodes(20);
  await withPage("who-between", data, {}, async (page) => {
    const selected = await selectTime(page, 0.2, 0.3);
    assert.ok(selected[0] > 0 && selected[1] < 90, String(selected));
    assert.match(
      await page.textContent("#who > .lead"),
      /^Lines that made copies in all processes, from 0\.0 s to 90\.0 s \(lines are recorded at intervals; selected: [\d.]+ s to [\d.]+ s\)/,
    );
    const graph = /Flame graph of ([\d.]+ \w+)/.exec(await page.getAttribute(kView, "aria-label"));
    assertBytes(graph[1], sum(data.blame.copies) * 4096, "all between 0 s and 90 s");
    assert.equal(await page.textContent("#who > .empty"), "");
  });
});

test("one process, or workers only", async () => {
  const data = makePage();
  data.blame.index[0] = 0; // the parent has copies too
  await withPage("who-pinned", data, {}, async (page) => {
    await page.locator(".toggle", { hasText: "workers only" }).click();
    await settle(page);
    assertBytes(
      /Flame graph of ([\d.]+ \w+)/.exec(await page.getAttribute(kView, "aria-label"))[1],
      sum(copiesByPlace(data, (index) => index > 0)) * 4096,
      "without the parent",
    );
    await page.locator("#workers .row-button", { hasText: "4201" }).click();
    await settle(page);
    assertBytes(
      /Flame graph of ([\d.]+ \w+)/.exec(await page.getAttribute(kView, "aria-label"))[1],
      sum(copiesByPlace(data, (index) => index === 2)) * 4096,
      "of one",
    );
    assert.equal(await page.getAttribute("#workers .row-button[aria-pressed=true]", "aria-pressed"), "true");
    assert.equal(await page.evaluate(() => document.activeElement.textContent), "4201", "the focus stays on the pid");
    await page.locator(".unpin", { hasText: "worker 4201" }).click();
    await settle(page);
    assert.equal(await page.locator("#workers .row-button[aria-pressed=true]").count(), 0);
  });
});

test("figures in bytes or in copies", async () => {
  const data = makeBlamedPage();
  await withPage("who-copies", data, {}, async (page) => {
    await page.locator("#who .switch-entry", { hasText: "Copies" }).click();
    await settle(page);
    assert.equal((await rowsOf(page, "by-line"))[0].cells[1], data.report.by_line[0].copies.toLocaleString("en-US"));
    assert.match(await page.getAttribute(kView, "aria-label"), /Flame graph of [\d,]+ copies/);
  });
});

// Splits RFC 4180 by the letter: quotes are doubled, lines end in CR LF.
function parseCsv(text) {
  const rows = [[]];
  for (const [, quoted, plain, end] of text.matchAll(/(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r\n)/g)) {
    rows.at(-1).push(quoted === undefined ? plain : quoted.replaceAll('""', '"'));
    if (end === "\r\n") rows.push([]);
  }
  assert.equal(rows.pop().length, 0, "the last line ends too");
  return rows;
}

test("CSV: whole numbers, quotes doubled, and no cell that a spreadsheet would run", async () => {
  const data = makeBlamedPage({ rows: 6 });
  const names = ["=1+1", "+cmd", "-2", "@SUM(A1)", 'a,"b"', "plain"];
  names.forEach((type, i) => {
    data.report.by_type[i].type = type;
  });
  await withPage("who-csv", data, {}, async (page) => {
    await page.evaluate(() => {
      Object.defineProperty(navigator, "clipboard", {
        value: {
          writeText: async (text) => {
            globalThis.copied = text;
          },
        },
      });
    });
    await page.focus("#by-type .copy-all");
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => globalThis.copied !== undefined);
    const [heads, ...rows] = parseCsv(await page.evaluate(() => globalThis.copied));
    assert.deepEqual(heads, ["type", "copies", "copied_bytes", "share"]);
    assert.deepEqual(
      rows.map(([name]) => name),
      ["'=1+1", "'+cmd", "'-2", "'@SUM(A1)", 'a,"b"', "plain"],
    );
    rows.forEach((row, i) =>
      assert.deepEqual(row.slice(1).map(Number), [
        data.report.by_type[i].copies,
        data.report.by_type[i].bytes,
        data.report.by_type[i].share,
      ]),
    );
  });
});

const segment = (i, more = {}) => ({
  name: `torch_42_${i}`,
  kind: "torch",
  bytes: (i + 1) * 2 ** 20,
  length_bytes: (i + 1) * 2 ** 20,
  device: 1,
  inode: i,
  on_mount: true,
  deleted: i % 2 === 1,
  lost_name: false,
  creator: 42,
  ownership: "owned",
  mapped_by: [4200, 4199],
  opened_by: [4199],
  ...more,
});

test("shared memory: segments at the fullest look and at the last, sortable and searchable", async () => {
  const data = makePage();
  const unused = { mapped_by: [], opened_by: [], deleted: false };
  const last = [
    segment(0, { ...unused, ownership: "leaked" }),
    segment(1, { ...unused, creator_alive: true }),
    segment(2, { ...unused, ownership: "unknown" }),
    segment(3, unused),
  ];
  data.report.shm = {
    mount: "/dev/shm",
    capacity_bytes: 64 * 2 ** 20,
    used_bytes: 10 * 2 ** 20,
    batches: null,
    segments: last,
    omitted: { segments: 12, bytes: 2 ** 20 },
    at_peak: {
      mount: "/dev/shm",
      capacity_bytes: 64 * 2 ** 20,
      used_bytes: 56 * 2 ** 20,
      batches: { segments: 6, bytes_each: 9 * 2 ** 20, creators: 3, bytes: 54 * 2 ** 20 },
      segments: Array.from({ length: 20 }, (_, i) => segment(i)),
    },
  };
  await withPage("who-shm", data, {}, async (page) => {
    assert.match(
      await page.textContent("#shm .lead"),
      /^\/dev\/shm: 56\.0 MiB used of 64\.0 MiB \(88 %\)\. Batches: 6 segments of 9\.0 MiB, 54\.0 MiB in flight or still in use\. This table/,
    );
    const names = () => page.$$eval("#shm tbody th", (all) => all.map((one) => one.title));
    assert.deepEqual((await names()).slice(0, 2), ["torch_42_19", "torch_42_18"]);
    assert.match(await page.textContent("#shm tbody tr"), /in use, unlinked424199 4200$/);
    await page.fill("#shm .search-box", "42_7");
    assert.deepEqual(await names(), ["torch_42_7"]);
    await page.fill("#shm .search-box", "");
    await page.locator("#shm .switch-entry", { hasText: "last look" }).click();
    assert.deepEqual(await names(), ["torch_42_3", "torch_42_2", "torch_42_1", "torch_42_0"]);
    assert.deepEqual(await page.$$eval("#shm tbody tr", (all) => all.map((row) => row.textContent.replace(/^.*MiB/, ""))), [
      "not in use42none right now",
      "owner unknown42unknown",
      "in flight42on its way from 42",
      "left behind42nobody",
    ]);
    assert.equal(await page.textContent("#shm > .note"), "12 smaller segments (1.0 MiB) not listed.");
    assert.doesNotMatch(await page.textContent("#shm .lead"), /atches/, "a segment in it need not be a batch");
  });
  data.report.shm.complete = false;
  await withPage("who-shm-incomplete", data, {}, async (page) => {
    await page.locator("#shm .switch-entry", { hasText: "last look" }).click();
    assert.match(await page.textContent("#shm tbody tr"), /owner unknown42unknown$/);
  });
  await withPage("who-shm-none", makePage(), {}, async (page) => assert.ok(!(await page.locator("#shm").isVisible())));
});

test("no stacks, and nothing at all: a sentence, or no section", async () => {
  const data = makeBlamedPage();
  Object.assign(data, { places: [], frames: [] });
  for (const key of Object.keys(data.blame)) data.blame[key] = [];
  await withPage("who-no-stacks", data, {}, async (page) => {
    assert.match(await page.textContent("#who > .empty"), /No stacks were recorded: .*--without stacks/);
    assert.equal((await rowsOf(page, "by-line")).length, 12, "the report's rows are there all the same");
  });
  await withPage("who-empty", makeEmptyPage(), {}, async (page) => assert.ok(!(await page.locator("#who").isVisible())));
});

test("by the page map it is not known which code made copies: no graph, no word of lines, but the types", async () => {
  const data = makePage();
  Object.assign(data.run, { rung: "page-map", exactness: "page-map" });
  Object.assign(data.report, { by_line: [], by_native: [] });
  data.frames = [];
  data.places = data.places.map((place) => ({ ...place, module: "", symbol: "", frames: [], line: null }));
  await withPage("who-page-map", data, {}, async (page) => {
    assert.ok(!(await page.locator(kView).isVisible()));
    assert.match(await page.textContent("#who > .empty"), /^It is not known which lines made copies: the page map does not show that/);
    assert.match(await page.textContent("#who > .lead"), /^What was copied in all processes, over the whole recording/);
    assert.ok(!(await page.$eval("#by-line", (one) => one.checkVisibility())));
    assert.equal((await rowsOf(page, "by-type")).length, data.report.by_type.length);
  });
});

test("the flame graph names the table of lines only where there is one", async () => {
  const data = makePage();
  await withPage("who-with-lines", data, {}, async (page) =>
    assert.match(await page.getAttribute(kView, "aria-label"), /The table of lines has the same as text\.$/),
  );
  data.report.by_line = [];
  data.frames = [];
  data.places = data.places.map((place) => ({ ...place, frames: [], line: null }));
  await withPage("who-no-lines", data, {}, async (page) =>
    assert.match(await page.getAttribute(kView, "aria-label"), /Escape goes back\.$/),
  );
});

test("recursion is one box that says how deep; hundreds of different frames scroll", async () => {
  const data = structuredClone(makePage());
  data.places[0].frames = [0, ...new Array(300).fill(3), 4, 5];
  data.frames.push(...Array.from({ length: 400 }, (_, i) => ["/srv/deep.py", `step_${i}`, i]));
  data.places[1].frames = Array.from({ length: 400 }, (_, i) => data.frames.length - 1 - i);
  await withPage("who-deep", data, {}, async (page) => {
    assert.match(await hoverBox(page, 10, 3), /^fetch.*calls itself, up to 300 deep$/);
    const { scroll, shown } = await page.$eval(kView, (view) => ({ scroll: view.scrollHeight, shown: view.clientHeight }));
    assert.ok(scroll >= 400 * kRow && shown < 600, `${scroll} pixels, of which ${shown} are shown`);
    await page.$eval(
      kView,
      (view, top) => {
        view.scrollTop = top;
      },
      300 * kRow,
    );
    await settle(page);
    await page.$eval(kView, (view) => view.focus());
    const { painted } = await paintedPixels(page, `${kView} canvas`);
    assert.ok(painted > 1000, "drawn where it is scrolled to");
    await checkNoOverflow(page);
  });
});

test("hostile names in frames, native code, types, segments: text on the page, and never run", async () => {
  for (const width of [1280, 390]) {
    const data = structuredClone(makePage({ workers: 2 }));
    kHostile.forEach((name, i) => {
      data.frames[i % data.frames.length] = [name, name, 10 + i];
      Object.assign(data.places[i % data.places.length], { type: name, module: name, symbol: name });
    });
    data.report.shm = {
      mount: kHostile[0],
      capacity_bytes: 1e6,
      used_bytes: 10,
      segments: kHostile.map((name, i) => segment(i, { name, kind: name, ownership: name })),
      at_peak: null,
    };
    await withPage(`who-hostile-${width}`, data, { width }, async (page) => {
      for (let row = 0; row < 8; row++) await hoverBox(page, 6, row);
      await page.locator(kView).click({ position: { x: 6, y: 2 * kRow + 8 } });
      await settle(page);
      await selectTime(page, 0.2, 0.8);
      await page.fill("#who .search-box", "<img");
      await settle(page);
      assert.equal(await page.evaluate(() => globalThis.pwned), undefined);
      assert.equal(await page.locator("main img, main svg, main script, main iframe").count(), 0);
      assert.ok((await page.textContent("#shm")).includes(kHostile[0]), "shown as it is");
      assert.doesNotMatch(await page.textContent("main"), /[\u202a-\u202e\u2066-\u2069\u0000\u0007]/);
      await checkNoOverflow(page);
    });
  }
});

test("390 pixels wide, dark; on paper without buttons", async () => {
  await withPage("who-390-dark", makeBlamedPage(), { width: 390, height: 844, scheme: "dark" }, async (page) => {
    await checkNoOverflow(page);
    assert.match(await hoverBox(page, 10, 4), /^__getitem__/);
    const box = await page.locator(".icicle-tip").boundingBox();
    assert.ok(box.x >= 0 && box.x + box.width <= 390, "the tip stays on the page");
  });
  await withPage("who-paper", makeBlamedPage(), {}, async (page) => {
    await page.emulateMedia({ media: "print" });
    assert.equal(await page.locator("#who button:visible:not(.sort), #who input:visible").count(), 0);
  });
});

// A tree as wide as they come: every place has a stack of its own.
function makeManyNodes(leaves) {
  const data = makePage();
  const frames = Array.from({ length: 2000 }, (_, i) => [`/srv/module_${i % 50}.py`, `function_${i}`, i]);
  const places = Array.from({ length: leaves }, (_, i) => ({
    cause: i % 3 ? "refcount" : "data",
    type: "str",
    module: "libpython3.11.so",
    symbol: `symbol_${i % 97}`,
    frames: [i % 2000, (i * 7) % 500, (i * 13) % 100, i % 20, 0],
  }));
  const blame = {
    times_ms: [0, 90000],
    index: places.map(() => 1),
    place: places.map((_, i) => i),
    steps: places.map(() => 1),
    at: places.map(() => 1),
    copies: places.map((_, i) => 1 + ((i * 7919) % 400)),
  };
  return { ...data, frames, places, blame };
}

test("sixty thousand nodes: summed, laid out and drawn", async (context) => {
  const opened = await open("who-many", makeManyNodes(30000));
  const { page } = opened;
  const draws = () => page.evaluate(() => performance.getEntriesByName("icicle").map((entry) => entry.duration));
  const first = (await draws()).at(-1);
  for (const text of ["Copies", "Bytes", "Copies", "Bytes"]) {
    const before = (await draws()).length;
    await page.locator("#who .switch-entry", { hasText: text }).click();
    await page.waitForFunction((count) => performance.getEntriesByName("icicle").length > count, before);
  }
  const times = (await draws()).slice(-4).sort((a, b) => a - b);
  const sums = await page.evaluate(() => performance.getEntriesByName("icicle-sums").map((entry) => entry.duration));
  const nodes = Number(await page.getAttribute(kView, "data-nodes"));
  assert.ok(nodes >= 60000, `${nodes} nodes`);
  context.diagnostic(
    `${nodes} nodes: laid out and drawn in ${times[0].toFixed(0)} to ${times.at(-1).toFixed(0)} ms (first ${first.toFixed(0)} ms); planted and summed in ${sums[0].toFixed(0)} ms at first, then ${sums
      .slice(1)
      .map((ms) => ms.toFixed(0))
      .join(", ")} ms`,
  );
  const { painted } = await paintedPixels(page, `${kView} canvas`);
  assert.ok(painted > 50000);
  checkQuiet(opened.noted);
  await opened.close();
});
