// How the studio is built: relative addresses, nothing inlined, so that a strict CSP will do.

import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

export default defineConfig({
  base: "./",
  plugins: [react()],
  envPrefix: ["VITE_", "STUDIO_"],
  build: { target: "es2023", assetsInlineLimit: 0 },
});
