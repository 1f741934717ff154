// Owns reading a recording from a chosen or dropped file: a page made by cowprof, read as text.
// Does not: insert or run any of it. Other files are refused with a sentence that says why.
import { parsePayload, schemaIn, type Page } from "../../data/decode";
import { formatBytes } from "../../core/format";

const kMark = 'id="cowprof-data"'; // of the data element, the last element of a page
const kMostBytes = 256 * 2 ** 20;
const kSniffed = 4096;

function refuseJson(name: string, head: string): never {
  const schema = schemaIn(head);
  if (schema === "cowprof.timeline")
    throw new Error(`${name} is a recording, and this page can't read one. Make a page of both: cowprof view A.json B.json`);
  if (schema !== "") throw new Error(`${name} is a ${schema}, not a page. Choose an .html file that cowprof view made.`);
  throw new Error(`${name} is JSON, but not from cowprof. Choose an .html file that cowprof view made.`);
}

// Returns the base64 between the tags, never markup.
function payloadOf(name: string, text: string): string {
  const at = text.lastIndexOf(kMark);
  if (at < 0) throw new Error(`${name} is not a cowprof page. Choose an .html file that cowprof view made.`);
  const from = text.indexOf(">", at) + 1;
  const payload = text.slice(from, text.indexOf("<", from)).trim().split("\n")[0] ?? "";
  if (payload.startsWith("__") || payload === "")
    throw new Error(`${name} is the empty template: it holds no recording. Make a page with: cowprof view TIMELINE -o page.html`);
  return payload;
}

export async function readRecording(file: File): Promise<Page> {
  if (file.size > kMostBytes)
    throw new Error(
      `${file.name} has ${formatBytes(file.size)}; a cowprof page has at most ${formatBytes(kMostBytes)}. Choose an .html file that cowprof view made.`,
    );
  let text: string;
  try {
    const head = await file.slice(0, kSniffed).text();
    if (/^\s*[{[]/.test(head)) refuseJson(file.name, head);
    text = await file.text();
  } catch (failure) {
    if (failure instanceof Error && failure.message.startsWith(file.name)) throw failure;
    throw new Error(`${file.name} can't be read by the browser. Is it a folder, or was it moved?`);
  }
  try {
    return await parsePayload(payloadOf(file.name, text));
  } catch (failure) {
    const reason = failure instanceof Error ? failure.message : "It can't be read.";
    throw new Error(reason.startsWith(file.name) ? reason : `${file.name}: ${reason}`);
  }
}
