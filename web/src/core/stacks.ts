// Owns the tree of stacks: Python frames, outermost first, the native code beneath them, and the type that was written.
// Does not: know time, processes or pixels; it gets weights by place.
import type { Page } from "../data/decode";

type NodeKind = "all" | "line" | "native" | "type";
export interface Levels {
  native: boolean;
  types: boolean;
}

// Parents are numbered before their children; 0 is the root. Columns instead of objects, as there may be 100,000 nodes.
export interface StackTree {
  kinds: NodeKind[];
  ids: number[]; // index into page.frames for a line, else into `names`; -1: unknown
  parents: number[];
  depths: number[];
  repeats: number[]; // how often a line called itself, at most, in one stack
  children: (number[] | undefined)[];
  names: string[][]; // [symbol, module] or [type]
  leaves: Int32Array; // by place: its node
  height: number;
}

export interface Weights {
  copies: Float64Array; // by node, including all below
  causes: Map<string, Float64Array>;
  total: number;
}

const kSlots = 2 ** 25; // more than the number of names; a child's key is parent * kSlots + slot

class Planter {
  readonly tree: StackTree = {
    kinds: ["all"],
    ids: [-1],
    parents: [-1],
    depths: [0],
    repeats: [1],
    children: [undefined],
    names: [],
    leaves: new Int32Array(0),
    height: 1,
  };
  private readonly found = new Map<number, number>();
  private readonly numbers = new Map<string, number>();

  child(parent: number, kind: NodeKind, id: number): number {
    const slot = kind === "line" ? 2 * (id + 1) : 2 * (id + 1) + 1; // native code and types share one numbering
    const key = parent * kSlots + slot;
    const known = this.found.get(key);
    if (known !== undefined) return known;
    const { tree } = this;
    const node = tree.kinds.length;
    const depth = (tree.depths[parent] ?? 0) + 1;
    this.found.set(key, node);
    tree.kinds.push(kind);
    tree.ids.push(id);
    tree.parents.push(parent);
    tree.depths.push(depth);
    tree.repeats.push(1);
    tree.children.push(undefined);
    (tree.children[parent] ??= []).push(node);
    tree.height = Math.max(tree.height, depth + 1);
    return node;
  }

  named(parent: number, kind: NodeKind, names: string[]): number {
    const key = `${kind} ${names.join("\0")}`;
    let id = this.numbers.get(key);
    if (id === undefined) {
      id = this.tree.names.push(names) - 1;
      this.numbers.set(key, id);
    }
    return this.child(parent, kind, id);
  }

  // A line that calls itself becomes one node with a count; otherwise recursion would fill the screen.
  stack(frames: number[]): number {
    let node = 0;
    let run = 1;
    for (let i = frames.length - 1; i >= 0; i--) {
      const frame = frames[i] ?? -1;
      run = i < frames.length - 1 && frame === frames[i + 1] ? run + 1 : 1;
      if (run === 1) node = this.child(node, "line", frame);
      else this.tree.repeats[node] = Math.max(this.tree.repeats[node] ?? 1, run);
    }
    return frames.length === 0 ? this.child(0, "line", -1) : node;
  }
}

// The page map shows which pages were copied, but not by which code: then a tree has nothing to tell.
export function seesCode({ run, places }: Page): boolean {
  return run.exactness !== "page-map" || places.some((place) => place.frames.length > 0);
}

export function plantTree(page: Page, levels: Levels): StackTree {
  const planter = new Planter();
  const leaves = page.places.map((place) => {
    let node = planter.stack(place.frames);
    if (levels.native && place.module + place.symbol !== "") node = planter.named(node, "native", [place.symbol, place.module]);
    if (levels.types && place.type !== "") node = planter.named(node, "type", [place.type]);
    return node;
  });
  return { ...planter.tree, leaves: Int32Array.from(leaves) };
}

// Sums each place's copies up the tree.
export function weighTree(tree: StackTree, page: Page, places: Float64Array): Weights {
  const count = tree.kinds.length;
  const copies = new Float64Array(count);
  const causes = new Map<string, Float64Array>();
  places.forEach((weight, place) => {
    if (weight <= 0) return;
    const leaf = tree.leaves[place] ?? 0;
    const cause = page.places[place]?.cause ?? "unknown";
    let column = causes.get(cause);
    if (column === undefined) causes.set(cause, (column = new Float64Array(count)));
    column[leaf] = (column[leaf] ?? 0) + weight;
  });
  for (const column of causes.values()) {
    for (let node = count - 1; node >= 0; node--) {
      const weight = column[node] ?? 0;
      copies[node] = (copies[node] ?? 0) + weight;
      const parent = tree.parents[node] ?? -1;
      if (parent >= 0) column[parent] = (column[parent] ?? 0) + weight;
    }
  }
  return { copies, causes, total: copies[0] ?? 0 };
}

interface NodeNames {
  title: string;
  detail: string;
  file: string;
  line: number;
}

// A node's names: a function and its place in a file, a symbol and its module, or a type.
export function nameNode(tree: StackTree, page: Page, node: number): NodeNames {
  const kind = tree.kinds[node];
  const id = tree.ids[node] ?? -1;
  if (kind === "all") return { title: "all copies", detail: "", file: "", line: 0 };
  if (kind === "native") {
    const [symbol = "", module = ""] = tree.names[id] ?? [];
    return { title: symbol === "" ? "(no symbol)" : symbol, detail: module, file: "", line: 0 };
  }
  if (kind === "type") return { title: tree.names[id]?.[0] ?? "", detail: "the type that was written", file: "", line: 0 };
  const frame = page.frames[id];
  if (frame === undefined || frame.file === "") return { title: "(no line of Python)", detail: "", file: "", line: 0 };
  return {
    title: frame.function === "" ? "?" : frame.function,
    detail: frame.line > 0 ? `${frame.file}:${frame.line}` : frame.file,
    file: frame.file,
    line: frame.line,
  };
}

export interface Matches {
  nodes: Uint8Array;
  copies: number;
} // copies beneath matching nodes, none counted twice

export function searchTree(tree: StackTree, page: Page, weights: Weights, text: string): Matches {
  const wanted = text.trim().toLowerCase();
  const nodes = new Uint8Array(tree.kinds.length);
  const beneath = new Uint8Array(tree.kinds.length);
  const verdicts = new Map<string, boolean>();
  let copies = 0;
  if (wanted === "") return { nodes, copies };
  for (let node = 1; node < nodes.length; node++) {
    const key = `${tree.kinds[node] === "line" ? "line" : "name"} ${tree.ids[node] ?? -1}`;
    let match = verdicts.get(key);
    if (match === undefined) {
      const { title, detail } = nameNode(tree, page, node);
      verdicts.set(key, (match = `${title} ${tree.kinds[node] === "type" ? "" : detail}`.toLowerCase().includes(wanted)));
    }
    const parent = tree.parents[node] ?? 0;
    if (match) nodes[node] = 1;
    if (match && beneath[parent] === 0) copies += weights.copies[node] ?? 0;
    beneath[node] = match ? 1 : (beneath[parent] ?? 0);
  }
  return { nodes, copies };
}
