// How a notebook's view is built: one module, with its styles, that fetches nothing. The page's
// stores are one each a page; a notebook may show several flows, so each view makes its own.

import react from "@vitejs/plugin-react";
import { defineConfig, type Plugin } from "vite";

/** Turns the script into what anywidget loads: every view runs it anew. */
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
    // Beside the page, which has been built before.
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
