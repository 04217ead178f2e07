/**
 * Live tail: records of new commits at the top of the list.
 *
 * Shown + left out = matched, always: the server counts what matched since the stream began, and the page counts what it
 * shows. Nothing runs while the tab is hidden; on return it goes on from the last event.
 */

import { untrack } from "svelte";

import { PREFIX } from "../../lib/api.ts";
import type { Condition } from "../../lib/search.ts";
import type { RecordList } from "./records.svelte.ts";

export type TailState = "live" | "connecting" | "reconnecting" | "behind" | "paused by you" | "paused by scrolling" | "stopped";

const RETRY_MILLISECONDS = 2000;
const MOST_WAITING = 5000;
const MOST_SEEN = 20_000;

interface Wanted {
  isLive: boolean;
  line: string;
  condition: Condition;
  columns: string[];
}

type Row = Record<string, unknown>;

export class LiveTail {
  matched = $state(0);
  shown = $state(0);
  waiting = $state(0);
  isPaused = $state(false);
  complaint = $state("");
  #connection = $state<"closed" | "connecting" | "open" | "lost" | "behind">("closed");
  #isScrolled = $state(false);
  #source: EventSource | undefined;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #frame = 0;
  #lastId = "";
  #buffer: Row[] = [];
  #seen = new Set<string>();

  constructor(
    private readonly wanted: () => Wanted,
    private readonly list: () => RecordList | undefined,
    private readonly isAtTop: () => boolean,
  ) {
    $effect(() => {
      const { isLive, condition, columns } = this.wanted();
      const parameters = new URLSearchParams({
        where: condition.sql,
        parameters: JSON.stringify(condition.parameters),
        fields: columns.join(","),
      });
      untrack(() => this.#reset());
      if (!isLive) return;
      const watch = (): void => (document.hidden ? this.#disconnect() : this.#connect(parameters));
      untrack(watch);
      document.addEventListener("visibilitychange", watch);
      return () => {
        document.removeEventListener("visibilitychange", watch);
        this.#disconnect();
      };
    });
  }

  /** Left out: matched, and neither shown nor waiting for a click. */
  get leftOut(): number {
    return Math.max(0, this.matched - this.shown - this.waiting);
  }

  get state(): TailState {
    if (this.#connection === "closed") return "stopped";
    if (this.isPaused) return "paused by you";
    if (this.#connection === "connecting") return "connecting";
    if (this.#connection === "lost") return "reconnecting";
    if (this.#connection === "behind") return "behind";
    return this.#isScrolled ? "paused by scrolling" : "live";
  }

  pause(): void {
    this.isPaused = !this.isPaused;
    if (!this.isPaused) this.flush();
  }

  /** Show what waits. */
  flush(): void {
    this.#isScrolled = false;
    this.#draw(true);
  }

  #reset(): void {
    this.#disconnect();
    this.matched = this.shown = this.waiting = 0;
    this.complaint = this.#lastId = "";
    this.#buffer = [];
    this.#seen = new Set();
    this.#isScrolled = false;
  }

  #connect(parameters: URLSearchParams): void {
    this.#disconnect();
    this.#connection = this.#lastId ? "lost" : "connecting";
    const query = new URLSearchParams(parameters);
    if (this.#lastId) query.set("last_event_id", this.#lastId);
    const source = new EventSource(`${PREFIX}/live?${query}`);
    this.#source = source;
    source.addEventListener("records", (event) => this.#receive(event as MessageEvent<string>));
    source.addEventListener("beat", (event) => this.#note(event as MessageEvent<string>, "open"));
    source.addEventListener("behind", (event) => {
      this.#note(event as MessageEvent<string>, "behind");
      this.complaint = String(JSON.parse((event as MessageEvent<string>).data).message ?? "");
    });
    // The page connects again by itself: the browser would not say so, and gives up on an error status.
    source.onerror = () => {
      source.close();
      this.#connection = "lost";
      this.#timer = setTimeout(() => this.#connect(parameters), RETRY_MILLISECONDS);
    };
  }

  #disconnect(): void {
    clearTimeout(this.#timer);
    this.#source?.close();
    this.#source = undefined;
    this.#connection = "closed";
  }

  #note(event: MessageEvent<string>, state: "open" | "behind"): void {
    this.#lastId = event.lastEventId;
    this.#connection = state;
    if (state === "open") this.complaint = "";
  }

  #receive(event: MessageEvent<string>): void {
    this.#note(event, "open");
    const data = JSON.parse(event.data) as { matched: number; rows: Row[] };
    this.matched = Math.max(this.matched, data.matched);
    const fresh = data.rows.filter((row) => !this.#seen.has(String(row.record_id)));
    for (const row of fresh) this.#seen.add(String(row.record_id));
    for (const old of this.#seen) {
      if (this.#seen.size <= MOST_SEEN) break;
      this.#seen.delete(old); // a repeated event is a recent one
    }
    this.#buffer = [...fresh, ...this.#buffer].slice(0, MOST_WAITING);
    this.waiting = this.#buffer.length;
    cancelAnimationFrame(this.#frame);
    this.#frame = requestAnimationFrame(() => this.#draw(false));
  }

  #draw(isForced: boolean): void {
    const list = this.list();
    if (!list || this.#buffer.length === 0) return;
    if (!isForced) {
      this.#isScrolled = !this.isAtTop();
      if (this.isPaused || this.#isScrolled) return;
    }
    const rows = this.#buffer.toSorted((one, other) => String(other.timestamp).localeCompare(String(one.timestamp)));
    this.#buffer = [];
    this.waiting = 0;
    this.shown += rows.length;
    list.prepend(rows);
  }
}
