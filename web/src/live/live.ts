// Owns following a live run: polls the server that served the page, passes new recordings to the store, and shows the
// state in a badge.
// Does not: draw the recording, or contact any other server (the page's policy forbids it).
import { parsePacked, type Page } from "../data/decode";
import { make, makeButton, mark } from "../ui/dom";
import { formatSeconds } from "../core/format";
import { shellQuote } from "../core/shell_quote";
import { Store } from "../store";
import "./live.css";

type State = "live" | "paused" | "lost" | "ended";

const kFirstWait = 300; // milliseconds
const kSilence = 10_000; // without a byte of an answer, the connection is lost
const kFirstSilence = 60_000; // the server may have to read a long recording first
const kData = `data${location.search}`;

interface Answer {
  packed: Uint8Array<ArrayBuffer> | null;
  version: string;
  wait: number;
} // null: nothing new

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
    const response = await fetch(kData, { headers, cache: "no-store", signal: given.signal });
    const wait = 1000 * Number(response.headers.get("Cowprof-Poll-Seconds") ?? "1") || 1000;
    if (response.status === 304 || response.status === 503) return { packed: null, version, wait };
    if (!response.ok) throw new Error(await response.text());
    return { packed: await readAll(response, heard), version: response.headers.get("ETag") ?? "", wait };
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
    this.show(this.store.page.run.live ? "live" : "ended");
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
    const words = { live: "live", paused: "paused at", lost: "connection lost, trying again", ended: "the recording ended" }[state];
    if (this.word.textContent !== words) this.word.textContent = words;
    this.time.textContent = state === "lost" ? "" : formatSeconds(this.store.page.seconds.at(-1) ?? 0);
    this.button.textContent = state === "paused" ? "Resume" : "Pause";
    this.button.hidden = state === "lost" || state === "ended";
    this.advice.replaceChildren();
    const view = (): HTMLElement => make("code", "", `cowprof view ${shellQuote(this.file) ?? this.file}`);
    if (state === "ended") this.advice.append("The page stays as it is. To see it again later: ", view());
    if (state === "lost") this.advice.append("The page keeps what it has received. If the run is over: ", view());
  }
}

// Makes the store from the first answer, and the badge.
export async function followRun(file: string): Promise<{ store: Store; badge: HTMLElement }> {
  const first = await fetchFirst().catch((reason: unknown) => {
    throw new Error(`The run can't be followed: ${reason instanceof Error ? reason.message : "the server doesn't answer"}`);
  });
  const store = new Store(first.page);
  const follower = new Follower(store, first.version, file);
  void follower.run();
  return { store, badge: follower.badge };
}
