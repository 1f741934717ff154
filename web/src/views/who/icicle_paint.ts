// Owns the look of the icicle's boxes: tint and strip by cause, label, outline of the current one, fading by search.
// Does not: lay out, sum, or know the pointer.
import type { Page } from "../../data/decode";
import { formatShare, shortenPath, visibleText } from "../../core/format";
import type { Box, Layout } from "./icicle_layout";
import { nameNode, type Matches, type StackTree, type Weights } from "../../core/stacks";
import { colour } from "../../ui/theme";
import { causeColour } from "../../core/causes";

export const kRowPixels = 21;
const kStripPixels = 3; // at the bottom of a box: its causes, as wide as their shares
const kLetterPixels = 7.3; // of the font below
const kFont = '12px ui-monospace, "SF Mono", Menlo, Consolas, monospace';
const kLabelLeast = 26; // a narrower box has no label
const kShareLeast = 150;
const kFolderLetters = 40;
const kLeafShare = 0.15; // how strongly native code and types are tinted
const kStrong = 0.5; // a line with at least this share of own copies is bold

interface Scene {
  page: Page;
  tree: StackTree;
  weights: Weights;
  layout: Layout;
  matches: Matches | null;
  current: number | null;
  width: number;
  height: number;
  top: number; // of what is visible
}

function colourOfCause(cause: string): string {
  return colour(causeColour(cause));
}

function labelOf(scene: Scene, node: number): { title: string; detail: string } {
  const { tree, page } = scene;
  const { title, detail, file, line } = nameNode(tree, page, node);
  const kind = tree.kinds[node];
  const times = (tree.repeats[node] ?? 1) > 1 ? ` ×${tree.repeats[node]}` : "";
  if (kind === "native" || kind === "type") return { title: `${kind} ${title}`, detail: kind === "type" ? "" : detail };
  const place = file === "" ? detail : `${shortenPath(file, kFolderLetters).split("/").at(-1) ?? ""}${line > 0 ? `:${line}` : ""}`;
  return { title: title + times, detail: place };
}

function paintLabel(context: CanvasRenderingContext2D, scene: Scene, box: Box, strong: boolean): void {
  const room = box.width - 12;
  const baseline = box.row * kRowPixels - scene.top + (kRowPixels - kStripPixels) / 2;
  context.font = strong ? `650 ${kFont}` : kFont;
  const { title, detail } = labelOf(scene, box.node);
  const share = box.width < kShareLeast ? "" : formatShare((scene.weights.copies[box.node] ?? 0) / scene.weights.total);
  const letters = Math.floor((room - (share === "" ? 0 : (share.length + 2) * kLetterPixels)) / kLetterPixels);
  const name = visibleText(title);
  const shown = name.length <= letters ? name : `${name.slice(0, Math.max(1, letters - 1))}…`;
  context.fillStyle = colour("text");
  context.fillText(shown, box.left + 6, baseline, room);
  context.fillStyle = colour(strong ? "text" : "muted");
  const place = visibleText(detail);
  const left = letters - name.length - 2;
  if (detail !== "" && left >= 6)
    context.fillText(
      place.length <= left ? place : `…${place.slice(1 - left)}`,
      box.left + 6 + (name.length + 2) * kLetterPixels,
      baseline,
      left * kLetterPixels,
    );
  if (share !== "") context.fillText(share, box.left + box.width - 6 - share.length * kLetterPixels, baseline);
}

// The causes of a node with their shares.
function causesOf(weights: Weights, node: number): [string, number][] {
  const whole = weights.copies[node] ?? 0;
  return [...weights.causes].flatMap(([cause, column]) =>
    (column[node] ?? 0) > 0 ? [[cause, (column[node] ?? 0) / whole] as [string, number]] : [],
  );
}

// The share that a line copied itself, without what it called. Callers are pale, so that the culprits stand out.
function ownShare({ tree, weights }: Scene, node: number): number {
  if (tree.kinds[node] !== "line") return tree.kinds[node] === "all" ? 0 : kLeafShare;
  const called = (tree.children[node] ?? []).reduce(
    (sum, child) => sum + (tree.kinds[child] === "line" ? (weights.copies[child] ?? 0) : 0),
    0,
  );
  return 1 - called / (weights.copies[node] ?? 1);
}

function paintBox(context: CanvasRenderingContext2D, scene: Scene, box: Box): void {
  const y = box.row * kRowPixels - scene.top;
  const width = Math.max(0.5, box.width - (box.width > 3 ? 1 : 0));
  const causes = causesOf(scene.weights, box.node);
  const main = causes.reduce((most, one) => (one[1] > most[1] ? one : most), ["unknown", 0]);
  const faded = scene.matches !== null && scene.matches.nodes[box.node] === 0;
  const own = ownShare(scene, box.node);
  context.globalAlpha = faded ? 0.05 : scene.matches !== null ? 0.5 : 0.11 + 0.35 * own;
  context.fillStyle = colourOfCause(main[0]);
  context.fillRect(box.left, y, width, kRowPixels - 1);
  context.globalAlpha = faded ? 0.25 : 1;
  if (box.width >= 3) {
    let left = box.left;
    for (const [cause, share] of causes) {
      context.fillStyle = colourOfCause(cause);
      context.fillRect(left, y + kRowPixels - 1 - kStripPixels, share * width, kStripPixels);
      left += share * width;
    }
  }
  context.globalAlpha = faded ? 0.55 : 1;
  if (box.width >= kLabelLeast) paintLabel(context, scene, box, own > kStrong);
  context.globalAlpha = 1;
}

export function paintIcicle(context: CanvasRenderingContext2D, scene: Scene): void {
  const [first, last] = [Math.floor(scene.top / kRowPixels), Math.floor((scene.top + scene.height) / kRowPixels)];
  context.clearRect(0, 0, scene.width, scene.height);
  context.textBaseline = "middle";
  for (const box of scene.layout.boxes) if (box.row >= first && box.row <= last) paintBox(context, scene, box);
  const current = scene.layout.boxes.find((box) => box.node === scene.current);
  if (current === undefined) return;
  context.strokeStyle = colour("text");
  context.lineWidth = 2;
  context.strokeRect(current.left + 1, current.row * kRowPixels - scene.top + 1, Math.max(1, current.width - 3), kRowPixels - 3);
}
