// Owns the rule of who may import whom in web/src. Each room sees itself and the rooms before it in kRooms; a section of views/
// sees no other section; only data/ knows the keys of the page and the report; data/ and core/ touch no DOM.
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";

const kSource = fileURLToPath(new URL("../../web/src/", import.meta.url));
const kRooms = ["data", "core", "store.ts", "ui", "views", "live", "main.ts"];
const kImport = /^(?:import|export)\s(?:[^"';]*?\sfrom\s)?"(\.[^"]+)"/gm;
const kDom =
  /\b(?:document|window|(?:HTML\w*)?Element|Event|navigator|localStorage|addEventListener|requestAnimationFrame|matchMedia|getComputedStyle|innerWidth|devicePixelRatio)\b/;
const kJsonKey = /\.[a-z]+_[a-z]|\["[a-z]+_[a-z_]+"\]|JSON\.parse/;

const sources = readdirSync(kSource, { recursive: true })
  .map(String)
  .filter((path) => path.endsWith(".ts"))
  .sort();
const room = (path) => path.split("/")[0];
const section = (path) => path.split("/").slice(0, 2).join("/");
const codeOf = (path) => readFileSync(join(kSource, path), "utf8");
const bare = (path) =>
  codeOf(path)
    .replace(/^\s*\/\/.*$|\s\/\/ .*$/gm, "")
    .replace(/^(?:import|export) .* from .*$/gm, "");
const offenders = (paths, pattern) =>
  paths.filter((path) => pattern.test(bare(path))).map((path) => `${path}: ${pattern.exec(bare(path))[0]}`);

function isAllowed(from, to) {
  if (room(from) === "views" && room(to) === "views") return section(from) === section(to);
  return kRooms.indexOf(room(to)) >= 0 && kRooms.indexOf(room(to)) <= kRooms.indexOf(room(from));
}

test("imports point from later rooms to earlier ones, and from no section of the page to another", () => {
  const arrows = sources.flatMap((from) =>
    [...codeOf(from).matchAll(kImport)].map(([, to]) => [from, relative(kSource, join(kSource, dirname(from), to))]),
  );
  assert.ok(arrows.length > 200, `${arrows.length} imports found`);
  assert.deepEqual(
    arrows.filter(([from, to]) => !isAllowed(from, to.includes(".") ? to : `${to}.ts`)).map((arrow) => arrow.join(" imports ")),
    [],
  );
});

test("only data/ spells keys of JSON; data/ and core/ touch no DOM", () => {
  assert.deepEqual(
    offenders(
      sources.filter((path) => room(path) !== "data"),
      kJsonKey,
    ),
    [],
  );
  assert.deepEqual(
    offenders(
      sources.filter((path) => ["data", "core"].includes(room(path))),
      kDom,
    ),
    [],
  );
});
