// Owns the picture that people take along: the map with title, time, figures and legend as a PNG.
// Called by: pagemap.ts, at the press of a button.
// Does not: fetch or send anything; the picture is made and saved in the browser.
import { visibleText } from "./format";
import type { LegendEntry } from "./mapfigures";
import { makeLayout } from "./maplayout";
import type { MapModel } from "./mapmodel";
import { Painter, type Palette } from "./mappaint";

const kWidth = 1600, kHeight = 900; // a slide; a map that needs more is higher
const kScale = 2;
const kMargin = 48, kHead = 96, kFoot = 62;
const kFont = 'system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';

export interface PictureWords { title: string; subtitle: string; clock: string; figures: string; legend: LegendEntry[] }
export interface Instant { from: number; to: number; flash: number }
export interface PictureColours { palette: Palette; back: string; legend: Map<string, string> }

function write(context: CanvasRenderingContext2D, text: string, [x, y]: [number, number], font: string): number {
  context.font = `${font} ${kFont}`;
  context.fillText(visibleText(text), x, y);
  return context.measureText(visibleText(text)).width;
}

// `most` in CSS pixels.
function cut(context: CanvasRenderingContext2D, text: string, most: number, font: string): string {
  context.font = `${font} ${kFont}`;
  const letters = Array.from(visibleText(text));
  let cutOff = letters.join("");
  while (letters.length > 1 && context.measureText(cutOff).width > most) cutOff = `${letters.splice(-Math.max(1, letters.length >> 4)).length > 0 ? letters.join("") : ""}…`;
  return cutOff;
}

function writeHead(context: CanvasRenderingContext2D, words: PictureWords, palette: Palette): void {
  const right = kWidth - kMargin;
  context.textAlign = "left";
  context.fillStyle = palette.text;
  write(context, cut(context, words.title, 900, "650 30px"), [kMargin, 58], "650 30px");
  context.fillStyle = palette.muted;
  write(context, cut(context, words.subtitle, 900, "400 17px"), [kMargin, 86], "400 17px");
  context.textAlign = "right";
  write(context, words.clock, [right, 86], "400 17px");
  context.fillStyle = palette.text;
  write(context, words.figures, [right, 58], "650 30px");
  context.textAlign = "left";
}

function writeLegend(context: CanvasRenderingContext2D, words: PictureWords, colours: PictureColours, y: number): void {
  let x = kMargin;
  for (const entry of words.legend) {
    context.fillStyle = colours.legend.get(entry.key) ?? colours.palette.muted;
    context.fillRect(x, y - 12, 14, 14);
    context.fillStyle = colours.palette.text;
    x += 22 + write(context, `${entry.name}${entry.amount === "" ? "" : `  ${entry.amount}`}`, [x + 22, y], "400 15px") + 30;
  }
  context.fillStyle = colours.palette.muted;
  context.textAlign = "right";
  write(context, "cowprof", [kWidth - kMargin, y], "600 15px");
  context.textAlign = "left";
}

export async function makePicture(model: MapModel, instant: Instant, words: PictureWords, colours: PictureColours): Promise<Blob> {
  const layout = makeLayout(model, kWidth - 2 * kMargin, kHeight - kHead - kFoot - 24, kScale);
  const map = document.createElement("canvas");
  [map.width, map.height] = [layout.width, layout.height];
  const mapContext = map.getContext("2d", { willReadFrequently: true });
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [kWidth * kScale, Math.max(kHeight * kScale, layout.height + (kHead + kFoot + 24) * kScale)];
  const context = canvas.getContext("2d");
  if (context === null || mapContext === null) throw new Error("the browser gave no canvas to draw on");
  new Painter(model, layout, mapContext, colours.palette).show(instant.from, instant.to, instant.flash);
  context.fillStyle = colours.back;
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(map, kMargin * kScale, (kHead + 16) * kScale);
  context.scale(kScale, kScale);
  writeHead(context, words, colours.palette);
  writeLegend(context, words, colours, canvas.height / kScale - 32);
  const blob = await new Promise<Blob | null>((done) => canvas.toBlob(done, "image/png"));
  if (blob === null) throw new Error(`the browser can't make a picture of ${canvas.width} × ${canvas.height} pixels`);
  return blob;
}

export function save(blob: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
