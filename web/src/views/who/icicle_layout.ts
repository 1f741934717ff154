// Owns the positions of the icicle's boxes: width by copies, largest on the left, none below half a pixel.
// Does not: draw, or sum a weight.
import type { StackTree, Weights } from "../../core/stacks";

export interface Box {
  node: number;
  row: number;
  left: number;
  width: number;
} // pixels; row 0 is the zoomed node

const kLeastPixels = 0.5;

export interface Layout {
  boxes: Box[];
  rows: number;
}

// Row by row, left to right, the order in which the arrow keys move.
export function layOut(tree: StackTree, weights: Weights, root: number, width: number): Layout {
  const whole = weights.copies[root] ?? 0;
  if (whole <= 0 || width <= 0) return { boxes: [], rows: 0 };
  const scale = width / whole;
  const boxes: Box[] = [{ node: root, row: 0, left: 0, width }];
  let rows = 1;
  const weightOf = (node: number): number => weights.copies[node] ?? 0;
  for (let i = 0; i < boxes.length; i++) {
    const box = boxes[i] as Box;
    const wide = (tree.children[box.node] ?? []).filter((child) => weightOf(child) * scale >= kLeastPixels);
    let left = box.left;
    for (const node of wide.sort((a, b) => weightOf(b) - weightOf(a) || a - b)) {
      boxes.push({ node, row: box.row + 1, left, width: weightOf(node) * scale });
      left += weightOf(node) * scale;
    }
    if (wide.length > 0) rows = Math.max(rows, box.row + 2);
  }
  return { boxes, rows };
}

// The box at a point; null if there is none.
export function boxAt(layout: Layout, x: number, row: number): Box | null {
  return layout.boxes.find((box) => box.row === row && x >= box.left && x < box.left + Math.max(box.width, kLeastPixels)) ?? null;
}

export type Step = "up" | "down" | "left" | "right";

// Where an arrow key leads from a node: its parent, its largest child, or its neighbour in the row; null if nowhere.
export function stepFrom(layout: Layout, tree: StackTree, node: number, step: Step): number | null {
  const at = layout.boxes.findIndex((box) => box.node === node);
  const here = layout.boxes[at];
  if (here === undefined) return layout.boxes[0]?.node ?? null;
  if (step === "down") return layout.boxes.find((box) => box.row === here.row + 1 && tree.parents[box.node] === node)?.node ?? null;
  if (step === "up") return here.row === 0 ? null : (tree.parents[node] ?? null);
  const next = layout.boxes[at + (step === "right" ? 1 : -1)];
  return next !== undefined && next.row === here.row ? next.node : null;
}
