// Owns the way from a chosen or dropped file to a recording: a page of cowprof, read as text.
// Called by: compare.ts.
// Does not: insert or run anything of it; what is no page is refused in a sentence.
import { parsePayload, type Page } from "./decode";
import { formatBytes } from "./format";

const kMark = 'id="cowprof-data"'; // of the data element, the last one of a page
const kMostBytes = 256 * 2 ** 20;
const kSniffed = 4096;

function refuseJson(name: string, head: string): never {
  const schema = /"schema"\s*:\s*"(cowprof\.[a-z]+)\/\d+"/.exec(head)?.[1];
  if (schema === "cowprof.timeline") throw new Error(`${name} is a recording, and this page can't read one. Make a page of both: cowprof view A.json B.json`);
  if (schema !== undefined) throw new Error(`${name} is a ${schema}, not a page. Choose an .html file that cowprof view made.`);
  throw new Error(`${name} is JSON, but not of cowprof. Choose an .html file that cowprof view made.`);
}

// Base64 between the tags, never markup.
function payloadOf(name: string, text: string): string {
  const at = text.lastIndexOf(kMark);
  if (at < 0) throw new Error(`${name} is not a page of cowprof. Choose an .html file that cowprof view made.`);
  const from = text.indexOf(">", at) + 1;
  const payload = text.slice(from, text.indexOf("<", from)).trim().split("\n")[0] ?? "";
  if (payload.startsWith("__") || payload === "") throw new Error(`${name} is the empty template: it holds no recording. Make a page with: cowprof view TIMELINE -o page.html`);
  return payload;
}

export async function readRecording(file: File): Promise<Page> {
  if (file.size > kMostBytes) throw new Error(`${file.name} has ${formatBytes(file.size)}; a page of cowprof has at most ${formatBytes(kMostBytes)}. Choose an .html file that cowprof view made.`);
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
