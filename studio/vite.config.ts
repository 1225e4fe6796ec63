// Build configuration of the page: relative URLs and nothing inlined, as required by the content
// security policy that it is served with.

import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";
import { POLICY } from "./tests/browser/contentSecurityPolicy";

export default defineConfig({
  base: "./",
  plugins: [react()],
  envPrefix: ["VITE_", "STUDIO_"],
  build: { target: "es2023", assetsInlineLimit: 0, chunkSizeWarningLimit: 1000 },
  preview: { headers: { "Content-Security-Policy": POLICY } },
  test: { include: ["tests/*.test.ts"], testTimeout: 120_000 },
});
