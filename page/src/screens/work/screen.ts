import type { Screen } from "../../lib/screen.ts";

export default {
  path: "jobs",
  name: "Work",
  key: "w",
  group: "Operate",
  order: 1,
  admin: true,
  hasRange: false,
  load: () => import("./Work.svelte"),
  find: (text) => (/^[0-9a-f]{16,32}$/.test(text) ? [{ words: `Job ${text}`, href: `/jobs?job=${text}` }] : []),
} satisfies Screen;
