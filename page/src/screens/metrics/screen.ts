import type { Screen } from "../../lib/screen.ts";

export default {
  path: "metric", // the server has its own metrics at /metrics
  name: "Metrics",
  key: "m",
  group: "Explore",
  order: 4,
  load: () => import("./Metrics.svelte"),
} satisfies Screen;
