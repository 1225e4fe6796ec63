// Browser tests of `dist`: run `npm run build` first.

import { defineConfig } from "vitest/config";

export default defineConfig({
  envPrefix: ["STUDIO_"],
  test: {
    include: ["tests/browser/*.test.ts"],
    testTimeout: 120_000,
    hookTimeout: 60_000,
    // Long enough for a busy machine: no test depends on timing.
    expect: { poll: { timeout: 30_000 } },
    // Runs of the engine use all cores.
    fileParallelism: false,
  },
});
