/** A value that comes from the API: loading, ready or failed, cancelled when the view is left. */

import { ApiError, isAbort } from "./api.ts";

const SLOW_MILLISECONDS = 1000;

export class Resource<Value> {
  value = $state.raw<Value | undefined>();
  error = $state.raw<ApiError | undefined>();
  isLoading = $state(true);
  isSlow = $state(false);
  isCancelled = $state(false);
  #attempt = $state(0);
  #controller: AbortController | undefined;

  /**
   * Load again whenever a state that `load` reads changes. Call it while a component is set up.
   *
   * The last value stays in sight until the next one is there. `load` must read its state before its first await.
   */
  constructor(load: (signal: AbortSignal) => Promise<Value> | undefined) {
    $effect(() => {
      void this.#attempt;
      const controller = new AbortController();
      const promise = load(controller.signal);
      if (!promise) {
        this.value = undefined;
        this.isLoading = false;
        return;
      }
      this.#controller = controller;
      this.isLoading = true;
      this.isCancelled = false;
      this.error = undefined;
      const timer = setTimeout(() => (this.isSlow = true), SLOW_MILLISECONDS);
      promise.then(
        (value) => this.#end(controller, timer, () => (this.value = value)),
        (error: unknown) => this.#end(controller, timer, () => this.#fail(error)),
      );
      return () => {
        clearTimeout(timer);
        this.isSlow = false;
        controller.abort();
      };
    });
  }

  retry(): void {
    this.#attempt += 1;
  }

  cancel(): void {
    this.isCancelled = true;
    this.isLoading = false;
    this.#controller?.abort();
  }

  #end(controller: AbortController, timer: number, apply: () => void): void {
    clearTimeout(timer);
    if (controller !== this.#controller) return;
    this.isSlow = false;
    this.isLoading = false;
    if (!controller.signal.aborted) apply();
  }

  #fail(error: unknown): void {
    if (isAbort(error)) return;
    this.value = undefined;
    this.error = error instanceof ApiError ? error : new ApiError(0, "failed", String(error));
  }
}
