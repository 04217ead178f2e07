import type { Screen } from "../../lib/screen.ts";

export default {
  path: "lake",
  name: "Lake",
  key: "k",
  group: "Operate",
  order: 2,
  admin: true,
  hasRange: false,
  load: () => import("./Lake.svelte"),
  find: (text) => (/^[a-z][a-z0-9_]{2,40}$/.test(text) ? [{ words: `Table ${text}`, href: `/lake/${text}` }] : []),
} satisfies Screen;
