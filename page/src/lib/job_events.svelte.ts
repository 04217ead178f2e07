/**
 * Load a resource again when jobs change, by one stream of server-sent events for all tabs of a browser.
 *
 * A browser has six connections to a host. The tab that holds a lock has the stream and tells the others by a channel;
 * when it closes or is hidden, another takes over. Where locks are missing (plain http beyond this machine), tabs poll.
 */

import { untrack } from "svelte";

import { PREFIX } from "./api.ts";
import { keepFresh } from "./fresh.svelte.ts";
import type { Resource } from "./resource.svelte.ts";
import { session } from "./session.svelte.ts";

const LOCK = "neve-job-events";
const RETRY_MILLISECONDS = 2000;
const POLL_SECONDS = 2;

type Listener = () => void;
const listeners = new Set<Listener>();
let stop: (() => void) | undefined;

/** Call it while a component is set up. Nothing loads while the tab is hidden; on return it loads at once. */
export function followJobs<Value>(resource: Resource<Value>, isWanted: () => boolean = () => true): void {
  if (!navigator.locks) {
    keepFresh(resource, POLL_SECONDS, isWanted);
    return;
  }
  const isFollowed = $derived(isWanted()); // not each new value: the stream would begin again
  $effect(() => {
    if (!isFollowed) return;
    const listener = (): void => untrack(() => resource.retry());
    listeners.add(listener);
    stop ??= watch();
    return () => {
      listeners.delete(listener);
      if (listeners.size > 0) return;
      stop?.();
      stop = undefined;
    };
  });
}

function tell(): void {
  for (const listener of listeners) listener();
}

/** Follow changes while the tab is in sight; returns a function that ends it. */
function watch(): () => void {
  // Tabs that are signed in differently do not share a stream.
  const name = `${LOCK}-${session.identity?.key_id ?? ""}`;
  let controller: AbortController | undefined;
  let seen = "";
  const channel = new BroadcastChannel(name);
  const note = (version: string): void => {
    if (version !== seen) tell(); // also for the first: jobs may have changed since the list was read
    seen = version;
  };
  channel.onmessage = (event: MessageEvent<string>) => {
    if (!document.hidden) note(event.data);
  };
  const receive = (version: string): void => {
    channel.postMessage(version);
    note(version);
  };
  const change = (): void => {
    if (document.hidden) {
      controller?.abort();
      controller = undefined;
    } else if (!controller) {
      controller = new AbortController();
      const { signal } = controller;
      navigator.locks.request(name, { signal }, () => stream(signal, receive)).catch(() => undefined); // given up: aborted
    }
  };
  const show = (): void => {
    change();
    if (!document.hidden) tell();
  };
  change();
  document.addEventListener("visibilitychange", show);
  return () => {
    document.removeEventListener("visibilitychange", show);
    controller?.abort();
    channel.close();
  };
}

/** Hold a stream until `signal` aborts. The page connects again by itself: a browser gives up on an error status. */
function stream(signal: AbortSignal, receive: (version: string) => void): Promise<void> {
  return new Promise((done) => {
    let source: EventSource | undefined;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const connect = (): void => {
      source = new EventSource(`${PREFIX}/jobs/events`);
      source.addEventListener("jobs", (event) => receive(event.lastEventId));
      source.onerror = () => {
        source?.close();
        timer = setTimeout(connect, RETRY_MILLISECONDS);
      };
    };
    signal.addEventListener("abort", () => {
      clearTimeout(timer);
      source?.close();
      done();
    });
    connect();
  });
}
