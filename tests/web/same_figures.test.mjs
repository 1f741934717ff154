// Owns the test that the text report, the JSON report, the page and the alert hook give the same figure for the same thing.
// COWPROF_SAME names a folder with a folder for each recording: timeline.html, report.json, report.txt and, where there were alerts,
// what the hook was given. Without COWPROF_SAME the tests are skipped. Does not: make recordings. Each view is parsed from what it
// shows.
import assert from "node:assert/strict";
import { existsSync, readFileSync, readdirSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { after, before, test } from "node:test";
import { startBrowser, visitPage } from "./browser.mjs";
import { assertBytes, bytesShown, checkLimitsTable, checkQuiet, checkWorkersTable } from "./checks.mjs";

const { COWPROF_SAME: folder } = process.env;
if (!folder) console.log("same_figures.test.mjs: skipped, COWPROF_SAME is not set: no views of real recordings to test");

const kAmount = String.raw`[\d.]+ (?:B|KiB|MiB|GiB|TiB)`;
const kParts = {
  "copied": "copied",
  "pickled": "pickled",
  "pickled or allocated": "pickled",
  "new": "new",
  "inherited free, and allocated again": "inherited_freed",
  "inherited, and not shared since the others ended or freed it": "left",
  "private before the attach": "before_attach",
};
const kCauses = {
  "cow-refcount": ["refcount"],
  "torch-refcount": ["native_refcount"],
  "cow-gc-header": ["gc_header"],
  "cow-data": ["data", "kernel"],
  "allocator-reuse": ["malloc_reuse"],
};
// What a recording is there for: the test of a kind that lacks it would compare nothing.
const kHas = {
  loader: (one) => one.report.worker_slots.started > one.report.worker_slots.living_at_once && one.alerts.length > 0,
  killed: (one) =>
    one.report.workers.some((worker) => worker.exit?.cause === "oom-cgroup") && one.alerts.some((alert) => alert.rule === "eta"),
  cut_off: (one) => !one.report.forecast.ended && one.text.includes("Forecast: ") && one.text.includes("\n  alerts\n"),
  exceeds: (one) => one.report.forecast.eta_limit_seconds !== null && one.text.includes("Forecast: "),
  spawned: (one) => one.report.headline.diagnosis === "private-by-spawn" && one.report.peak.split.pickled > 0,
  late: (one) => one.report.headline.diagnosis === "before-attach" && one.culprits.length > 0,
  freed: (one) => one.report.headline.diagnosis === "allocator-reuse" && one.report.peak.split.inherited_freed > 0,
};

let browser;
before(async () => {
  if (folder) browser = await startBrowser();
});
after(() => browser?.close());

function read(name) {
  const path = (file) => join(folder, name, file);
  const text = readFileSync(path("report.txt"), "utf8");
  const lines = text.split("\n");
  const report = JSON.parse(readFileSync(path("report.json"), "utf8"));
  const alerts = existsSync(path("alerts"))
    ? readFileSync(path("alerts"), "utf8")
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line))
    : [];
  return {
    name,
    text,
    lines,
    report,
    alerts,
    workers: report.workers.filter(({ role }) => role === "worker" || role === "pool"),
    culprits: report.diagnoses.filter(({ culprit }) => culprit !== null),
  };
}

// The lines below a heading, up to the next empty one.
function section({ lines }, heading) {
  const start = lines.findIndex((line) => line.trim().startsWith(heading));
  assert.ok(start >= 0, `the text has "${heading}"`);
  return lines.slice(start + 1, lines.indexOf("", start));
}

// The text wraps findings.
function unwrapped({ text }) {
  return text.replaceAll(/\s+/g, " ");
}

function assertText(shown, expected, what) {
  if (expected === null) assert.equal(shown, "-", what);
  else assertBytes(shown, expected, what);
}

// An amount may be a sum over so many workers, each of them rounded.
function assertNear(shown, times, expected, what) {
  const unit = bytesShown(`1 ${shown.split(" ").at(-1)}`);
  assert.ok(Math.abs(times * bytesShown(shown) - expected) <= 0.0501 * unit * times, `${what}: ${times} times ${shown}, of ${expected}`);
}

// "36 s", "47 min", "3 h": rounded, as a forecast is.
function assertAbout(shown, seconds, what) {
  const [, value, unit] = /^([\d.]+) (s|min|h|days)$/.exec(shown) ?? assert.fail(`${what}: ${shown}`);
  const length = { s: 1, min: 60, h: 3600, days: 86400 }[unit];
  const step = unit !== "s" && Number(value) < 10 ? length / 10 : length;
  const left = Math.max(seconds, 1) - Number(value) * length; // rounded down
  assert.ok(left > -0.01 && left < step + 0.01, `${what}: ${shown}, of ${seconds} s`);
}

const kChecks = {
  "the same verdict, findings and savings": async (one) => {
    const { lines, report, withPage } = one;
    assert.ok(lines[0].startsWith(report.headline.sentence), lines[0]);
    if (report.diagnoses.length > 0) {
      assert.equal(report.diagnoses[0].id, report.headline.diagnosis);
      assert.ok(report.headline.sentence.endsWith(report.diagnoses[0].summary), report.headline.sentence);
    }
    const told = report.diagnoses.map(({ id, summary }) => `${id}: ${summary}`);
    for (const finding of told) assert.ok(unwrapped(one).includes(finding), finding);
    const saved = report.diagnoses.map(({ saves_bytes: saves }) => saves).filter((saves) => saves !== null && saves.high > 0);
    const amounts = (text) => [...text.matchAll(new RegExp(`${kAmount}`, "g"))].map(([amount]) => amount);
    const inText = lines.filter((line) => /^ +what to do, saves /.test(line)).map(amounts);
    const compare = (shown, where) => {
      assert.equal(shown.length, saved.length, where);
      for (const [i, { low, high }] of saved.entries()) {
        if (low > 0) assertBytes(shown[i][0], low, where);
        else assert.equal(shown[i].length, 1, `${where} at most`);
        assertBytes(shown[i].at(-1), high, where);
      }
    };
    compare(inText, "the text saves");
    await withPage(async (page) => {
      const forecast = report.forecast.ended ? "" : ` Forecast: ${report.forecast.sentence}.`;
      assert.equal(lines[0], (await page.textContent("#verdict")) + forecast);
      if (forecast !== "") assert.equal(await page.textContent(".forecast-sentence"), report.forecast.sentence);
      const cards = await page.$$eval(".diagnosis", (all) =>
        all.map((card) => `${card.querySelector(".diagnosis-id").textContent}: ${card.querySelector("h3").textContent}`),
      );
      assert.deepEqual(cards, told);
      const heads = await page.$$eval(".diagnosis .advice h4", (all) => all.map((head) => head.textContent));
      compare(heads.filter((head) => head.includes(", saves ")).map(amounts), "the page saves");
    });
  },

  "the same figures and ends of each process": async (one) => {
    const figure = String.raw`(${kAmount}|-)`;
    const row = new RegExp(String.raw`^  [a-z][\w ]*?\s+(\d+)\s+([\d,]+|-)\s+${figure}\s+${figure}\s+${figure}\s+${figure}  (.*)$`);
    const shown = one.lines.map((line) => row.exec(line)).filter(Boolean);
    const processes = [one.report.parent, ...one.report.workers];
    const more = Number(/^ {2}\.\.\. and (\d+) more$/m.exec(one.text)?.[1] ?? 0);
    assert.equal(shown.length + more, processes.length);
    for (const [, pid, copies, ...rest] of shown) {
      const of = processes.find((process) => String(process.pid) === pid);
      assert.equal(copies, of.copies === null ? "-" : of.copies.toLocaleString("en-US"), pid);
      const expected = [of.copied_bytes, of.private_bytes, of.peak_private_bytes, of.still_shared_bytes];
      expected.forEach((bytes, i) => assertText(rest[i], bytes, `process ${pid}, column ${i}`));
      if (of.exit === null) assert.equal(rest.at(-1), "running", pid);
      else assert.equal(rest.at(-1), of.exit.text, pid);
    }
    await one.withPage((page) => checkWorkersTable(page, one.report));
  },

  "the same peak and parts of it, in the sentence too": async ({ lines, report }) => {
    const { peak, headline, worker_slots: slots } = report;
    const { split } = peak;
    assert.equal(
      Object.values(split).reduce((sum, bytes) => sum + bytes, 0),
      peak.bytes,
    );
    const [, bytes, workers, parts] = new RegExp(String.raw`(${kAmount}) private to (\d+) workers? at the peak: (.*?)\. [A-Z]`).exec(
      lines[0],
    );
    assertBytes(bytes, peak.bytes, "peak");
    assert.ok(Number(workers) >= 1 && Number(workers) <= slots.living_at_once);
    const told = new Set();
    for (const part of parts.split(new RegExp(`, (?=${kAmount} )`))) {
      const [, amount, words] = new RegExp(`^(${kAmount}) (.*)$`).exec(part) ?? assert.fail(part);
      assert.ok(words in kParts, part);
      told.add(kParts[words]);
      assertBytes(amount, split[kParts[words]], part);
    }
    for (const [part, left] of Object.entries(split)) assert.ok(told.has(part) || left < 0.01 * peak.bytes, `${part} is told`);
    const before = new RegExp(`already had (${kAmount}) of private memory`).exec(headline.sentence);
    if (before) {
      assertBytes(before[1], split.before_attach, headline.sentence);
      const sum = report.workers.reduce((all, worker) => all + (worker.before_attach_bytes ?? 0), 0);
      assertBytes(before[1], sum, "before_attach_bytes");
    }
    const each = new RegExp(`what was pickled: (${kAmount}) each in (\\d+) workers`).exec(headline.sentence);
    if (each) assertNear(each[1], Number(each[2]), split.pickled, headline.sentence);
  },

  "as many workers": async ({ report, withPage }) => {
    const [, started, together] =
      /\bin (\d+) workers?(?:, (\d+) at a time)?/.exec(report.headline.sentence) ??
      /\b(\d+) workers? already had/.exec(report.headline.sentence) ??
      [];
    const slots = report.worker_slots;
    if (started) assert.equal(Number(started), slots.started);
    if (started && /\bin \d+ workers/.test(report.headline.sentence)) assert.equal(Number(together ?? started), slots.living_at_once);
    const many = slots.started === slots.living_at_once ? `${slots.started}` : `${slots.living_at_once} at once, ${slots.started} started`;
    await withPage(async (page) => {
      const facts = await page.$$eval(".facts .fact", (all) => all.map((fact) => [...fact.children].map((part) => part.textContent)));
      assert.deepEqual(
        facts.find(([name]) => name === "workers"),
        ["workers", many],
      );
    });
  },

  "the same lines of the program": async ({ text, report, culprits, alerts }) => {
    for (const { culprit, summary } of culprits) {
      const place = `${basename(culprit.file)}:${culprit.line} in ${culprit.function}`;
      assert.ok(summary.includes(`about ${Math.round(100 * culprit.share)} % of it at ${place}`), `${summary}: ${place}`);
      assert.ok(text.includes(`${culprit.file}:${culprit.line}  ${culprit.function}`), place);
      assert.ok(
        report.by_line.some((row) => row.file === culprit.file && row.line === culprit.line && row.function === culprit.function),
        place,
      );
    }
    for (const alert of alerts) {
      // An alert names the line only if that made most of it.
      if (alert.culprit && alert.culprit.share >= 0.5)
        assert.ok(alert.text.includes(`${basename(alert.culprit.file)}:${alert.culprit.line}`), alert.text);
    }
  },

  "the same limits": async (one) => {
    const { report, lines } = one;
    const rows = section(one, "limits").map((line) => line.trim());
    assert.equal(rows.length, report.limits.length);
    for (const limit of report.limits) {
      const row = rows.find((line) => line.startsWith(`${limit.kind} `)) ?? assert.fail(limit.kind);
      const [, used, most] = /([\d.,]+(?: \w?i?B)?|-) of .*\(peak ([\d.,]+(?: \w?i?B)?|-)\)$/.exec(row) ?? assert.fail(row);
      for (const [shown, figure] of [
        [used, limit.used],
        [most, limit.peak],
      ]) {
        if (limit.unit === "bytes") assertText(shown, figure, row);
        else assert.equal(shown, figure === null ? "-" : figure.toLocaleString("en-US"), row);
      }
    }
    const [, words, percent] = /Nearest limit: (.*?), (?:up to )?(\d+) %/.exec(lines[0]) ?? assert.fail(lines[0]);
    const nearest = report.limits.find(({ kind, name }) =>
      words.startsWith("cgroup ") ? name.startsWith(words.slice(7).replace(/\.\.\.$/, "")) : kind === "host",
    );
    const share = report.forecast.ended ? nearest.peak_ratio : nearest.ratio;
    assert.ok(Math.abs(Number(percent) - 100 * share) <= 0.51, `${words}: ${percent}`);
    await one.withPage(async (page) => {
      await checkLimitsTable(page, report);
      const tile = await page.textContent("#tile-limit");
      assert.ok(tile.includes(`${nearest.kind} ${nearest.name}`), `${tile}: ${words}`);
      assert.ok(
        [...tile.matchAll(/([\d.]+) %/g)].some(([, shown]) => Math.abs(Number(shown) - 100 * share) <= 0.51),
        `${tile}: ${share}`,
      );
    });
  },

  "the same forecast": async ({ lines, report, withPage }) => {
    const { forecast } = report;
    if (forecast.ended) return assert.ok(!lines[0].includes("Forecast: "));
    assert.ok(lines[0].endsWith(` Forecast: ${forecast.sentence}.`), lines[0]);
    const eta = / full in about ([\d.]+ \w+)/.exec(forecast.sentence);
    assert.equal(eta !== null, forecast.eta_limit_seconds !== null, forecast.sentence);
    if (eta) assertAbout(eta[1], forecast.eta_limit_seconds, forecast.sentence);
    return withPage(async (page) => {
      const words = await page.textContent(".forecast-words");
      assert.ok(words.includes(forecast.sentence), words);
      if (eta)
        assert.deepEqual(
          [...words.matchAll(/in about (\d+(?:\.\d+)? \w+)/g)].map(([, shown]) => shown),
          [eta[1]],
        );
      const limit = forecast.limits.find(
        ({ kind, name }) => kind === report.limits[report.nearest_limit]?.kind && name === report.limits[report.nearest_limit]?.name,
      );
      if (!limit) return;
      const label = await page.getAttribute(".forecast-bar", "aria-label");
      const shown = /used: ([\d.]+ \w+)/.exec(label) ?? assert.fail(label);
      const of = forecast.limits[forecast.nearest_limit];
      if (of.unit === "bytes") assertBytes(shown[1], of.used, label);
    });
  },

  "the same alerts": async (one) => {
    const { alerts, report, withPage } = one;
    const raised = report.alerts.filter(({ over }) => !over);
    if (raised.length === 0) return assert.ok(!one.text.includes("\n  alerts\n"));
    const listed = section(one, "alerts").filter((line) => !line.includes("alert ended: "));
    assert.equal(listed.length, raised.length);
    assert.ok(alerts.length >= raised.length, "the hook was run for each");
    for (const [i, alert] of raised.entries()) {
      const taken =
        alerts.find(({ t, rule, name }) => t === alert.t && rule === alert.rule && name === alert.name) ?? assert.fail(alert.text);
      for (const key of Object.keys(alert)) if (key !== "pid") assert.deepEqual(taken[key], alert[key], key);
      assert.equal(taken.worker_pid, alert.pid);
      assert.ok(listed[i].includes(alert.text), `${listed[i]}: ${alert.text}`);
      const [, used, limit] = new RegExp(`: (${kAmount}) of (${kAmount}) used`).exec(alert.text) ?? assert.fail(alert.text);
      assertBytes(used, alert.used, alert.text);
      assertBytes(limit, alert.limit, alert.text);
      if (alert.rule === "ratio") {
        const [, percent] = / (\d+) % full/.exec(alert.text) ?? assert.fail(alert.text);
        assert.ok(Math.abs(Number(percent) - (100 * alert.used) / alert.limit) <= 0.5, alert.text); // 92.5 % may be either
      }
      const eta = / full in (?:about )?([\d.]+) s/.exec(alert.text);
      if (eta) assert.ok(Math.abs(Number(eta[1]) - alert.eta_seconds) <= 0.051, `${alert.text}: ${alert.eta_seconds}`);
      const grows = /(\d+) grows most/.exec(alert.text);
      if (grows) assert.equal(Number(grows[1]), alert.pid);
    }
    return withPage(async (page) => {
      const events = await page.textContent('details.panel:has-text("events")');
      for (const alert of raised) assert.ok(events.includes(alert.text), alert.text);
    });
  },

  // Last: it chooses one process after the other.
  "the same causes, in the sentence too": async (one) => {
    const { report, workers } = one;
    const sum = (...causes) =>
      workers.reduce((all, worker) => all + causes.reduce((total, cause) => total + (worker.by_cause[cause] ?? 0), 0), 0);
    const copies = workers.reduce((total, worker) => total + worker.copies, 0);
    if (copies > 0) {
      for (const line of section(one, "why the workers' pages were copied")) {
        const [, share, amount, cause] = new RegExp(String.raw`^ +([\d.]+) % +(${kAmount})  (\w+)$`).exec(line) ?? assert.fail(line);
        assertBytes(amount, 4096 * sum(cause), cause);
        assert.ok(Math.abs(Number(share) - (100 * sum(cause)) / copies) < 0.06, `${line}, of ${copies} copies`);
      }
    }
    for (const { id, summary } of report.diagnoses) {
      if (!(id in kCauses)) continue;
      const [, amount] = new RegExp(`duplicated (${kAmount})`).exec(summary) ?? assert.fail(summary);
      assertBytes(amount, 4096 * sum(...kCauses[id]), summary);
    }
    await one.withPage(async (page) => {
      for (const worker of workers) {
        if (worker.copies === 0) continue;
        await page
          .locator("#workers .row-button", { hasText: String(worker.pid) })
          .first()
          .click();
        await page.waitForFunction((of) => document.querySelector("#who .lead").textContent.includes(of), String(worker.pid));
        const shown = await page.$$eval(".cause-entry .cause-amount", (all) =>
          all.map((entry) => Number(entry.title.replaceAll(/\D/g, ""))),
        );
        const expected = Object.values(worker.by_cause).filter((some) => some > 0);
        const falling = (a, b) => b - a;
        assert.deepEqual(shown.sort(falling), expected.sort(falling), `worker ${worker.pid}`);
      }
    });
  },
};

for (const name of folder ? readdirSync(folder) : []) {
  test(name, async (t) => {
    const one = read(name);
    await t.test("has what it is there for", () => assert.ok(kHas[name](one), one.lines[0]));
    const path = resolve(join(folder, name, "timeline.html"));
    const noted = await visitPage(browser, path, `same-${name}`, {}, async (page) => {
      for (const [what, check] of Object.entries(kChecks)) await t.test(what, () => check({ ...one, withPage: (body) => body(page) }));
    });
    checkQuiet(noted);
  });
}
test("there are recordings", { skip: !folder }, () => assert.ok(readdirSync(folder).length >= 4));
