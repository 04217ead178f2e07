import type { Screen } from "../../lib/screen.ts";

export default {
  path: "services",
  name: "Services",
  key: "s",
  group: "Explore",
  order: 3,
  load: () => import("./Services.svelte"),
} satisfies Screen;
