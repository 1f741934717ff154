// Owns following a live run: polls the server that served the page, passes new recordings to the store, and shows the
// state in a badge.
// Does not: draw the recording, or contact any other server (the page's policy forbids it).
import { parsePacked, type Page } from "../data/decode";
import { make, makeButton, mark } from "../ui/dom";
import { formatSeconds } from "../core/format";
import { shellQuote } from "../core/shell_quote";
import { Store } from "../store";
import "./live.css";

type State = "live" | "paused" | "silent" | "lost" | "ended";

const kFirstWait = 300; // milliseconds
const kSilence = 10_000; // without a byte of an answer, the connection is lost
const kFirstSilence = 60_000; // the server may have to read a long recording first
const kLeastAge = 10; // seconds, and intervals below, without a sample: then the recorder has fallen silent
const kAgeIntervals = 5;
const kData = `data${location.search}`;

interface Answer {
  packed: Uint8Array<ArrayBuffer> | null; // null: nothing new
  version: string;
  wait: number;
  age: number; // seconds since the last sample
}

// The recording's path if this page follows a run; null if the recording is embedded in the page.
export function followedFile(text: string): string | null {
  const words = text.split(" ");
  if (words[0] !== "live") return null;
  return new TextDecoder().decode(Uint8Array.from(atob(words[1] ?? ""), (letter) => letter.charCodeAt(0)));
}

function pause(milliseconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}

async function readAll(response: Response, heard: () => void): Promise<Uint8Array<ArrayBuffer>> {
  const reader = response.body?.getReader();
  const pieces: BlobPart[] = [];
  for (let piece = await reader?.read(); piece?.value !== undefined; piece = await reader?.read()) {
    pieces.push(piece.value);
    heard();
  }
  return new Uint8Array(await new Blob(pieces).arrayBuffer());
}

// A browser's own words say nothing to the reader: "Failed to fetch", "signal is aborted without reason".
function noAnswer(): never {
  throw new Error("the server doesn't answer.");
}

// Fails if the server doesn't answer, falls silent, or rejects this page's token. An answer may be slow, as through ssh.
async function ask(version: string, silence = kSilence): Promise<Answer> {
  const given = new AbortController();
  const giveUp = (): number => window.setTimeout(() => given.abort(), silence);
  let timer = giveUp();
  const heard = (): void => {
    clearTimeout(timer);
    timer = giveUp();
  };
  try {
    const headers = version === "" ? {} : { "If-None-Match": version };
    const response = await fetch(kData, { headers, cache: "no-store", signal: given.signal }).catch(noAnswer);
    const wait = 1000 * Number(response.headers.get("Cowprof-Poll-Seconds") ?? "1") || 1000;
    const age = Number(response.headers.get("Cowprof-Sample-Age")) || 0;
    if (response.status === 304 || response.status === 503) return { packed: null, version, wait, age };
    if (!response.ok) throw new Error(await response.text());
    return { packed: await readAll(response, heard).catch(noAnswer), version: response.headers.get("ETag") ?? "", wait, age };
  } finally {
    clearTimeout(timer);
  }
}

// Waits for the first page with a sample, or for the end of the run.
async function fetchFirst(): Promise<{ page: Page; version: string }> {
  for (let version = ""; ;) {
    const answer = await ask(version, kFirstSilence);
    if (answer.packed !== null) {
      const page = await parsePacked(answer.packed);
      if (page.seconds.length > 0 || !page.run.live) return { page, version: answer.version };
      version = answer.version;
    }
    await pause(kFirstWait);
  }
}

class Follower {
  readonly badge = mark(make("aside", "live"), { "aria-label": "The run" });
  private readonly word = mark(make("span", "live-word"), { role: "status" });
  private readonly time = make("span", "live-time");
  private readonly advice = make("p", "live-advice");
  private readonly button: HTMLButtonElement;
  private state: State = "live";
  private age = 0; // seconds since the last sample, as the server last said
  private held: Uint8Array<ArrayBuffer> | null = null; // received while paused
  private taking = Promise.resolve();
  private goOn: (() => void) | null = null;

  constructor(
    private readonly store: Store,
    private version: string,
    private readonly file: string,
  ) {
    this.button = makeButton("live-button", "Pause", () => void this.toggle());
    this.badge.append(
      make("div", "live-row", mark(make("span", "live-dot"), { "aria-hidden": "true" }), this.word, this.time, this.button),
      this.advice,
    );
    this.show(store.page.run.live ? "live" : "ended");
    document.addEventListener("visibilitychange", () => this.goOn?.()); // browsers throttle timers of hidden pages
  }

  async run(): Promise<void> {
    let wait = kFirstWait;
    while (this.store.page.run.live) {
      await Promise.race([
        pause(wait),
        new Promise<void>((resolve) => {
          this.goOn = resolve;
        }),
      ]);
      try {
        const answer = await ask(this.version);
        wait = answer.wait;
        this.version = answer.version;
        this.age = answer.age;
        await this.take(answer.packed);
      } catch {
        wait = 2000;
        this.show("lost");
      }
    }
  }

  // One after the other: an older recording that is decoded for longer must not replace the last one.
  private take(packed: Uint8Array<ArrayBuffer> | null): Promise<void> {
    const taken = this.taking.then(() => this.takeNext(packed));
    this.taking = taken.catch(() => undefined);
    return taken;
  }

  private async takeNext(packed: Uint8Array<ArrayBuffer> | null): Promise<void> {
    const page = packed === null || this.paused() ? null : await parsePacked(packed);
    if (this.paused()) {
      this.held = packed ?? this.held; // also if it was paused meanwhile
      return;
    }
    if (page !== null) this.store.setPage(page);
    const { live, intervalSeconds } = this.store.page.run;
    const silent = this.age > Math.max(kLeastAge, kAgeIntervals * (intervalSeconds ?? 0));
    this.show(!live ? "ended" : silent ? "silent" : "live");
  }

  private paused(): boolean {
    return this.state === "paused";
  }

  private async toggle(): Promise<void> {
    if (this.state !== "paused") return this.show("paused");
    this.state = "live";
    const held = this.held;
    this.held = null;
    await this.take(held).catch(() => this.show("lost"));
  }

  private show(state: State): void {
    if (this.state === "paused" && state === "lost") return; // shown once the reader resumes
    this.state = state;
    this.badge.dataset["state"] = state;
    const words = {
      live: "live",
      paused: "paused at",
      silent: "no new sample for",
      lost: "connection lost, trying again",
      ended: "the recording ended",
    }[state];
    if (this.word.textContent !== words) this.word.textContent = words;
    const shown = formatSeconds(this.store.page.seconds.at(-1) ?? 0);
    this.time.textContent = state === "lost" ? "" : state === "silent" ? formatSeconds(this.age) : shown;
    this.button.textContent = state === "paused" ? "Resume" : "Pause";
    this.button.hidden = state === "lost" || state === "ended";
    this.advice.replaceChildren();
    const view = (): HTMLElement => make("code", "", `cowprof view ${shellQuote(this.file) ?? this.file}`);
    if (state === "ended") this.advice.append("The page stays as it is. To see it again later: ", view());
    if (state === "silent") this.advice.append(`All figures are of ${shown}. Is the recorder stopped, or its disk full?`);
    if (state === "lost") this.advice.append("The page keeps what it has received. If the run is over: ", view());
  }
}

// Makes the store from the first answer, and the badge.
export async function followRun(file: string): Promise<{ store: Store; badge: HTMLElement }> {
  const first = await fetchFirst().catch((reason: unknown) => {
    const words = reason instanceof Error ? reason.message : String(reason);
    throw new Error(`The run can't be followed: ${words} If it is over: cowprof view ${shellQuote(file) ?? file}`);
  });
  const store = new Store(first.page);
  const follower = new Follower(store, first.version, file);
  void follower.run();
  return { store, badge: follower.badge };
}
