// Owns formatting: bytes, counts, rates, durations, shares, and names that come from outside.
// Does not: compute a figure.

const kUnits = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const kUnknown = "—";
const kLongest = 1000;
const kClockFrom = 120; // seconds
const kCount = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

// One decimal, as in the terminal, so that a figure reads the same everywhere.
export function formatBytes(bytes: number | null | undefined): string {
  if (bytes === null || bytes === undefined || !Number.isFinite(bytes)) return kUnknown;
  let value = Math.abs(bytes);
  let unit = 0;
  while (value >= 1023.95 && unit < kUnits.length - 1) {
    value /= 1024;
    unit++;
  }
  return `${bytes < 0 ? "−" : ""}${unit === 0 ? Math.round(value) : value.toFixed(1)} ${kUnits[unit]}`;
}

export function formatKib(kib: number | null | undefined): string {
  return formatBytes(kib === null || kib === undefined ? null : kib * 1024);
}

// Axis steps are round: 48 GiB, not 48.0 GiB.
export function formatKibStep(kib: number): string {
  return formatKib(kib).replace(".0 ", " ");
}

export function formatCount(count: number | null | undefined): string {
  return count === null || count === undefined || !Number.isFinite(count) ? kUnknown : kCount.format(count);
}

export function formatRate(rate: number | null | undefined): string {
  if (rate === null || rate === undefined || !Number.isFinite(rate)) return kUnknown;
  return rate > 0 && rate < 1 ? "< 1/s" : `${kCount.format(rate)}/s`;
}

export function formatShare(ratio: number | null | undefined): string {
  if (ratio === null || ratio === undefined || !Number.isFinite(ratio)) return kUnknown;
  const percent = ratio * 100;
  if (percent > 0 && percent < 0.05) return "< 0.1 %";
  return `${percent >= 9.95 || percent === 0 ? percent.toFixed(0) : percent.toFixed(1)} %`;
}

// In percentage points, rounded up so that it is never understated, with as many decimals as the share beside it.
export function formatUncertainty(uncertainty: number, share: number | null): string {
  const places = (share ?? 0) * 100 >= 10 ? 0 : 1;
  const step = 10 ** places;
  return `± ${(Math.ceil(Number((uncertainty * 100 * step).toFixed(6))) / step).toFixed(places)}`;
}

export function formatQuantity(value: number | null, unit: string): string {
  return unit === "bytes" ? formatBytes(value) : formatCount(value);
}

// As in the terminal: "72.3 s", "4 min 05 s".
export function formatSeconds(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return kUnknown;
  if (seconds < 99.95) return `${Math.max(0, seconds).toFixed(1)} s`;
  const whole = Math.round(seconds);
  const two = (value: number): string => String(value % 60).padStart(2, "0");
  const minutes = Math.floor(whole / 60);
  return whole < 3600 ? `${minutes} min ${two(whole)} s` : `${Math.floor(whole / 3600)} h ${two(minutes)} min`;
}

// How long until something is expected, rounded down as in the forecast's sentence: "40 s", "1.5 min", "12 min", "3.2 h".
export function formatEta(seconds: number): string {
  const down = (value: number): number => (value < 10 ? Math.floor(10 * value) / 10 : Math.floor(value));
  if (seconds < 90) return `${Math.max(1, Math.floor(seconds))} s`;
  if (seconds < 90 * 60) return `${down(seconds / 60)} min`;
  return seconds < 48 * 3600 ? `${down(seconds / 3600)} h` : `${down(seconds / 86400)} days`;
}

// A duration that may be far below a second, such as CPU time.
export function formatSpan(seconds: number): string {
  if (seconds >= 60) return formatSeconds(seconds);
  if (seconds >= 1) return `${seconds.toFixed(1)} seconds`;
  return seconds > 0 && seconds < 0.001 ? "less than 1 ms" : `${Math.round(seconds * 1000)} ms`;
}

// A point on the time axis: 0:07, 12:30, 1:02:03; fractions only below a step of one second.
export function formatClock(seconds: number, step = 1): string {
  const sign = seconds < 0 ? "−" : "";
  const places = step >= 1 ? 0 : step >= 0.1 ? 1 : 3;
  const total = Number(Math.abs(seconds).toFixed(places));
  const hours = Math.floor(total / 3600);
  const minutes = Math.floor(total / 60) % 60;
  const rest = (total % 60).toFixed(places).padStart(places === 0 ? 2 : places + 3, "0");
  return hours > 0 ? `${sign}${hours}:${String(minutes).padStart(2, "0")}:${rest}` : `${sign}${minutes}:${rest}`;
}

// An instant in a sentence: in seconds while those are easier to read than minutes.
export function formatInstant(seconds: number): string {
  return seconds < kClockFrom ? `${seconds.toFixed(1)} s` : formatClock(seconds, 0.1);
}

function shorten(text: string): string {
  return text.length <= kLongest ? text : `${text.slice(0, kLongest)}… (${kCount.format(text.length - kLongest)} more characters)`;
}

// Control and direction-changing characters are shown as \u{...}: a name can't reorder or hide the text beside it.
export function visibleText(text: string): string {
  return shorten(text).replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu, (character) =>
    character === "\n" || character === "\t" ? " " : `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`,
  );
}

function cutMiddle(text: string, most: number): string {
  const letters = Array.from(text);
  const tail = Math.floor(most * 0.6);
  return letters.length <= most ? text : `${letters.slice(0, most - tail - 1).join("")}…${letters.slice(-tail).join("")}`;
}

// Cuts the middle of a long path; keeps the file and as many of its folders as fit.
export function shortenPath(path: string, most: number): string {
  const text = visibleText(path);
  const parts = text.split("/");
  if (text.length <= most || parts.length < 3) return cutMiddle(text, most);
  const head = parts[0] === "" ? `/${parts[1] ?? ""}/…/` : `${parts[0] ?? ""}/…/`;
  let tail = parts.at(-1) ?? "";
  for (let i = parts.length - 2; i > 0 && head.length + tail.length + (parts[i]?.length ?? 0) < most; i--)
    tail = `${parts[i] ?? ""}/${tail}`;
  return head.length + tail.length <= most ? head + tail : cutMiddle(`…/${tail}`, most);
}

const kExactness: Record<string, string> = {
  "exact": "every copy counted",
  "upper-bound": "copies are an upper bound: some may be reuses",
  "sampled": "copies are estimated from samples",
  "page-map": "copies read from the page map at each sample",
  "unavailable": "copies could not be counted on this host",
};

export function exactnessInWords(exactness: string): string {
  return kExactness[exactness] ?? visibleText(exactness);
}
