/** The screens of the page. A folder of `screens` with a file `screen.ts` is one: nothing else names it. */

import type { Component } from "svelte";

export interface Found {
  words: string;
  href: string;
}

export interface Screen {
  /** First part of the address: "logs" is served at /logs and below. */
  path: string;
  name: string;
  /** Letter after `g`. */
  key: string;
  group: "Explore" | "Operate";
  /** Place within the group. */
  order: number;
  /** Only for callers that may see the whole lake. */
  admin?: boolean;
  /** Whether the screen shows the records of the time range. */
  hasRange?: boolean;
  load: () => Promise<{ default: Component }>;
  /** Things that the search for anything finds by their text: an id, a name. */
  find?: (text: string) => Found[];
}

const modules = import.meta.glob<{ default: Screen }>("../screens/*/screen.ts", { eager: true });

export const screens: Screen[] = Object.values(modules)
  .map((module) => module.default)
  .sort((one, other) => one.group.localeCompare(other.group) || one.order - other.order);

export function screenAt(path: string): Screen | undefined {
  const first = path.split("/")[1] ?? "";
  return screens.find((screen) => screen.path === first);
}

/** Return the parts of a path after the screen: /trace/abc gives ["abc"]. */
export function partsOf(path: string): string[] {
  return path.split("/").slice(2).filter(Boolean).map(decodeURIComponent);
}
