import type { Screen } from "../../lib/screen.ts";

export default {
  path: "sampling",
  name: "Sampling",
  key: "y",
  group: "Operate",
  order: 3,
  load: () => import("./Sampling.svelte"),
} satisfies Screen;
