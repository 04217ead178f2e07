import type { Screen } from "../../lib/screen.ts";

export default {
  path: "logs",
  name: "Logs",
  key: "l",
  group: "Explore",
  order: 1,
  load: () => import("./Logs.svelte"),
} satisfies Screen;
