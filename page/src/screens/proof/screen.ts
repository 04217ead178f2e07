import type { Screen } from "../../lib/screen.ts";

export default {
  path: "proof",
  name: "Proof",
  key: "p",
  group: "Operate",
  order: 4,
  load: () => import("./Proof.svelte"),
} satisfies Screen;
