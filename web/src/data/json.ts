// Owns reading JSON whose shape is not trusted.
// Does not: know any key, or throw; a value of the wrong type reads as absent.

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type JsonRecord = { [key: string]: Json };

export function asRecord(value: Json | undefined): JsonRecord {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? value : {};
}

export function asList(value: Json | undefined): Json[] {
  return Array.isArray(value) ? value : [];
}

export function asNumber(value: Json | undefined): number | null {
  return typeof value === "number" && Number.isFinite(value) ? value : null;
}

export function asText(value: Json | undefined, fallback = ""): string {
  return typeof value === "string" ? value : fallback;
}

export function asTexts(value: Json | undefined): string[] {
  return asList(value).filter((entry): entry is string => typeof entry === "string");
}
