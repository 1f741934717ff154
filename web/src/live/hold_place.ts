// Owns keeping what is being read where it is on the screen, while the sections above it grow with the run.
// The browser's own scroll anchoring does not: it gives up once its anchor is replaced.

// The focused element if it can be seen, else the section that the upper edge of the window cuts.
function findAnchor(): Element | undefined {
  const focused = document.activeElement;
  if (focused !== null && focused !== document.body) {
    const { top, bottom } = focused.getBoundingClientRect();
    if (bottom > 0 && top < innerHeight) return focused;
  }
  return [...document.querySelectorAll("main > *")].find((section) => section.getBoundingClientRect().bottom > 0);
}

// Whatever replaces the focused element must give the focus to its successor.
export function holdPlace(main: HTMLElement): void {
  let anchor: Element | undefined;
  let top = 0;
  const look = (): void => {
    anchor = scrollY > 0 ? findAnchor() : undefined;
    top = anchor?.getBoundingClientRect().top ?? 0;
  };
  document.documentElement.style.overflowAnchor = "none";
  for (const moved of ["scroll", "pointerup", "keyup"]) addEventListener(moved, look, { passive: true });
  new ResizeObserver(() => {
    const place = anchor?.isConnected === false ? document.activeElement : anchor;
    if (place && place !== document.body) scrollBy({ top: place.getBoundingClientRect().top - top, behavior: "instant" });
    look();
  }).observe(main);
}
