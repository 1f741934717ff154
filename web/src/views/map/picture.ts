// Owns the picture for export: the map with title, time, figures and legend as a PNG.
// Does not: fetch or send anything; the browser makes and saves it.
import { visibleText } from "../../core/format";
import type { LegendEntry } from "./figures";
import { fittingCell, makeLayout, type Layout } from "./layout";
import type { MapModel } from "./model";
import { Painter, type Palette } from "./paint";
import type { Instant } from "./panel";

const kWidth = 1600,
  kHeight = 900; // a slide; larger maps make it higher
const kScale = 2;
const kMargin = 48,
  kHead = 112,
  kFoot = 90,
  kGutter = 40,
  kCaption = 34;
const kSign = 90; // space for the tool's name, right of the legend
const kFont = 'system-ui, -apple-system, "Segoe UI", Roboto, sans-serif';

interface PictureWords {
  title: string;
  subtitle: string;
  clock: string;
  figures: string;
  legend: LegendEntry[];
}
interface PictureColours {
  palette: Palette;
  back: string;
  legend: Map<string, string>;
}
interface PictureMap {
  model: MapModel;
  caption: string;
} // empty if there is only one map

function write(context: CanvasRenderingContext2D, text: string, [x, y]: [number, number], font: string): number {
  context.font = `${font} ${kFont}`;
  context.fillText(visibleText(text), x, y);
  return context.measureText(visibleText(text)).width;
}

// `most` in CSS pixels.
function cut(context: CanvasRenderingContext2D, text: string, most: number, font: string): string {
  context.font = `${font} ${kFont}`;
  const letters = Array.from(visibleText(text));
  let shorter = letters.join("");
  while (letters.length > 1 && context.measureText(shorter).width > most) {
    letters.splice(-Math.max(1, letters.length >> 4));
    shorter = `${letters.join("")}…`;
  }
  return shorter;
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

// 14 pixels wide, with the map's textures: stripes for new, a chequerboard for private.
function drawSwatch(context: CanvasRenderingContext2D, key: string, { legend, palette }: PictureColours, [x, y]: [number, number]): void {
  const textured = key === "rest-new" || key === "rest-private";
  context.fillStyle = textured ? palette.shared : (legend.get(key) ?? palette.muted);
  context.fillRect(x, y, 14, 14);
  if (!textured) return;
  context.fillStyle = legend.get(key) ?? palette.muted;
  for (let line = 0; line < 4; line++) {
    for (let column = 0; column < 4; column++)
      if ((key === "rest-new" ? line : line + column) % 2 === 0) context.fillRect(x + column * 3.5, y + line * 3.5, 3.5, 3.5);
  }
}

// Takes as many lines as needed; the last one is at the bottom.
function writeLegend(context: CanvasRenderingContext2D, words: PictureWords, colours: PictureColours, bottom: number): void {
  const text = ({ name, amount }: LegendEntry): string => (amount === "" ? name : `${name}  ${amount}`);
  const lines: LegendEntry[][] = [[]];
  let room = kWidth - 2 * kMargin - kSign;
  context.font = `400 15px ${kFont}`;
  for (const entry of words.legend) {
    const width = context.measureText(text(entry)).width + 22 + 28;
    if (room < width) {
      lines.push([]);
      room = kWidth - 2 * kMargin - kSign;
    }
    room -= width;
    lines.at(-1)?.push(entry);
  }
  lines.forEach((line, i) => {
    const y = bottom - (lines.length - 1 - i) * 26;
    let x = kMargin;
    for (const entry of line) {
      drawSwatch(context, entry.key, colours, [x, y - 12]);
      context.fillStyle = colours.palette.text;
      x += 22 + write(context, text(entry), [x + 22, y], "400 15px") + 28;
    }
  });
  context.fillStyle = colours.palette.muted;
  context.textAlign = "right";
  write(context, "cowprof", [kWidth - kMargin, bottom], "600 15px");
  context.textAlign = "left";
}

function drawMap(layout: Layout, model: MapModel, instant: Instant, palette: Palette): HTMLCanvasElement {
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [layout.width, layout.height];
  const context = canvas.getContext("2d", { willReadFrequently: true });
  if (context === null) throw new Error("the browser provides no canvas to draw on");
  new Painter(model, layout, context, palette).show(instant.from, instant.to, instant.flash);
  return canvas;
}

// One map, or several in a grid of two columns, all with pages of the same size.
function layMaps(maps: PictureMap[]): { layouts: Layout[]; columns: number; rowHeight: number } {
  const columns = maps.length > 1 ? 2 : 1;
  const rows = Math.ceil(maps.length / columns);
  const captions = maps.length > 1 ? kCaption : 0;
  const room = {
    width: (kWidth - 2 * kMargin - (columns - 1) * kGutter) / columns,
    height: (kHeight - kHead - kFoot) / rows - captions,
    scale: kScale,
  };
  const cell = Math.min(...maps.map(({ model }) => fittingCell(model, room)));
  const layouts = maps.map(({ model }) => makeLayout(model, room, cell));
  return { layouts, columns, rowHeight: Math.max(...layouts.map((layout) => layout.height)) / kScale + captions };
}

export async function makePicture(maps: PictureMap[], instant: Instant, words: PictureWords, colours: PictureColours): Promise<Blob> {
  const { layouts, columns, rowHeight } = layMaps(maps);
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [
    kWidth * kScale,
    Math.max(kHeight, rowHeight * Math.ceil(maps.length / columns) + kHead + kFoot) * kScale,
  ];
  const context = canvas.getContext("2d");
  if (context === null) throw new Error("the browser provides no canvas to draw on");
  context.fillStyle = colours.back;
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.scale(kScale, kScale);
  writeHead(context, words, colours.palette);
  maps.forEach(({ model, caption }, i) => {
    const layout = layouts[i] as Layout;
    const x = kMargin + (i % columns) * ((kWidth - 2 * kMargin + kGutter) / columns);
    const y = kHead + Math.floor(i / columns) * rowHeight;
    context.fillStyle = colours.palette.text;
    if (caption !== "") write(context, caption, [x, y + 17], "600 17px");
    context.drawImage(
      drawMap(layout, model, instant, colours.palette),
      x,
      y + (caption === "" ? 0 : kCaption - 8),
      layout.width / kScale,
      layout.height / kScale,
    );
  });
  writeLegend(context, words, colours, canvas.height / kScale - 30);
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
