// Workflows of GitHub, judged by actionlint: this project's own, the examples of docs/ci.md, and the steps of action.yml.
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { before, test } from "node:test";
import { pathToFileURL } from "node:url";

const kRoot = new URL("../../", import.meta.url);
const require = createRequire(new URL("web/package.json", kRoot));
const { createLinter } = await import(pathToFileURL(require.resolve("actionlint").replace("node.cjs", "node.mjs")).href);

let lint;
before(async () => {
  lint = await createLinter();
});

const read = (path) => readFileSync(new URL(path, kRoot), "utf8");
const shifted = (text, by) => text.replace(/^(?=.)/gm, " ".repeat(by));
const complaints = (text) => lint(text, "workflow.yml").map(({ line, message }) => `${line}: ${message}`);

function job(steps, on = "on: pull_request") {
  return `${on}\njobs:\n  copies:\n    runs-on: ubuntu-latest\n    steps:\n      - uses: actions/checkout@v4\n${steps}`;
}

// An action is no workflow: its inputs and steps are judged as those of a workflow that others call.
const action = read("action.yml");
const inputs = /^inputs:\n((?: .*\n)+)/m.exec(action)[1];
const steps = /^ {2}steps:\n((?: .*\n?)+)/m.exec(action)[1];
const called = shifted(inputs.replace(/^ {2}\w+:$/gm, "$&\n    type: string"), 4);
const asWorkflow = job(shifted(steps, 2), `on:\n  workflow_call:\n    inputs:\n${called}`);

// The indented blocks of "## GitHub" that begin with a step.
const section = read("docs/ci.md")
  .split(/^## /m)
  .find((part) => part.startsWith("GitHub\n"));
const examples = section.match(/(?:^ {4}.*\n)+/gm).filter((block) => block.startsWith("    - "));

test("the project's own workflows", () => {
  const folder = new URL(".github/workflows/", kRoot);
  const files = readdirSync(folder);
  assert.ok(files.length > 0);
  for (const file of files) assert.deepEqual(complaints(readFileSync(new URL(file, folder), "utf8")), [], file);
});

test("the steps of action.yml", () => {
  assert.deepEqual(complaints(asWorkflow), []);
  assert.match(complaints(asWorkflow.replace("inputs.bounds", "inputs.bound")).join(), /property "bound" is not defined/);
});

test("the examples of docs/ci.md", () => {
  assert.equal(examples.length, 1);
  const declared = [...inputs.matchAll(/^ {2}(\w+):$/gm)].map((found) => found[1]);
  const required = [...inputs.matchAll(/^ {2}(\w+):\n(?: {4}.*\n)*? {4}required: true$/gm)].map((found) => found[1]);
  assert.deepEqual(required, ["command", "wheel"]);
  for (const example of examples) {
    assert.deepEqual(complaints(job(shifted(example, 2))), []);
    assert.match(complaints(job(shifted(example.replace(/@\w+/, ""), 2))).join(), /ref is missing/);
    const given = [...example.matchAll(/^ {8}(\w+):/gm)].map((found) => found[1]);
    for (const name of given) assert.ok(declared.includes(name), name);
    for (const name of required) assert.ok(given.includes(name), name);
  }
});
