// Owns the tests of pure functions of web/src/data and web/src/core, in Node alone.
// Does not: test what is visible; the tests in the browser do.
import assert from "node:assert/strict";
import { test } from "node:test";
import { countsToColumns, kBase, makeMapPage } from "./made_map.mjs";
import { pack } from "./payload.mjs";
import { loadSource } from "./source.mjs";
import { makePage } from "./synthetic.mjs";

test("a page is decoded, and a process is found by its index although its pid comes twice", async () => {
  const data = makePage();
  for (const row of [data.processes[3], data.report.workers[2]]) row.pid = data.processes[2].pid;
  data.events.push({ t: 175, kind: "exit", index: 3, pid: data.processes[3].pid, text: "ended" });
  const { parsePayload } = await loadSource("data/decode.ts");
  const { trackOf, processOf } = await loadSource("core/processes.ts");
  const page = await parsePayload(pack(data));
  assert.deepEqual([...page.processes[1].columns.copies.values], data.processes[1].copies);
  for (const [nth, process] of page.report.workers.entries()) {
    assert.equal(trackOf(page, process).index, nth + 1);
    assert.equal(processOf(page.report, trackOf(page, process)), process);
  }
  const ends = page.events.filter(({ kind }) => kind === "killed" || kind === "exit").map(({ kind, seconds }) => [kind, seconds]);
  assert.deepEqual(ends, [
    ["killed", data.processes[2].ended],
    ["exit", 175],
  ]);
});

test("lines of a part of the recording are those of the report's table: the program's own, with the library between", async () => {
  const data = makePage();
  const [own, library] = [0, 3].map((number) => data.frames[number]);
  data.places = [
    { ...data.places[0], frames: [3, 0, 4], line: 0, via: "torch" },
    { ...data.places[1], frames: [1, 0, 4], line: 0, via: "numpy" },
    { ...data.places[2], frames: [3, 0, 4] }, // of an older page
    { ...data.places[3], frames: [], line: null, via: "" },
  ];
  data.report.by_line = [{ file: own[0], function: own[1], line: own[2], via: "torch", copies: 5, share: 0.5 }];
  const { parsePayload } = await loadSource("data/decode.ts");
  const { aggregatePlaces } = await loadSource("core/aggregate.ts");
  const page = await parsePayload(pack(data));
  const { lines } = aggregatePlaces(page, Float64Array.of(5, 3, 2, 1));
  assert.deepEqual(
    lines.map(({ name, detail, copies }) => [name, detail, copies]),
    [
      [`${own[0]}:${own[2]}`, `${own[1]}, via torch`, 5],
      [`${own[0]}:${own[2]}`, `${own[1]}, via numpy`, 3],
      [`${library[0]}:${library[2]}`, library[1], 2],
    ],
  );
  assert.equal(page.report.lines[0].detail, lines[0].detail);
});

test("who counts as a worker is the tool's word; older pages only have roles", async () => {
  const data = makePage({ workers: 4 });
  const roles = ["rank", "rank", "pool", "helper"];
  const told = [true, false, undefined, undefined];
  for (const rows of [data.processes.slice(1), data.report.workers])
    rows.forEach((row, i) => Object.assign(row, { role: roles[i], ...(told[i] === undefined ? {} : { worker: told[i] }) }));
  const { parsePayload } = await loadSource("data/decode.ts");
  const { filterOf } = await loadSource("core/filter.ts");
  const page = await parsePayload(pack(data));
  const { holds } = filterOf(page, { selection: null, pinned: null }, true);
  assert.deepEqual([0, 1, 2, 3, 4].map(holds), [false, true, false, true, false]);
  assert.deepEqual(
    page.report.workers.map(({ worker }) => worker),
    [true, false, true, false],
  );
});

test("regions at the end of a span are those of processes that live then, or of the pinned one", async () => {
  const data = makePage();
  const [, first, killed] = data.processes;
  data.region_counts = {
    t_ms: [5000, 5000],
    index: [1, 2],
    region: [0, 0],
    private_pages: [10, 7],
    shared_pages: [5, 5],
    new_pages: [0, 0],
  };
  const { parsePayload } = await loadSource("data/decode.ts");
  const { filterOf } = await loadSource("core/filter.ts");
  const { regionsWithin } = await loadSource("core/regions.ts");
  const page = await parsePayload(pack(data));
  const found = (selection, pinned = null) => regionsWithin(filterOf(page, { selection, pinned })).map((row) => row.privatePages);
  assert.equal(first.ended, null);
  assert.deepEqual(found([1, killed.ended - 1]), [17]);
  assert.deepEqual(found([1, killed.ended]), [10]);
  assert.deepEqual(found([1, killed.ended], 2), [7]);
  assert.deepEqual(found(null), [null], "of processes of different times there is no sum");
  const gained = regionsWithin(filterOf(page, { selection: null, pinned: null })).map((row) => row.gained);
  assert.deepEqual(gained, [17]);
  page.processes[2].ended = null;
  assert.deepEqual(found(null), [17], "all live");
});

test("what is known of processes that are not listed any more does not enter sums of those that are", async () => {
  const data = makePage();
  const [, first] = data.processes;
  const look = (index, own) => ({ t: 20, index, region: 0, own, shared: 0, fresh: 0 });
  data.region_counts = countsToColumns([look(1, 10), look(7000, 500)]);
  data.report.workers = data.report.workers.map((row) => ({ ...row, copy_seconds: 0.5 }));
  const { parsePayload } = await loadSource("data/decode.ts");
  const { filterOf } = await loadSource("core/filter.ts");
  const { regionsWithin } = await loadSource("core/regions.ts");
  const { taxInWords } = await loadSource("core/footnotes.ts");
  const page = await parsePayload(pack(data));
  assert.equal(first.ended, null);
  assert.deepEqual(
    regionsWithin(filterOf(page, { selection: [1, 100], pinned: null })).map((row) => row.privatePages),
    [10],
  );
  assert.match(taxInWords(page.report, null), /^1\.5 seconds of CPU went into copying \(.* of the workers' run time\)\.$/);
  data.report.unlisted = { processes: 40_000, copies: 256, copied_bytes: 2 ** 20, by_cause: {} };
  data.report.totals.copy_seconds = 90;
  const { report } = await parsePayload(pack(data));
  assert.equal(taxInWords(report, null), "90.0 s of CPU went into copying.");
  assert.match(taxInWords(report, report.workers[0]), /of this process's run time/);
});

test("regions gain what came within the span: what was there at its beginning, or at the attach, does not count", async () => {
  const data = makePage();
  data.processes[0].was_there = true; // the others were forked: the first at 10 s
  const look = (t, index, region, own) => ({ t, index, region, own, shared: 0, fresh: 0 });
  data.region_counts = countsToColumns([
    look(2, 0, 0, 1000),
    look(12, 1, 0, 5),
    look(30, 0, 0, 1010),
    look(30, 0, 1, 7), // mapped since the look before
    look(40, 1, 0, 50),
  ]);
  const { parsePayload } = await loadSource("data/decode.ts");
  const { filterOf } = await loadSource("core/filter.ts");
  const { regionsWithin } = await loadSource("core/regions.ts");
  const page = await parsePayload(pack(data));
  const gained = (selection, pinned) => regionsWithin(filterOf(page, { selection, pinned })).map((row) => row.gained);
  assert.equal(page.processes[1].started, data.processes[1].first);
  assert.deepEqual(gained(null, 0), [10, 7]);
  assert.deepEqual(gained([0, 100], 0), [10, 7]);
  assert.deepEqual(gained([3, 100], 0), [10, 7]);
  assert.deepEqual(gained(null, 1), [50]);
  assert.deepEqual(gained([5, 100], 1), [50], "forked within the span");
  assert.deepEqual(gained([11.5, 100], 1), [45], "before its first look");
  assert.deepEqual(gained([13, 100], 1), [45]);
  page.processes[0].wasThere = false; // started by cowprof
  assert.deepEqual(gained(null, 0), [1010, 7]);
});

test("a measure that is known nowhere is not drawn as 0, and no limit is off its chart", async () => {
  const data = makePage();
  for (const one of [data.totals, ...data.processes]) one.pss_kib = one.pss_kib.map(() => null);
  data.processes[1].pss_kib[7] = 4096;
  const { parsePayload } = await loadSource("data/decode.ts");
  const { planStrips } = await loadSource("core/chart_strips.ts");
  const titles = (page, measure) => planStrips(page, measure, null).map(({ title }) => title);
  const page = await parsePayload(pack(data));
  assert.deepEqual(titles(page, "pss").slice(0, 2), ["All processes together: not measured", "Each process"]);
  assert.deepEqual(titles(page, "private").slice(0, 2), ["All processes together", "Each process"]);
  assert.deepEqual(planStrips(page, "pss", null)[0].beyond, []);
  data.processes[1].pss_kib[7] = null;
  assert.equal(titles(await parsePayload(pack(data)), "pss")[1], "Each process: not measured");
});

test("causes within a span: what is not known is not 0, and before a process began it copied nothing", async () => {
  const { causesWithin } = await loadSource("core/column_values.ts");
  const page = { seconds: Float64Array.of(0, 1, 2, 3, 4) };
  const columns = (...values) => new Map([["refcount", { values: Float64Array.from(values) }]]);
  const within = (span, causes = columns(NaN, 5, 9), first = 1) => causesWithin(causes, first, page, span);
  assert.deepEqual(within([2, 3]), new Map([["refcount", 4]]));
  assert.equal(within([0, 1.5]), null);
  assert.deepEqual(within([0, 0.5]), new Map([["refcount", 0]]));
  assert.equal(within([0, 4], new Map()), null);
});

test("lines of a span are those between two records of lines, with the times of those", async () => {
  const { checkpointsOf, spanBetween } = await loadSource("core/spans.ts");
  const blame = { timesMs: { values: Float64Array.of(10_000, 40_000, 70_000) } };
  const known = (span) => spanBetween(blame, checkpointsOf(blame, span));
  assert.deepEqual(checkpointsOf(blame, null), [-1, 2]);
  assert.deepEqual(known([5, 75]), [0, 70]);
  assert.deepEqual(known([35, 45]), [10, 40]);
  assert.deepEqual(known([45, 50]), [40, 70]);
  assert.deepEqual(known([2, 3]), [0, 10]);
  assert.equal(known([71, 75]), null);
  assert.deepEqual(checkpointsOf({ timesMs: { values: new Float64Array() } }, [1, 2]), [-1, -1]);
});

test("the page map does not show which code made copies; a program without Python still has native code to draw", async () => {
  const data = makePage();
  const { parsePayload } = await loadSource("data/decode.ts");
  const { seesCode } = await loadSource("core/stacks.ts");
  const sees = async () => seesCode(await parsePayload(pack(data)));
  assert.ok(await sees());
  data.places = data.places.map((place) => ({ ...place, frames: [], line: null }));
  assert.ok(await sees());
  data.run.exactness = "page-map";
  assert.ok(!(await sees()));
});

test("a process is worded as in the report", async () => {
  const { countInWords, exitInWords, processLabel } = await loadSource("core/processes.ts");
  assert.equal(processLabel({ label: "worker", pid: 4201 }), "worker 4201");
  assert.equal(processLabel({ label: "worker 1 of rank 0", pid: 4201 }), "worker 1 of rank 0 (4201)");
  const exit = { kind: "exited", code: 1, signal: "", cause: "", text: "exit 1, KeyError in train.py:7" };
  assert.equal(countInWords([{ worker: true }, { worker: true }]), "2 workers");
  assert.equal(countInWords([{ worker: true }, { worker: false }, { worker: true }]), "3 processes", "a rank with workers");
  assert.equal(exitInWords(exit, 3), exit.text);
  assert.equal(exitInWords({ ...exit, text: "" }, 3), "exit 1", "an older report");
});

test("binary search: bounds at, between and beyond the values", async () => {
  const { lowerBound, upperBound, lastBefore, nearestSample } = await loadSource("core/search.ts");
  const sorted = Float64Array.of(1, 2, 2, 4);
  const wanted = [0, 1, 2, 3, 4, 5];
  const each = (find) => wanted.map((one) => find(sorted, one));
  assert.deepEqual(each(lowerBound), [0, 0, 1, 3, 3, 4]);
  assert.deepEqual(each(upperBound), [0, 1, 3, 3, 4, 4]);
  assert.deepEqual(each(lastBefore), [-1, 0, 2, 2, 3, 3]);
  assert.equal(nearestSample(sorted, 3.5), 3);
});

test("of too many events a kill is listed, in the order of time", async () => {
  const { heaviestEvents } = await loadSource("core/events.ts");
  const event = (seconds, kind) => ({ seconds, kind, text: "" });
  const forks = Array.from({ length: 10 }, (_, i) => event(i, "process"));
  const events = [...forks, event(10, "killed"), event(11, "exit"), event(12, "oom")];
  const kinds = (most) => heaviestEvents(events, most).map(({ seconds, kind }) => [seconds, kind]);
  assert.deepEqual(kinds(4), [
    [0, "process"],
    [10, "killed"],
    [11, "exit"],
    [12, "oom"],
  ]);
  assert.deepEqual(heaviestEvents(forks, 10), forks);
});

test("a map is bounded: what is too large is left out, and counted", async () => {
  const data = makeMapPage();
  const [, arena] = data.regions;
  arena.bytes = 2 ** 40;
  data.regions = data.regions.filter(
    (region) => region === arena || region.start < arena.start || region.start >= arena.start + arena.bytes,
  );
  const number = data.regions.indexOf(arena);
  data.region_counts = countsToColumns([{ t: 20, index: 1, region: number, own: 1, shared: 1, fresh: 0 }]);
  const { parsePayload } = await loadSource("data/decode.ts");
  const { buildModel } = await loadSource("views/map/model.ts");
  const { beyond, cells, parts } = buildModel(await parsePayload(pack(data)), { index: 1, space: 0, started: 0, ended: null, first: 0 });
  assert.deepEqual(beyond, { regions: 1, pages: 2 ** 28 });
  assert.ok(cells > 0 && parts.some((part) => part.kind === "heap"), "the others are drawn");
});

test("every cause that a recording knows has its own pages on the map; a number beyond them is not known", async () => {
  const data = makeMapPage();
  const { parsePayload, kCauseOrder } = await loadSource("data/decode.ts");
  const { buildModel } = await loadSource("views/map/model.ts");
  const numbers = [...kCauseOrder.keys(), kCauseOrder.length, 77];
  data.pages = {
    t_ms: numbers.map((number) => 20_000 + number),
    index: numbers.map(() => 1),
    cause: numbers,
    first_page: numbers.map((number) => kBase + number),
    pages: numbers.map(() => 1),
  };
  const model = buildModel(await parsePayload(pack(data)), { index: 1, space: 0, started: 0, ended: null, first: 0 });
  const unknown = kCauseOrder.indexOf("unknown");
  assert.deepEqual([...model.copies.cause], [...kCauseOrder.keys(), unknown, unknown]);
  assert.deepEqual(kCauseOrder.slice(9), ["native_refcount", "malloc_reuse"]);
});

test("a listener that fails does not keep the others from being called", async () => {
  const { parsePayload } = await loadSource("data/decode.ts");
  const { Store } = await loadSource("store.ts");
  const [noted, called, frames] = [[], [], []];
  const { error } = console;
  Object.assign(globalThis, { requestAnimationFrame: (body) => frames.push(body) });
  Object.assign(console, { error: (failure) => noted.push(failure.message) });
  try {
    const store = new Store(await parsePayload(pack(makePage())));
    store.on(() => {
      throw new Error("broken");
    });
    store.on(() => called.push("second"));
    store.set({ cursor: 3 });
    for (const frame of frames) frame();
  } finally {
    Object.assign(console, { error });
  }
  assert.deepEqual([noted, called], [["broken"], ["second"]]);
});

test("a forecast that holds for several samples is told with the moment at which it was made", async () => {
  const data = makePage();
  data.forecasts.said_ms = data.times_ms.map((ms) => ms - (ms % 4000));
  const { parsePayload } = await loadSource("data/decode.ts");
  const { saidAt } = await loadSource("core/forecast.ts");
  const page = await parsePayload(pack(data));
  const { seconds, plateau } = saidAt(page, 103);
  assert.deepEqual([seconds, plateau.now, plateau.best], [100, data.totals.workers_private_kib[100], data.forecasts.best_kib[103]]);
  delete data.forecasts.said_ms;
  assert.equal(saidAt(await parsePayload(pack(data)), 103).seconds, 103, "an older page");
});

test("a forecast without a plateau, as of a leak, tells when the limit is full, and draws nothing", async () => {
  const data = makePage();
  for (const name of ["low_kib", "best_kib", "high_kib", "eta_s"]) data.forecasts[name] = data.forecasts[name].map(() => null);
  data.forecasts.limit_eta_s = data.times_ms.map((_, i) => (i < 100 ? 200 : i === 100 ? 0 : null));
  data.forecasts.limit = data.times_ms.map((_, i) => (i <= 100 ? 0 : null));
  data.run.complete = false;
  const { parsePayload } = await loadSource("data/decode.ts");
  const { saidAt, saidInWords, forecastRoom } = await loadSource("core/forecast.ts");
  const page = await parsePayload(pack(data));
  assert.equal(saidAt(page, 50).plateau, null);
  assert.equal(saidInWords(saidAt(page, 50)), "Forecast at 0:50: limit cgroup-v1 /job1 full in 3.3 min");
  assert.equal(saidInWords(saidAt(page, 100)), "Forecast at 1:40: limit cgroup-v1 /job1 full");
  assert.equal(saidAt(page, 101), null);
  assert.equal(forecastRoom(page), 0);
});

test("an instant of a job of several days has a date, and as much of the time as tells two ticks apart", async () => {
  const { formatWall, formatWallTick, spansDays } = await loadSource("core/wall_clock.ts");
  const ms = Date.parse("2026-11-25T23:00:01.234Z");
  assert.equal(spansDays([ms, ms + 3000_000]), false);
  assert.equal(spansDays([ms, ms + 3600_000, NaN]), true);
  assert.equal(formatWall(ms, 3, false), "23:00:01.234");
  assert.equal(formatWall(ms, 0, true), "2026-11-25 23:00:01");
  assert.equal(formatWall(Infinity, 0, true), "—");
  const midnight = Date.parse("2026-11-26T00:00:00Z");
  assert.deepEqual(
    [0.5, 30, 7200, 86400].map((step) => formatWallTick(midnight, step, true)),
    ["00:00:00.0", "00:00:00", "11-26 00:00", "11-26"],
  );
  assert.equal(formatWallTick(midnight, 7200, false), "00:00:00");
});

test("figures are formatted as in the terminal; a name can't hide a control character", async () => {
  const { formatBytes, formatClock, formatEta, formatRate, formatSeconds, formatShare, visibleText } = await loadSource("core/format.ts");
  assert.deepEqual([0, 1023, 1536, 2 ** 40, null].map(formatBytes), ["0 B", "1023 B", "1.5 KiB", "1.0 TiB", "—"]);
  assert.deepEqual(
    [7, 750, 3723].map((one) => formatClock(one)),
    ["0:07", "12:30", "1:02:03"],
  );
  assert.deepEqual([0, 0.0001, 0.05, 0.5].map(formatShare), ["0 %", "< 0.1 %", "5.0 %", "50 %"]);
  assert.deepEqual([0, 12.3, 72.3, 99.94, 99.95, 245, 3599.4, 3599.6, 26 * 3600, null].map(formatSeconds), [
    "0.0 s",
    "12.3 s",
    "72.3 s",
    "99.9 s",
    "1 min 40 s",
    "4 min 05 s",
    "59 min 59 s",
    "1 h 00 min",
    "26 h 00 min",
    "—",
  ]);
  assert.deepEqual([0.2, 40, 89.9, 91, 659, 5401, 7200, 200000].map(formatEta), [
    "1 s",
    "40 s",
    "89 s",
    "1.5 min",
    "10 min",
    "1.5 h",
    "2 h",
    "2.3 days",
  ]);
  assert.deepEqual([0, 0.3, 1, 1234].map(formatRate), ["0/s", "< 1/s", "1/s", "1,234/s"]);
  assert.equal(visibleText("a\u202eb\u0007"), "a\\u{202e}b\\u{7}");
});
