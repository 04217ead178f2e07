/** Addresses of other screens that a span leads to. */

import { link } from "../../lib/address.svelte.ts";
import { addFilter } from "../../lib/search.ts";

/** Return the address of the logs with an attribute. */
export function logsLink(key: string, value: string): string {
  return link("/logs", { q: addFilter("", key, value, false) });
}

export function traceLogsLink(traceId: string): string {
  return link("/logs", { q: addFilter("", "trace_id", traceId, false) });
}
