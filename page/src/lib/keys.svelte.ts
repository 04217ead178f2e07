/** Keys of the page. None works while a field has the focus, and none takes a key with a modifier from the browser. */

import { untrack } from "svelte";

export interface KeyBinding {
  /** A key as `KeyboardEvent.key` names it, or two in a row: "g l". */
  keys: string;
  words: string;
  run: (event: KeyboardEvent) => void;
}

export interface KeyGroup {
  name: string;
  bindings: KeyBinding[];
}

const SEQUENCE_MILLISECONDS = 1500;

class KeyGroups {
  /** Groups in force; the last one is asked first. The help shows them all. */
  all = $state.raw<KeyGroup[]>([]);
}

export const keyGroups = new KeyGroups();

/** Bind keys while a component lives. Call it while the component is set up. */
export function bindKeys(name: string, bindings: KeyBinding[]): void {
  $effect(() => {
    const group = { name, bindings };
    untrack(() => (keyGroups.all = [...keyGroups.all, group]));
    return () => {
      keyGroups.all = keyGroups.all.filter((one) => one !== group);
    };
  });
}

let pending = "";
let pendingSince = 0;

export function handleKey(event: KeyboardEvent): void {
  if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || isField(event.target)) return;
  if (document.querySelector("dialog[open]")) return;
  if (event.key === "Enter" && (event.target as Element | null)?.closest?.("a[href], button, summary")) return; // theirs
  const sequence = pending && event.timeStamp - pendingSince < SEQUENCE_MILLISECONDS ? `${pending} ${event.key}` : "";
  pending = "";
  const found = find(sequence) ?? find(event.key);
  if (found) {
    event.preventDefault();
    found.run(event);
  } else if (isStart(event.key)) {
    pending = event.key;
    pendingSince = event.timeStamp;
  }
}

function find(keys: string): KeyBinding | undefined {
  if (!keys) return undefined;
  for (const group of keyGroups.all.toReversed()) {
    const found = group.bindings.find((one) => one.keys === keys);
    if (found) return found;
  }
  return undefined;
}

function isStart(key: string): boolean {
  return keyGroups.all.some((group) => group.bindings.some((one) => one.keys.startsWith(`${key} `)));
}

export function isField(target: EventTarget | null): boolean {
  const element = target as HTMLElement | null;
  if (!element?.closest) return false;
  return Boolean(element.closest("input:not([type=checkbox]):not([type=radio]), textarea, select, [contenteditable=true]"));
}
