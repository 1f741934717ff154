// Owns the canvas pattern of each cause: its colour and the hatching that cause_bar.css gives it.
// Does not: define a colour, or know which causes there are.
import { causeColour } from "../../core/causes";
import { colour, onTheme } from "../../ui/theme";

type Draw = (ctx: CanvasRenderingContext2D, size: number) => void;

const kSize = 8;
const lines =
  (...ends: [number, number, number, number][]): Draw =>
  (ctx, size) => {
    ctx.beginPath();
    for (const [fromX, fromY, toX, toY] of ends) {
      ctx.moveTo(fromX * size, fromY * size);
      ctx.lineTo(toX * size, toY * size);
    }
    ctx.stroke();
  };
const kRising = lines([-0.25, 0.25, 0.25, -0.25], [0, 1, 1, 0], [0.75, 1.25, 1.25, 0.75]);
const kFalling = lines([-0.25, 0.75, 0.25, 1.25], [0, 0, 1, 1], [0.75, -0.25, 1.25, 0.25]);
const kUpright = lines([0.5, 0, 0.5, 1]);
const kDots: Draw = (ctx, size) => ctx.fillRect(size / 2, size / 2, 2, 2);

const kHatchings: Record<string, Draw> = {
  "native-refcount": lines([0, 0.5, 1, 0.5]),
  "gc-header": kRising,
  "data": kFalling,
  "free": kUpright,
  "allocator": kDots,
  "malloc-reuse": kDots,
  "bytecode": lines([0, 0.5, 1, 0.5]),
  "kernel": kUpright,
  "unknown": kRising,
  "hash": (ctx, size) => {
    kRising(ctx, size);
    kFalling(ctx, size);
  },
};

const patterns = new Map<string, CanvasPattern | string>();
onTheme(() => patterns.clear());

function makePattern(name: string): CanvasPattern | string {
  const tile = document.createElement("canvas");
  tile.width = tile.height = kSize * Math.max(1, Math.round(devicePixelRatio));
  const ctx = tile.getContext("2d");
  const hatching = kHatchings[name];
  if (ctx === null || hatching === undefined) return colour(name);
  ctx.fillStyle = colour(name);
  ctx.fillRect(0, 0, tile.width, tile.height);
  ctx.strokeStyle = ctx.fillStyle = colour("hatch");
  ctx.lineWidth = 1.2 * Math.max(1, Math.round(devicePixelRatio));
  hatching(ctx, tile.width);
  return ctx.createPattern(tile, "repeat") ?? colour(name);
}

export function causePattern(key: string): CanvasPattern | string {
  const name = causeColour(key);
  const made = patterns.get(name) ?? makePattern(name);
  patterns.set(name, made);
  return made;
}
