// Owns the drawing of a forecast over the topmost strip: a wedge from what the workers owned to the plateau, then level.
import type uPlot from "uplot";
import type { Said } from "../../core/forecast";
import { colour } from "../../ui/theme";

function polyline(ctx: CanvasRenderingContext2D, points: [number, number][]): void {
  points.forEach(([x, y], i) => (i === 0 ? ctx.moveTo(x, y) : ctx.lineTo(x, y)));
}

// Draws onto a canvas above the strip.
export function drawForecast(canvas: HTMLCanvasElement, plot: uPlot, said: Said | null): void {
  const [width, height] = [plot.over.clientWidth, plot.over.clientHeight];
  canvas.width = width * devicePixelRatio;
  canvas.height = height * devicePixelRatio;
  const ctx = canvas.getContext("2d");
  if (ctx === null || said === null || said.plateau === null) return;
  const { seconds, plateau } = said;
  ctx.scale(devicePixelRatio, devicePixelRatio);
  const x = (at: number): number => plot.valToPos(at, "x");
  const reach = x(seconds + Math.max(0, plateau.eta ?? 0));
  const end = Math.max(width, reach) + 2;
  const edge = (kib: number): [number, number][] => [
    [x(seconds), plot.valToPos(plateau.now, "y")],
    [reach, plot.valToPos(kib, "y")],
    [end, plot.valToPos(kib, "y")],
  ];
  const stroke = (points: [number, number][], dash: number[], wide: number): void => {
    ctx.beginPath();
    ctx.setLineDash(dash);
    ctx.lineWidth = wide;
    polyline(ctx, points);
    ctx.stroke();
  };
  ctx.beginPath();
  polyline(ctx, [...edge(plateau.high), ...edge(plateau.low).reverse()]);
  ctx.fillStyle = colour("forecast-fill");
  ctx.fill();
  ctx.strokeStyle = colour("accent");
  stroke(edge(plateau.best), [7, 4], 2);
  ctx.globalAlpha = 0.55;
  stroke(edge(plateau.high), [2, 3], 1);
  stroke(edge(plateau.low), [2, 3], 1);
  if (plateau.ceiling === null) return;
  const y = plot.valToPos(plateau.ceiling, "y");
  ctx.strokeStyle = ctx.fillStyle = colour("muted");
  stroke(
    [
      [x(seconds), y],
      [end, y],
    ],
    [1, 4],
    1,
  );
  ctx.font = "11px system-ui, sans-serif";
  ctx.fillText("ceiling", x(seconds) + 4, y < 14 ? y + 12 : y - 4);
}
