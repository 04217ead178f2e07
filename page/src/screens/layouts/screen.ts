import type { Screen } from "../../lib/screen.ts";

export default {
  path: "layouts",
  name: "Layouts",
  key: "o",
  group: "Operate",
  order: 5,
  admin: true,
  hasRange: false,
  load: () => import("./Layouts.svelte"),
} satisfies Screen;
