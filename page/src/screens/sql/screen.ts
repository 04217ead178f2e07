import type { Screen } from "../../lib/screen.ts";

export default {
  path: "sql",
  name: "SQL",
  key: "q",
  group: "Explore",
  order: 5,
  load: () => import("./Sql.svelte"),
} satisfies Screen;
