/** Load a resource again every few seconds while the tab is in sight. */

import type { Resource } from "./resource.svelte.ts";

/** Call it while a component is set up. Nothing loads while the tab is hidden; on return it loads at once. */
export function keepFresh<Value>(resource: Resource<Value>, seconds: number, isWanted: () => boolean = () => true): void {
  $effect(() => {
    if (!isWanted()) return;
    const load = (): void => {
      if (document.visibilityState === "visible" && !resource.isLoading) resource.retry();
    };
    const timer = setInterval(load, seconds * 1000);
    document.addEventListener("visibilitychange", load);
    return () => {
      clearInterval(timer);
      document.removeEventListener("visibilitychange", load);
    };
  });
}
