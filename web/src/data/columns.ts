// Owns a recording's columns of numbers: LEB128 varints of zigzag differences, decoded when first read.
// Does not: know what a column holds. What is damaged or missing reads as unknown (NaN), never as an exception.
import { asList, asNumber, type Json } from "./json";

// Code 0 is unknown; otherwise code - 1 is the zigzag of the difference to the last known value.
// Multiplies, as numbers go up to 2^53 and shifts only handle 32 bits.
function decode(bytes: Uint8Array, count: number): Float64Array {
  const values = new Float64Array(count).fill(NaN);
  let last = 0;
  for (let i = 0, at = 0; i < count && at < bytes.length; i++) {
    let byte = bytes[at++] as number;
    let code = byte & 127;
    for (let scale = 128; byte > 127 && at < bytes.length; scale *= 128) {
      byte = bytes[at++] as number;
      code += (byte & 127) * scale;
    }
    if (code === 0) continue;
    last += code & 1 ? (code - 1) / 2 : -code / 2;
    values[i] = last;
  }
  return values;
}

export class Column {
  private decoded: Float64Array | null = null;

  constructor(
    private bytes: Uint8Array,
    readonly length: number,
  ) {}

  get values(): Float64Array {
    this.decoded ??= decode(this.bytes, this.length);
    return this.decoded;
  }

  static of(values: ArrayLike<number>): Column {
    const column = new Column(new Uint8Array(), values.length);
    column.decoded = Float64Array.from(values);
    return column;
  }
}

const kNoColumn = new Column(new Uint8Array(), 0);

// `[offset, bytes, count]` into the binary part. A value takes at least one byte, so larger counts are cut.
export function readColumn(value: Json | undefined, binary: Uint8Array): Column {
  const [offset = null, size = null, count = null] = asList(value).map(asNumber);
  if (offset === null || size === null || count === null || offset < 0 || size < 0) return kNoColumn;
  const bytes = binary.subarray(offset, offset + size);
  return new Column(bytes, Math.max(0, Math.min(Math.floor(count), bytes.length)));
}
