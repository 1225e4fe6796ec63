// Build configuration of the notebook widget: one module with its styles that fetches nothing. A
// notebook may show several flows, so each view gets its own stores.

import react from "@vitejs/plugin-react";
import { defineConfig, type Plugin } from "vite";

/** Wraps the script for anywidget so that every view runs it in a scope of its own. */
const eachItsOwn: Plugin = {
  name: "each-its-own",
  generateBundle(_, bundle) {
    for (const chunk of Object.values(bundle)) {
      if (chunk.type !== "chunk") continue;
      chunk.code = `const view=()=>{${chunk.code}
return view};export default{render:(place)=>view().render(place)};\n`;
    }
  },
};

export default defineConfig({
  plugins: [react(), eachItsOwn],
  define: { "process.env.NODE_ENV": '"production"' },
  build: {
    target: "es2023",
    // The page has been built there before.
    emptyOutDir: false,
    copyPublicDir: false,
    lib: {
      entry: "src/notebook/main.tsx",
      formats: ["iife"],
      name: "view",
      fileName: () => "notebook.js",
    },
  },
});
