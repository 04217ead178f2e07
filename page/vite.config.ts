import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

// Everything is a file of its own origin: the content security policy allows nothing inline.
export default defineConfig({
  plugins: [svelte()],
  publicDir: "public",
  build: {
    outDir: "../src/neve/page",
    emptyOutDir: true,
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: "es2022",
    chunkSizeWarningLimit: 400,
    // Parts that several screens share are one file, so that the first screen needs few requests.
    rolldownOptions: {
      output: {
        codeSplitting: {
          groups: [
            { name: "shared", test: /\/src\/(lib|components)\/(?!Chart)|node_modules\/(svelte|esm-env|clsx)\// },
          ],
        },
      },
    },
  },
});
