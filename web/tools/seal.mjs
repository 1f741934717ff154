// Owns the last step of the build: turns dist/index.html into dist/template.html, sealed by a strict content security policy.
// Does not: fill in a recording; `cowprof view` does, and must change nothing but the placeholder.
import { createHash } from "node:crypto";
import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const kPlaceholder = "__COWPROF_DATA__";
const kDataElement = `<script id="cowprof-data" type="text/plain">${kPlaceholder}</script>`;
const kMaxBytes = 300 * 1024;
const dist = new URL("../dist/", import.meta.url);

function fail(message) {
  console.error(`seal: ${message}`);
  process.exit(1);
}

function hashes(html, pattern) {
  return [...html.matchAll(pattern)]
    .map(([, text]) => createHash("sha256").update(text, "utf8").digest("base64"))
    .map((digest) => `'sha256-${digest}'`);
}

function policy(html) {
  const scripts = hashes(html, /<script type="module"[^>]*>([\s\S]*?)<\/script>/g);
  const styles = hashes(html, /<style[^>]*>([\s\S]*?)<\/style>/g);
  if (scripts.length !== 1) fail(`expected one inlined script, found ${scripts.length}`);
  if (styles.length !== 1) fail(`expected one inlined style, found ${styles.length}`);
  return [
    "default-src 'none'",
    `script-src ${scripts.join(" ")}`,
    `style-src ${styles.join(" ")}`,
    "img-src data:",
    "base-uri 'none'",
    "form-action 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join("; ");
}

const source = readFileSync(new URL("index.html", dist), "utf8").replace(/<!--[\s\S]*?-->\s*/g, "");
if (source.split(kPlaceholder).length !== 2) fail(`${kPlaceholder} must occur exactly once`);
if (!source.includes(kDataElement)) fail("the data element was changed by the bundler");
if (/<(script|link|img|iframe)[^>]+(src|href)="(?!data:)/.test(source)) fail("the page still refers to another file");

const html = source.replace(
  /<meta charset="utf-8"\s*\/?>/,
  (charset) => `${charset}\n    <meta http-equiv="Content-Security-Policy" content="${policy(source)}" />`,
);
if (!html.includes("Content-Security-Policy")) fail("found no place for the security policy");
const size = Buffer.byteLength(html);
if (size > kMaxBytes) fail(`template.html has ${size} bytes; at most ${kMaxBytes} are allowed`);

writeFileSync(new URL("index.html", dist), html);
renameSync(new URL("index.html", dist), new URL("template.html", dist));
console.log(`seal: ${fileURLToPath(new URL("template.html", dist)).split("/").slice(-2).join("/")}, ${size} bytes`);
