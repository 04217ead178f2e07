/**
 * The address is the state: screen, filter, range, zone and what is open are in it, and nowhere else.
 *
 * Typing replaces the entry of the history, choices add one.
 */

import { checkZone, DEFAULT_RANGE, type Range, UTC } from "./time.ts";

export type Params = Record<string, string>;
type Changes = { [name: string]: string | undefined };

/** Parameters that every screen shares: links to other screens keep them. */
const SHARED = ["from", "to", "zone"];

class Address {
  path = $state(location.pathname);
  params = $state<Params>(readParams());

  get range(): Range {
    return { from: this.params.from ?? DEFAULT_RANGE.from, to: this.params.to ?? DEFAULT_RANGE.to };
  }

  get zone(): string {
    return checkZone(this.params.zone ?? UTC);
  }

  /** Change parameters of this screen; undefined and empty ones leave the address. */
  set(changes: Changes, options: { replace?: boolean } = {}): void {
    this.go(link(this.path, { ...this.params, ...changes }, false), options);
  }

  go(href: string, options: { replace?: boolean } = {}): void {
    const url = new URL(href, location.href);
    const target = url.pathname + url.search;
    if (target === location.pathname + location.search) return;
    if (options.replace) history.replaceState(null, "", target);
    else history.pushState(null, "", target);
    this.read();
  }

  read(): void {
    this.path = location.pathname;
    this.params = readParams();
  }
}

function readParams(): Params {
  return Object.fromEntries(new URLSearchParams(location.search));
}

export const address = new Address();

/** Return the address of a screen; range and zone stay, unless `keep` is false or they are given. */
export function link(path: string, params: Changes = {}, keep = true): string {
  const query = new URLSearchParams();
  const all: Changes = keep ? { ...pick(address.params), ...params } : params;
  for (const name of Object.keys(all).sort()) {
    const value = all[name];
    if (value !== undefined && value !== "") query.set(name, value);
  }
  const text = query.toString();
  return text ? `${path}?${text}` : path;
}

function pick(params: Params): Changes {
  return Object.fromEntries(SHARED.map((name) => [name, params[name]]));
}

/** Follow links of the page without loading it again; returns a function that stops. */
export function listen(): () => void {
  const onPop = (): void => address.read();
  const onClick = (event: MouseEvent): void => {
    if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    const anchor = (event.target as Element | null)?.closest?.("a[href]") as HTMLAnchorElement | null;
    if (!anchor || anchor.target || anchor.download || anchor.origin !== location.origin) return;
    if (anchor.pathname.startsWith("/api/") || anchor.hash) return;
    event.preventDefault();
    address.go(anchor.href);
  };
  addEventListener("popstate", onPop);
  document.addEventListener("click", onClick);
  return () => {
    removeEventListener("popstate", onPop);
    document.removeEventListener("click", onClick);
  };
}
