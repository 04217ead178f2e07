import type { Screen } from "../../lib/screen.ts";

export default {
  path: "costs",
  name: "Costs",
  key: "c",
  group: "Operate",
  order: 6,
  hasRange: false,
  load: () => import("./Costs.svelte"),
} satisfies Screen;
