import { link } from "../../lib/address.svelte.ts";
import type { Screen } from "../../lib/screen.ts";
import { findTraceId } from "./trace_id.ts";

export default {
  path: "trace",
  name: "Traces",
  key: "t",
  group: "Explore",
  order: 2,
  load: () => import("./Trace.svelte"),
  find: (text) => {
    const id = findTraceId(text);
    return id ? [{ words: `Trace ${id}`, href: link(`/trace/${id}`) }] : [];
  },
} satisfies Screen;
