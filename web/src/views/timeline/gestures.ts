// Owns mouse, touch and keyboard input on the strips: cursor, selection, zoom, pan, a click on a line.
// Does not: draw, or know what the strips show.
import { wholeRange, type Store } from "../../store";

interface Ground {
  element: HTMLElement; // all strips
  area: () => { left: number; width: number }; // the plot area within the element
  onMove: (event: PointerEvent | null) => void; // null: the pointer left
  onClick: (event: PointerEvent) => void;
}

type Range = [number, number];
const kDragPixels = 5;
const kWheelZoom = 0.0022; // a notch of 100 px zooms by a fifth
const kScrollGuardMs = 350; // while the page scrolls, strips that pass under the pointer don't take the wheel
const kMiddle = 1;

function clamp(store: Store, [from, to]: Range): Range {
  const [first, last] = wholeRange(store.page);
  const least = Math.max((last - first) / 1e6, 1e-3);
  const width = Math.min(Math.max(to - from, least), last - first);
  const start = Math.min(Math.max(from, first), last - width);
  return [start, start + width];
}

export function zoom(store: Store, factor: number, around: number): void {
  const [from, to] = store.view.range;
  store.set({ range: clamp(store, [around - (around - from) * factor, around + (to - around) * factor]) });
}

function pan(store: Store, seconds: number): void {
  const [from, to] = store.view.range;
  store.set({ range: clamp(store, [from + seconds, to + seconds]) });
}

export function showAll(store: Store): void {
  store.set({ range: wholeRange(store.page) });
}

export function zoomToSelection(store: Store): void {
  if (store.view.selection !== null) store.set({ range: clamp(store, store.view.selection) });
}

function moveCursor(store: Store, steps: number): void {
  const [from, to] = store.view.range;
  const step = Math.max((to - from) / 200, store.page.run.intervalSeconds ?? 0);
  const at = store.view.cursor ?? (steps > 0 ? from : to);
  store.set({ cursor: Math.min(to, Math.max(from, at + steps * step)) });
}

// Moves one end of the selection to the cursor; the other stays, or is the end of the recording.
function selectFrom(store: Store, end: 0 | 1): void {
  const { cursor, selection } = store.view;
  if (cursor === null) return;
  const span: Range = [...(selection ?? [store.page.seconds[0] ?? 0, store.page.seconds.at(-1) ?? 0])] as Range;
  span[end] = cursor;
  store.set({ selection: span[0] <= span[1] ? span : [span[1], span[0]] });
}

const middle = ({ view }: Store): number => view.cursor ?? (view.range[0] + view.range[1]) / 2;
const part = ({ view }: Store): number => (view.range[1] - view.range[0]) / 10;

const kKeys: Record<string, (store: Store) => void> = {
  "ArrowLeft": (store) => moveCursor(store, -1),
  "ArrowRight": (store) => moveCursor(store, 1),
  "Shift+ArrowLeft": (store) => pan(store, -part(store)),
  "Shift+ArrowRight": (store) => pan(store, part(store)),
  "+": (store) => zoom(store, 0.6, middle(store)),
  "=": (store) => zoom(store, 0.6, middle(store)),
  "-": (store) => zoom(store, 1 / 0.6, middle(store)),
  "Home": showAll,
  "[": (store) => selectFrom(store, 0),
  "]": (store) => selectFrom(store, 1),
  "Enter": zoomToSelection,
};

function watchKeys(store: Store, element: HTMLElement): void {
  element.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const arrow = event.shiftKey && event.key.startsWith("Arrow");
    const act = kKeys[arrow ? `Shift+${event.key}` : event.key];
    if (act === undefined || (event.key === "Enter" && event.target !== element)) return;
    event.preventDefault();
    act(store);
  });
}

function watchWheel(store: Store, ground: Ground, secondsAt: (x: number) => number): void {
  let scrolled = -Infinity;
  addEventListener(
    "scroll",
    () => {
      scrolled = performance.now();
    },
    { passive: true },
  );
  ground.element.addEventListener(
    "wheel",
    (event) => {
      const sideways = event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY);
      const by = (sideways && event.deltaX !== 0 ? event.deltaX : event.deltaY) * (event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1);
      const [from, to] = store.view.range;
      const whole = wholeRange(store.page);
      const outside = !sideways && by > 0 && from <= whole[0] && to >= whole[1]; // fully zoomed out: let the page scroll
      if (outside || performance.now() - scrolled < kScrollGuardMs) return;
      event.preventDefault();
      if (sideways) pan(store, (by / ground.area().width) * (to - from));
      else zoom(store, Math.exp(by * kWheelZoom), secondsAt(event.clientX));
    },
    { passive: false },
  );
}

// A drag selects, or pans with the middle button or the space bar held. A drag of a few pixels is a click.
function watchDrag(store: Store, ground: Ground, secondsAt: (x: number) => number): void {
  const { element } = ground;
  let space = false;
  let drag: { x: number; seconds: number; range: Range; pans: boolean; moved: boolean } | null = null;
  addEventListener("keydown", (event) => {
    if (event.key !== " " || !(event.target === element || (event.target === document.body && element.matches(":hover")))) return;
    space = true;
    event.preventDefault();
  });
  addEventListener("keyup", (event) => {
    if (event.key === " ") space = false;
  });
  element.addEventListener("pointerdown", (event) => {
    if ((event.target as Element).closest("button") !== null || event.button > kMiddle) return;
    drag = {
      x: event.clientX,
      seconds: secondsAt(event.clientX),
      range: store.view.range,
      pans: space || event.button === kMiddle,
      moved: false,
    };
    if (event.button === kMiddle) event.preventDefault();
    element.setPointerCapture(event.pointerId);
  });
  element.addEventListener("pointermove", (event) => {
    ground.onMove(event);
    if (drag === null) return;
    drag.moved ||= Math.abs(event.clientX - drag.x) >= kDragPixels;
    if (!drag.moved) return;
    element.classList.toggle("panning", drag.pans);
    if (drag.pans) {
      const by = ((drag.x - event.clientX) / ground.area().width) * (drag.range[1] - drag.range[0]);
      store.set({ range: clamp(store, [drag.range[0] + by, drag.range[1] + by]) });
    } else {
      const at = secondsAt(event.clientX);
      store.set({ selection: [Math.min(drag.seconds, at), Math.max(drag.seconds, at)] });
    }
  });
  element.addEventListener("pointerup", (event) => {
    if (drag !== null && !drag.moved && event.button === 0) ground.onClick(event);
    drag = null;
    element.classList.remove("panning");
  });
  element.addEventListener("pointercancel", () => {
    drag = null;
  });
}

export function watchGestures(store: Store, ground: Ground): void {
  const { element } = ground;
  const secondsAt = (clientX: number): number => {
    const { left, width } = ground.area();
    const [from, to] = store.view.range;
    const share = (clientX - element.getBoundingClientRect().left - left) / width;
    return from + Math.min(1, Math.max(0, share)) * (to - from);
  };
  element.addEventListener("pointermove", (event) => store.set({ cursor: secondsAt(event.clientX) }));
  element.addEventListener("pointerleave", () => {
    store.set({ cursor: null });
    ground.onMove(null);
  });
  element.addEventListener("dblclick", () => showAll(store));
  watchDrag(store, ground, secondsAt);
  watchWheel(store, ground, secondsAt);
  watchKeys(store, element);
}
