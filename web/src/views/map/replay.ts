// Owns the replay's controls: a scrubber over the shown span, play and pause.
// Does not: start by itself, or paint. With prefers-reduced-motion it shows a few still pictures.
import { make, makeButton, mark } from "../../ui/dom";
import { formatClock } from "../../core/format";

const kPlaySeconds = 10; // the whole replay
const kSteps = 400; // of the scrubber
const kStillPictures = 8;

export const calm = matchMedia("(prefers-reduced-motion: reduce)");

export class Replay {
  readonly element: HTMLElement;
  private slider = mark(make("input", "map-slider"), { type: "range", "aria-label": "Replay: time of the recording" });
  private button = makeButton("map-button map-play", "Play", () => this.toggle());
  private clock = make("output", "map-clock");
  private range: [number, number] = [0, 1];
  private position = 1;
  private startedAt: number | null = null; // performance.now() that corresponds to the start of the range

  // `move(null)` goes to the end, where everything is visible.
  constructor(private move: (seconds: number | null) => void) {
    this.element = make("div", "map-replay", this.button, this.slider, this.clock);
    this.slider.addEventListener("input", () => {
      this.stop();
      this.go(Number(this.slider.value));
    });
    this.slider.addEventListener("keydown", (event) => {
      if (event.key !== " ") return;
      event.preventDefault();
      this.toggle();
    });
  }

  get playing(): boolean {
    return this.startedAt !== null;
  }

  toggle(): void {
    if (this.playing) return this.stop();
    const [from, to] = this.range;
    const share = this.position >= to ? 0 : (this.position - from) / (to - from);
    this.startedAt = performance.now() - share * kPlaySeconds * 1000;
    this.name();
    requestAnimationFrame(() => this.tick());
  }

  stop(): void {
    this.startedAt = null;
    this.name();
  }

  // Screen readers announce `words` with the position.
  show(range: [number, number], position: number, words: string): void {
    this.range = range;
    this.position = position;
    const [from, to] = range;
    const step = (to - from) / kSteps;
    mark(this.slider, {
      min: String(from),
      max: String(to),
      step: String(step),
      "aria-valuetext": `${formatClock(position, Math.min(0.1, step))}, ${words}`,
    });
    this.slider.value = String(position);
    this.slider.style.setProperty("--done", `${((position - from) / (to - from)) * 100}%`);
    this.clock.textContent = `${formatClock(position, to - from < 600 ? 0.1 : 1)} / ${formatClock(to, to - from < 600 ? 0.1 : 1)}`;
  }

  private name(): void {
    this.button.textContent = this.playing ? "Pause" : "Play";
    this.button.classList.toggle("playing", this.playing);
  }

  private go(seconds: number): void {
    this.move(seconds >= this.range[1] ? null : seconds);
  }

  private tick(): void {
    if (this.startedAt === null) return;
    let share = (performance.now() - this.startedAt) / 1000 / kPlaySeconds;
    if (calm.matches) share = Math.floor(share * kStillPictures) / kStillPictures;
    const [from, to] = this.range;
    if (share >= 1) this.stop();
    const seconds = share >= 1 ? to : from + share * (to - from);
    if (seconds !== this.position || share >= 1) this.go(seconds);
    if (this.playing) requestAnimationFrame(() => this.tick());
  }
}
