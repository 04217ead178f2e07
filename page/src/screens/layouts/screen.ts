import type { Screen } from "../../lib/screen.ts";

export default {
  path: "layouts",
  name: "Layouts",
  key: "o",
  group: "Operate",
  order: 5,
  admin: true,
  load: () => import("./Layouts.svelte"),
} satisfies Screen;
