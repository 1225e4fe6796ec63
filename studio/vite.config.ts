// How the studio is built: relative addresses, nothing inlined, so that a strict CSP will do.

import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

export default defineConfig({
  base: "./",
  plugins: [react()],
  envPrefix: ["VITE_", "STUDIO_"],
  test: { include: ["tests/**/*.test.{ts,tsx}"], testTimeout: 120_000 },
  build: { target: "es2023", assetsInlineLimit: 0 },
});
