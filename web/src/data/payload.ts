// Owns unpacking a payload: base64 of gzip of JSON, a newline, and the bytes that its columns point into.
// Does not: know what the JSON says. Every failure is an Error whose message is a sentence for the reader.
import { asRecord, type Json, type JsonRecord } from "./json";

const kDamaged =
  "The recording in this page can't be read: the file is damaged or cut off. Make it again with: cowprof view TIMELINE -o page.html";

export interface Parts {
  json: JsonRecord;
  binary: Uint8Array;
}

export function fromBase64(base64: string): Uint8Array<ArrayBuffer> {
  let text: string;
  try {
    text = atob(base64.trim());
  } catch {
    throw new Error(kDamaged);
  }
  const packed = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) packed[i] = text.charCodeAt(i);
  return packed;
}

async function unpack(packed: Uint8Array<ArrayBuffer>): Promise<Uint8Array> {
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

function split(bytes: Uint8Array): Parts {
  const newline = bytes.indexOf(10);
  const end = newline < 0 ? bytes.length : newline;
  return { json: asRecord(JSON.parse(new TextDecoder().decode(bytes.subarray(0, end))) as Json), binary: bytes.slice(end + 1) };
}

export async function unpackParts(packed: Uint8Array<ArrayBuffer>): Promise<Parts> {
  if (typeof DecompressionStream === "undefined")
    throw new Error("This browser is too old to unpack the recording (it has no DecompressionStream).");
  try {
    return split(await unpack(packed));
  } catch {
    throw new Error(kDamaged);
  }
}
