// Owns formatting a table as CSV (RFC 4180).
// Does not: choose columns or rows. Figures stay plain numbers, so that a spreadsheet can compute with them.

export type CsvCell = string | number | null;

// A spreadsheet evaluates a cell that starts like a formula; a leading apostrophe makes it text (OWASP, "CSV Injection").
function spell(cell: CsvCell): string {
  if (cell === null) return "";
  if (typeof cell === "number") return String(cell);
  const harmless = /^[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20]/u.test(cell) ? `'${cell}` : cell;
  return /[",\r\n]/.test(harmless) ? `"${harmless.replaceAll('"', '""')}"` : harmless;
}

export function spellCsv(rows: CsvCell[][]): string {
  return rows.map((row) => `${row.map(spell).join(",")}\r\n`).join("");
}
