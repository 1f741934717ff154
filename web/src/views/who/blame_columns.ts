// Owns the columns of the blame tables: name, detail, copied amount, and the share with its causes.
// Does not: hold rows, sort or filter; table.ts does.
import type { BlameRow } from "../../data/blame";
import { causesInWords } from "../../core/causes";
import { makeCopyButton } from "../../ui/clipboard";
import { make, mark } from "../../ui/dom";
import { formatBytes, formatCount, formatShare, formatUncertainty, visibleText } from "../../core/format";
import type { Column } from "../../ui/table";
import { makeThinCauseBar } from "../../ui/cause_bar";
import { makePathName } from "../../ui/path_name";

export interface BlameHeads {
  name: string; // head of the first column
  detail: string; // head of the second; "" if there is none
  sized?: boolean; // rows have a size, part of which was copied
}

export interface Units {
  pageBytes: () => number | null;
  countsBytes: () => boolean;
}

function shareText(row: BlameRow): string {
  const uncertain = row.estimated && row.uncertainty !== null && row.share !== null;
  return formatShare(row.share) + (uncertain ? ` ${formatUncertainty(row.uncertainty ?? 0, row.share)}` : "");
}

function makeShareCell(row: BlameRow): HTMLElement {
  const [share = "", uncertain = ""] = shareText(row).split(" ±");
  const figures = make(
    "span",
    "share-figures",
    make("span", "", share),
    uncertain === "" ? null : make("span", "uncertain", ` ±${uncertain}`),
  );
  return make("td", "share-cell", make("span", "share-pair", makeThinCauseBar(row.causes, row.share), figures));
}

function makeCopiedCell(text: string, row: BlameRow): HTMLElement {
  const cell = make("td", "number", text);
  return row.causes === null ? cell : mark(cell, { title: `${formatCount(row.copies)} copies: ${causesInWords(row.causes)}` });
}

// The row as text: all cells, with the full path.
function lineOf(columns: Column<BlameRow>[], row: BlameRow): string {
  return columns.map((column) => visibleText(column.text(row))).join("\t");
}

export function planBlameColumns(heads: BlameHeads, units: Units): Column<BlameRow>[] {
  const inBytes = (pages: number | null): number | null =>
    pages === null || units.pageBytes() === null ? null : pages * (units.pageBytes() ?? 0);
  const bytes = (row: BlameRow): number | null => row.bytes ?? inBytes(row.copies);
  const copied = (row: BlameRow): string => (units.countsBytes() ? formatBytes(bytes(row)) : formatCount(row.copies));
  const size = (row: BlameRow): string => (units.countsBytes() ? formatBytes(inBytes(row.pages)) : formatCount(row.pages));
  const planned: Column<BlameRow>[] = [
    {
      title: heads.name,
      words: true,
      key: (row) => row.name,
      text: (row) => row.name,
      fill: (row) =>
        mark(
          make(
            "th",
            "code name-cell",
            makePathName(row.name, row.path),
            makeCopyButton("", "copy", () => lineOf(columns, row)),
          ),
          { title: row.name },
        ),
    },
    { title: heads.detail, className: "code detail-cell", words: true, key: (row) => row.detail, text: (row) => row.detail },
    {
      title: "copied",
      key: (row) => row.copies,
      text: copied,
      fill: (row) => makeCopiedCell(copied(row), row),
      csv: [
        { head: "copies", value: (row) => row.copies },
        { head: "copied_bytes", value: bytes },
      ],
    },
    { title: "size", key: (row) => row.pages, text: size, csv: [{ head: "size_bytes", value: (row) => inBytes(row.pages) }] },
    { title: "share", key: (row) => row.share, text: shareText, fill: makeShareCell },
  ];
  const columns = planned.filter((column) => column.title !== "" && (column.title !== "size" || heads.sized === true));
  return columns;
}
