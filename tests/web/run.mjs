// Runs the tests of the page: two files at a time, since they often wait for a browser, and those that measure time alone.
//
// usage: node run.mjs [FILE...]     all, if none is named
import { readdirSync } from "node:fs";
import { run } from "node:test";
import { tap } from "node:test/reporters";
import { fileURLToPath } from "node:url";

const kMeasure = /(map|timeline|why)\.test\.mjs$/;

async function runFiles(files, concurrency) {
  if (files.length === 0) return;
  const tests = run({ files, concurrency });
  tests.on("test:fail", () => (process.exitCode = 1));
  for await (const text of tests.compose(tap)) process.stdout.write(text);
}

const folder = fileURLToPath(new URL(".", import.meta.url));
const named = process.argv.slice(2);
const files = named.length
  ? named
  : readdirSync(folder)
      .filter((name) => name.endsWith(".test.mjs"))
      .map((name) => folder + name);
await runFiles(
  files.filter((file) => !kMeasure.test(file)),
  2,
);
await runFiles(
  files.filter((file) => kMeasure.test(file)),
  1,
);
