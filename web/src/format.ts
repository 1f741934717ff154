// Owns how a figure is spelt: bytes, counts, rates, durations, shares, and names that come from outside.
// Called by: everything that shows a figure.
// Does not: touch the page or compute a figure.

const kUnits = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
const kUnknown = "—";
const kLongest = 1000;
const kCount = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });

// One decimal, as on the terminal: the same figure reads the same everywhere.
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

// On an axis the steps are round: 48 GiB, not 48.0 GiB.
export function formatKibStep(kib: number): string {
  return formatKib(kib).replace(".0 ", " ");
}

export function formatCount(count: number | null | undefined): string {
  return count === null || count === undefined || !Number.isFinite(count) ? kUnknown : kCount.format(count);
}

export function formatRate(rate: number | null | undefined): string {
  return rate === null || rate === undefined || !Number.isFinite(rate) ? kUnknown : `${kCount.format(rate)}/s`;
}

export function formatShare(ratio: number | null | undefined): string {
  if (ratio === null || ratio === undefined || !Number.isFinite(ratio)) return kUnknown;
  const percent = ratio * 100;
  if (percent > 0 && percent < 0.05) return "< 0.1 %";
  return `${percent >= 10 || percent === 0 ? percent.toFixed(0) : percent.toFixed(1)} %`;
}

export function formatQuantity(value: number | null, unit: string): string {
  return unit === "bytes" ? formatBytes(value) : formatCount(value);
}

export function formatSeconds(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return kUnknown;
  if (seconds < 60) return `${Number.isInteger(seconds) ? seconds : seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60];
  return hours > 0 ? `${hours} h ${minutes} min` : `${minutes} min ${rest} s`;
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

function shorten(text: string): string {
  return text.length <= kLongest ? text : `${text.slice(0, kLongest)}… (${kCount.format(text.length - kLongest)} more characters)`;
}

// Control and direction-changing characters are shown as \u{...}: a name can't reorder or hide what stands beside it.
export function visibleText(text: string): string {
  return shorten(text).replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu, (character) =>
    character === "\n" || character === "\t" ? " " : `\\u{${(character.codePointAt(0) ?? 0).toString(16)}}`,
  );
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
