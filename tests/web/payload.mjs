// Owns the encoding of a page's data: plain arrays of numbers become columns, and the whole becomes the text embedded in the page.
// Written from the format's description, independently of the tool's C++.
// Does not: know what makes a recording plausible.
import { readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

export const kTemplate = new URL("../../web/dist/template.html", import.meta.url);
const kPlaceholder = "__COWPROF_DATA__";
const kMeasures = ["private_kib", "pss_kib", "still_shared_kib", "copies", "workers_private_kib"];
const kTables = ["forecasts", "blame", "region_counts", "pages"]; // every array in these is a column

// LEB128 varints: 0 is unknown, otherwise 1 + zigzag of the difference to the last known value.
export function encode(values) {
  const bytes = [];
  let last = 0;
  for (const value of values) {
    const known = value !== null && value !== undefined && !Number.isNaN(value);
    const delta = known ? value - last : 0;
    let code = known ? 1 + (delta < 0 ? -2 * delta - 1 : 2 * delta) : 0;
    for (; code > 127; code = Math.floor(code / 128)) bytes.push((code % 128) + 128);
    bytes.push(code);
    if (known) last = value;
  }
  return Buffer.from(bytes);
}

class Binary {
  parts = [];
  size = 0;

  column(values) {
    if (!Array.isArray(values) && !ArrayBuffer.isView(values)) return values;
    const bytes = encode(values);
    this.parts.push(bytes);
    this.size += bytes.length;
    return [this.size - bytes.length, bytes.length, values.length];
  }

  each(record, keys = Object.keys(record ?? {})) {
    if (record === null || typeof record !== "object") return record;
    return Object.fromEntries(Object.entries(record).map(([key, value]) => [key, keys.includes(key) ? this.column(value) : value]));
  }

  measured(row) {
    const coded = this.each(row, kMeasures);
    if (row?.causes !== undefined) coded.causes = this.each(row.causes);
    return coded;
  }
}

// The payload of a page whose columns are still plain arrays.
export function pack(page) {
  const binary = new Binary();
  const json = { ...page, times_ms: binary.column(page.times_ms) };
  if (Array.isArray(page.processes))
    json.processes = page.processes.map((row) => (row === null || typeof row !== "object" ? row : binary.measured(row)));
  if (page.totals) json.totals = binary.measured(page.totals);
  if (Array.isArray(page.limits)) json.limits = page.limits.map((row) => binary.each(row, ["limit", "used"]));
  if (Array.isArray(page.curves)) json.curves = page.curves.map((curve) => binary.each(curve, ["times_ms", "private_kib"]));
  for (const name of kTables) if (page[name]) json[name] = binary.each(page[name]);
  return gzipSync(Buffer.concat([Buffer.from(`${JSON.stringify(json)}\n`), ...binary.parts])).toString("base64");
}

// One page, or two to compare; a text is taken as it is.
export function fillTemplate(page, template = readFileSync(kTemplate, "utf8")) {
  const text = Array.isArray(page) ? page.map(pack).join("\n") : typeof page === "string" ? page : pack(page);
  return template.replace(kPlaceholder, () => text);
}
