// Runs the tests of the page: two files at a time, since they often wait for a browser, and those that measure time alone.
// Where at most kMost tests failed, their files run once more, alone; more are a fault, not the machine. Tests that failed and
// then passed are listed in COWPROF_BUILD/web_unsteady.txt, if COWPROF_BUILD is set; scripts/run-ctest.py prints them.
//
// usage: node run.mjs [FILE...]     all, if none is named
import { readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { run } from "node:test";
import { tap } from "node:test/reporters";
import { fileURLToPath } from "node:url";

const kMeasure = /(map|timeline|why)\.test\.mjs$/;
const kMost = 3;

// The tests that failed: their names and files.
async function runFiles(files, concurrency) {
  const failed = [];
  if (files.length === 0) return failed;
  const tests = run({ files, concurrency });
  tests.on("test:fail", ({ name, file }) => failed.push({ name, file }));
  for await (const text of tests.compose(tap)) process.stdout.write(text);
  return failed;
}

const folder = fileURLToPath(new URL(".", import.meta.url));
const named = process.argv.slice(2);
const files = named.length
  ? named
  : readdirSync(folder)
      .filter((name) => name.endsWith(".test.mjs"))
      .map((name) => folder + name);
const list = process.env.COWPROF_BUILD && join(process.env.COWPROF_BUILD, "web_unsteady.txt");
if (list) rmSync(list, { force: true });
const together = files.filter((file) => !kMeasure.test(file));
const alone = files.filter((file) => kMeasure.test(file));
let failed = [...(await runFiles(together, 2)), ...(await runFiles(alone, 1))];
if (failed.length > 0 && failed.length <= kMost) {
  const first = failed;
  console.log(`# ${first.length} failed; once more:`);
  failed = await runFiles([...new Set(first.map(({ file }) => file))], 1);
  if (list && failed.length === 0) writeFileSync(list, first.map(({ name }) => `  web: ${name}\n`).join(""));
}
if (failed.length > 0) process.exitCode = 1;
