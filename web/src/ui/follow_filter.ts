// Owns the pace at which a section follows the filter (selection and pinned process).
import type { Store } from "../store";

// Calls `show` when the filter changes. A drag changes the selection every frame, so updates are throttled to a third of the
// time, counted up to the painted frame, and the strips stay smooth. The last change is always shown.
export function followFilter(store: Store, show: () => void): void {
  let [busy, behind] = [false, false];
  const run = (): void => {
    [busy, behind] = [true, false];
    const start = performance.now();
    show();
    requestAnimationFrame(() =>
      setTimeout(() =>
        setTimeout(
          () => {
            busy = false;
            if (behind) run();
          },
          2 * (performance.now() - start),
        ),
      ),
    );
  };
  store.on((changed) => {
    if (changed.has("page") || changed.has("pinned")) show();
    else if (changed.has("selection") && busy) behind = true;
    else if (changed.has("selection")) run();
  });
}
