// Owns the shared memory section: the mount's figures and the table of segments, at the last reading or at the fullest.
// Does not: judge; kinds and owners come from the report.
import "./shm.css";
import { make, makeSection, mark } from "../../ui/dom";
import { formatBytes, formatCount, formatShare } from "../../core/format";
import type { Segment, Shm, ShmLook } from "../../data/segments";
import type { Store } from "../../store";
import { DataTable, makeSearchBox, makeSwitch, type Column } from "../../ui/table";

const kFirst = 12;

// Nobody uses a segment that is leaked, one on its way between two processes, or a file that outlives those who use it.
function ownersOf(row: Segment): { state: string; users: string } {
  if (row.owners.length > 0) return { state: "in use", users: row.owners.join(" ") };
  if (row.ownership === "leaked") return { state: "left behind", users: "nobody" };
  if (row.creatorAlive) return { state: "in flight", users: `on its way from ${row.creator ?? "?"}` };
  if (row.ownership === "unknown" || !row.allExamined) return { state: "owner unknown", users: "unknown" };
  return { state: "not in use", users: "none right now" };
}

// An unlinked segment no longer has a name in the directory.
function stateOf(row: Segment): string {
  const { state } = ownersOf(row);
  return row.deleted ? `${state}, unlinked` : state;
}

const kColumns: Column<Segment>[] = [
  { title: "segment", className: "code name-cell", words: true, key: (row) => row.name, text: (row) => row.name },
  { title: "kind", words: true, key: (row) => row.kind, text: (row) => row.kind },
  {
    title: "takes up",
    key: (row) => row.bytes,
    text: (row) => formatBytes(row.bytes),
    csv: [{ head: "bytes", value: (row) => row.bytes }],
  },
  {
    title: "length",
    key: (row) => row.lengthBytes,
    text: (row) => formatBytes(row.lengthBytes),
    csv: [{ head: "length_bytes", value: (row) => row.lengthBytes }],
  },
  {
    title: "state",
    words: true,
    key: stateOf,
    text: stateOf,
    fill: (row) => make("td", row.ownership === "leaked" ? "words bad" : "words", stateOf(row)),
  },
  { title: "made by", key: (row) => row.creator, text: (row) => (row.creator === null ? "—" : String(row.creator)) },
  { title: "used by", words: true, key: (row) => row.owners.join(" "), text: (row) => ownersOf(row).users },
];

function lookInWords(look: ShmLook): string {
  const share =
    look.capacityBytes === null || look.usedBytes === null || look.capacityBytes === 0
      ? ""
      : ` (${formatShare(look.usedBytes / look.capacityBytes)})`;
  const used = `${look.mount}: ${formatBytes(look.usedBytes)} used of ${look.capacityBytes === null ? "no fixed capacity" : formatBytes(look.capacityBytes)}${share}.`;
  if (look.batches === null) return used;
  const { segments, bytesEach, bytes } = look.batches;
  return `${used} Batches: ${formatCount(segments)} segment${segments === 1 ? "" : "s"} of ${formatBytes(bytesEach)}, ${formatBytes(bytes)} in flight or still in use.`;
}

function omittedInWords({ omitted: { segments, bytes } }: ShmLook): string {
  return segments === 0 ? "" : `${formatCount(segments)} smaller segment${segments === 1 ? "" : "s"} (${formatBytes(bytes)}) not listed.`;
}

export function makeShmSection(store: Store): HTMLElement {
  const section = makeSection("shm", "Shared memory", "");
  const table = new DataTable<Segment>({
    id: "segments",
    caption: "Segments of shared memory",
    columns: kColumns,
    sortBy: "takes up",
    first: kFirst,
    keyOf: (row) => row.key,
  });
  const [lead, empty] = [make("p", "lead"), make("p", "empty")];
  const omitted = make("p", "note");
  let atPeak = true;
  const look = (shm: Shm): ShmLook => (atPeak && shm.atPeak !== null ? shm.atPeak : shm);
  const show = (): void => {
    const { shm } = store.page.report;
    const shown = shm === null ? null : look(shm);
    section.hidden = shm === null || shm.segments.length + (shm.atPeak?.segments.length ?? 0) === 0;
    lead.textContent = shown === null ? "" : `${lookInWords(shown)} This table does not follow the time selection.`;
    empty.textContent = shown?.segments.length === 0 ? "There were no segments at this reading." : "";
    table.element.hidden = shown?.segments.length === 0;
    table.update(shown?.segments ?? []);
    omitted.textContent = shown === null ? "" : omittedInWords(shown);
  };
  const which = makeSwitch(
    "Which look",
    [
      ["when fullest", true],
      ["last look", false],
    ],
    true,
    (peak) => {
      atPeak = peak;
      show();
    },
  );
  section.append(
    lead,
    make(
      "div",
      "table-tools",
      makeSearchBox("Search segments", (text) => table.search(text), table.count),
      mark(which, { id: "shm-look" }),
      table.copy,
    ),
    empty,
    table.element,
    omitted,
  );
  store.on((changed) => {
    if (changed.has("page")) show();
  });
  show();
  return section;
}
