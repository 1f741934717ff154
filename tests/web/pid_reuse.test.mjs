// Owns the test of a pid that the kernel gave out twice: two processes of one recording, told apart by their index.
// Does not: test what one process shows; workers, causes and lines have tests of their own.
import assert from "node:assert/strict";
import { test } from "node:test";
import { makeBlamedPage } from "./blamed.mjs";
import { assertBytes, settle, workerRows } from "./checks.mjs";
import { makeStage } from "./stage.mjs";

const { withPage } = makeStage("pid-reuse-");

// Process 2 is killed by SIGKILL; process 3 gets its pid and exits normally, long after.
function makeReusedPid() {
  const data = makeBlamedPage();
  const { pid } = data.report.workers[1];
  const [, , killed, reused] = data.processes;
  assert.deepEqual([killed.index, reused.index], [2, 3]);
  for (const row of [reused, data.report.workers[2]]) row.pid = pid;
  Object.assign(data.report.workers[2], { started_at: 130, ended_at: 175, exit: { kind: "exited", code: 0, signal: null, cause: "" } });
  data.report.workers[2].by_line[0].function = "second_life";
  Object.assign(reused, { started: 130, ended: 175 });
  data.events = data.events.filter(({ kind }) => kind !== "process");
  data.events.push({ t: 175, kind: "exit", index: 3, pid, text: `worker ${pid} ended with exit code 0` });
  return { data, pid };
}

test("of two processes with one pid, only the one that a signal ended is marked as killed", async () => {
  const { data, pid } = makeReusedPid();
  await withPage("events", data, {}, async (page) => {
    const kinds = await page.$$eval("table.events tbody tr", (rows) =>
      rows.map((row) => [row.cells[1].textContent, row.cells[2].textContent]),
    );
    assert.deepEqual(
      kinds.filter(([kind]) => kind === "killed" || kind === "exit"),
      [
        ["killed", `worker ${pid} was killed by SIGKILL`],
        ["exit", `worker ${pid} ended with exit code 0`],
      ],
    );
    assert.equal(await page.locator('.mark[data-kind="exit"]').count(), 1, "the normal exit is a mark of its own");
    const exits = (await workerRows(page)).filter(([shown]) => shown === String(pid)).map((cells) => [cells[2], cells[10]]);
    assert.deepEqual(exits.sort(), [
      ["2", "killed by SIGKILL (oom-cgroup)"],
      ["3", "exit 0"],
    ]);
  });
});

test("pinning the second process of a pid shows its own causes, lines and row", async () => {
  const { data, pid } = makeReusedPid();
  const [, first, second] = data.report.workers;
  await withPage("pinned", data, {}, async (page) => {
    for (const row of [second, first]) {
      await page.selectOption("#scope", String(row.index));
      await settle(page);
      assertBytes(await page.textContent(".why-total strong"), row.copied_bytes, `copied by process ${row.index}`);
      assert.equal(await page.textContent("#by-line tbody tr >> nth=0 >> td >> nth=0"), row.by_line[0].function);
      const pressed = await page.$$eval("#workers tbody tr", (rows) =>
        rows.filter((one) => one.querySelector("[aria-pressed=true]")).map((one) => [one.cells[0].textContent, one.cells[2].textContent]),
      );
      assert.deepEqual(pressed, [[String(pid), String(row.index)]]);
    }
  });
});

test("a row of the report without an index borrows nothing from another process of its pid", async () => {
  const { data } = makeReusedPid();
  const [, , second] = data.report.workers;
  Object.assign(second, { index: null, copied_bytes: null, by_cause: null });
  await withPage("no-index", data, {}, async (page) => {
    await page.locator("#workers tbody.workers tr", { hasText: "exit 0" }).locator("button").click();
    await settle(page);
    assert.equal(await page.locator("#workers [aria-pressed=true]").count(), 0, "nothing is pinned in its place");
  });
});
