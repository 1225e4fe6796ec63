// How the studio is built and looked at: relative addresses and nothing inlined, because it is
// served under a policy that allows neither foreign nor inline code.

import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";
import { POLICY } from "./tests/browser/policy";

export default defineConfig({
  base: "./",
  plugins: [react()],
  envPrefix: ["VITE_", "STUDIO_"],
  build: { target: "es2023", assetsInlineLimit: 0, chunkSizeWarningLimit: 1000 },
  preview: { headers: { "Content-Security-Policy": POLICY } },
  test: { include: ["tests/*.test.ts"], testTimeout: 120_000 },
});
