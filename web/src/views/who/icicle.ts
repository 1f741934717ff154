// Owns the icicle: a canvas of stacks, with zoom, the current box, search, pointer and keys.
// Does not: sum or select. As a canvas is mute for screen readers, the tip is read out, and the table of lines is the text form.
import "./icicle.css";
import { causesInWords } from "../../core/causes";
import type { Page } from "../../data/decode";
import { make, makeButton, mark } from "../../ui/dom";
import { formatBytes, formatCount, formatShare } from "../../core/format";
import { boxAt, layOut, stepFrom, type Layout, type Step } from "./icicle_layout";
import { kRowPixels, paintIcicle } from "./icicle_paint";
import { measureSince } from "../../core/measure";
import { nameNode, searchTree, type Matches, type StackTree, type Weights } from "../../core/stacks";
import { onTheme } from "../../ui/theme";

const kMostPixels = 588; // deeper ones scroll
const kSteps: Record<string, Step> = { ArrowUp: "up", ArrowDown: "down", ArrowLeft: "left", ArrowRight: "right" };
const kCrumbs = 5; // longer paths show only the first and the last ones

interface Shown {
  page: Page;
  tree: StackTree;
  weights: Weights;
}

export class Icicle {
  readonly element = make("div", "icicle");
  private readonly crumbs = mark(make("nav", "crumbs"), { "aria-label": "Path to the zoomed frame" });
  private readonly canvas = make("canvas");
  private readonly spacer = make("div", "icicle-rows", this.canvas);
  private readonly view = mark(make("div", "icicle-view", this.spacer), { tabindex: "0", role: "application" });
  private readonly tip = mark(make("div", "icicle-tip"), { role: "status" });
  private shown: Shown | null = null;
  private layout: Layout = { boxes: [], rows: 0 };
  private root = 0;
  private current: number | null = null;
  private matches: Matches | null = null;
  private wanted = "";
  private planned = false;

  constructor(private readonly countsBytes: () => boolean) {
    this.tip.hidden = true;
    this.element.append(this.crumbs, this.view, this.tip);
    this.view.addEventListener("scroll", () => this.redraw());
    this.view.addEventListener("pointermove", (event) => this.point(event));
    this.view.addEventListener("pointerleave", () => this.focusOn(null));
    this.view.addEventListener("click", (event) => this.zoom(this.nodeAt(event)));
    this.view.addEventListener("keydown", (event) => this.press(event));
    this.view.addEventListener("focusout", () => this.focusOn(null));
    new ResizeObserver(() => this.plan()).observe(this.view);
    onTheme(() => this.redraw());
  }

  // Keeps the zoom under new weights as long as it shows anything.
  show(shown: Shown): void {
    this.shown = shown;
    if (this.root >= shown.tree.kinds.length) this.root = 0;
    while (this.root > 0 && (shown.weights.copies[this.root] ?? 0) <= 0) this.root = shown.tree.parents[this.root] ?? 0;
    this.search(this.wanted);
    this.name();
    this.plan();
  }

  reset(): void {
    this.root = 0;
    this.focusOn(null);
  }

  // The share of all copies beneath the matches; null without a search.
  search(text: string): number | null {
    this.wanted = text;
    const { shown } = this;
    this.matches = shown === null || text.trim() === "" ? null : searchTree(shown.tree, shown.page, shown.weights, text);
    this.redraw();
    return this.matches === null || shown === null || shown.weights.total <= 0 ? null : this.matches.copies / shown.weights.total;
  }

  private name(): void {
    const { shown } = this;
    if (shown === null) return;
    const text = shown.page.report.lines.length > 0 ? " The table of lines has the same as text." : "";
    const summary = `Flame graph of ${this.amount(shown.weights.total)} by Python line. Arrow keys move, Enter zooms in, Escape goes back.${text}`;
    mark(this.view, { "aria-label": summary, "data-nodes": String(shown.tree.kinds.length) });
    const path: number[] = [];
    for (let node = this.root; node >= 0; node = shown.tree.parents[node] ?? -1) path.unshift(node);
    const cut = path.length > kCrumbs ? [path[0] ?? 0, -1, ...path.slice(3 - kCrumbs)] : path;
    this.crumbs.replaceChildren(
      ...cut.map((node) => (node < 0 ? make("span", "crumb-gap", `${path.length - kCrumbs + 1} more`) : this.crumb(shown, node))),
    );
    this.crumbs.hidden = this.root === 0;
  }

  private crumb({ tree, page }: Shown, node: number): HTMLElement {
    const { title, detail } = nameNode(tree, page, node);
    const button = mark(
      makeButton("crumb", title, () => this.zoom(node)),
      { title: detail === "" ? title : `${title}, ${detail}` },
    );
    if (node === this.root) mark(button, { "aria-current": "true" });
    return button;
  }

  private amount(copies: number): string {
    const pageBytes = this.shown?.page.run.pageBytes ?? null;
    return this.countsBytes() && pageBytes !== null ? formatBytes(copies * pageBytes) : `${formatCount(copies)} copies`;
  }

  // At most once per frame, as a drag changes the selection more often.
  private plan(): void {
    if (this.planned) return;
    this.planned = true;
    requestAnimationFrame(() => {
      this.planned = false;
      if (this.shown === null || this.view.clientWidth === 0) return;
      const start = performance.now();
      this.layout = layOut(this.shown.tree, this.shown.weights, this.root, this.view.clientWidth);
      const height = this.layout.rows * kRowPixels;
      this.spacer.style.height = `${height}px`;
      this.view.style.height = `${Math.min(kMostPixels, height)}px`;
      this.fit(this.view.clientWidth, Math.min(kMostPixels, height));
      this.redraw();
      measureSince("icicle", start); // read by the benchmark
    });
  }

  private fit(width: number, height: number): void {
    const { canvas } = this;
    const ratio = devicePixelRatio;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    if (canvas.width !== Math.round(width * ratio)) canvas.width = Math.round(width * ratio);
    if (canvas.height !== Math.round(height * ratio)) canvas.height = Math.round(height * ratio);
  }

  private redraw(): void {
    const context = this.canvas.getContext("2d");
    if (context === null || this.shown === null) return;
    const [width, height] = [this.canvas.width / devicePixelRatio, this.canvas.height / devicePixelRatio];
    context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    paintIcicle(context, {
      ...this.shown,
      layout: this.layout,
      matches: this.matches,
      current: this.current,
      width,
      height,
      top: this.view.scrollTop,
    });
  }

  private nodeAt(event: MouseEvent): number | null {
    const frame = this.view.getBoundingClientRect();
    return (
      boxAt(this.layout, event.clientX - frame.left, Math.floor((event.clientY - frame.top + this.view.scrollTop) / kRowPixels))?.node ??
      null
    );
  }

  private point(event: PointerEvent): void {
    const node = this.nodeAt(event);
    if (node !== this.current) this.focusOn(node);
    const frame = this.element.getBoundingClientRect();
    if (node !== null) this.placeTip(event.clientX - frame.left + 14, event.clientY - frame.top + 18);
  }

  private press(event: KeyboardEvent): void {
    const { shown } = this;
    const step = kSteps[event.key];
    if (shown === null || event.ctrlKey || event.metaKey || event.altKey) return;
    if (step !== undefined) this.walk(this.current === null ? this.root : stepFrom(this.layout, shown.tree, this.current, step));
    else if (event.key === "Enter") this.zoom(this.current);
    else if (event.key === "Escape" && this.root > 0) this.zoom(shown.tree.parents[this.root] ?? -1);
    else if (event.key === "Home") this.zoom(0);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  private walk(node: number | null): void {
    const box = this.layout.boxes.find((one) => one.node === node);
    if (box === undefined) return;
    const top = box.row * kRowPixels;
    const { scrollTop, clientHeight } = this.view;
    if (top < scrollTop || top + kRowPixels > scrollTop + clientHeight) this.view.scrollTop = top - clientHeight / 2;
    this.focusOn(box.node);
    this.placeTip(box.left, this.view.offsetTop + top - this.view.scrollTop + kRowPixels + 4);
  }

  private zoom(node: number | null): void {
    if (node === null || node < 0 || this.shown === null || node === this.root) return;
    const left = this.root;
    this.root = node;
    this.view.scrollTop = 0;
    this.focusOn(null);
    this.name();
    this.plan();
    if (document.activeElement === this.view)
      requestAnimationFrame(() => this.walk(this.layout.boxes.some((box) => box.node === left) ? left : node));
  }

  private focusOn(node: number | null): void {
    this.current = node;
    this.tip.hidden = node === null;
    if (node !== null) this.fillTip(node);
    this.redraw();
  }

  private fillTip(node: number): void {
    if (this.shown === null) return;
    const { tree, page, weights } = this.shown;
    const { title, detail } = nameNode(tree, page, node);
    const copies = weights.copies[node] ?? 0;
    const causes = new Map([...weights.causes].map(([cause, column]) => [cause, column[node] ?? 0]));
    const bytes = page.run.pageBytes === null ? "" : `${formatBytes(copies * page.run.pageBytes)}, `;
    const repeats = tree.repeats[node] ?? 1;
    this.tip.replaceChildren(
      make("strong", "", title),
      make("span", "tip-place", detail),
      make("span", "tip-figures", `${formatShare(copies / weights.total)} · ${bytes}${formatCount(Math.round(copies))} copies`),
      make("span", "tip-causes", causesInWords(causes)),
      repeats > 1 ? make("span", "tip-causes", `calls itself, up to ${formatCount(repeats)} deep`) : "",
    );
  }

  private placeTip(x: number, y: number): void {
    const room = this.element.clientWidth - this.tip.offsetWidth;
    this.tip.style.left = `${Math.max(0, Math.min(room, x))}px`;
    this.tip.style.top = `${y}px`;
  }
}
