// Tests in a browser, of what is in `dist`: `npm run build` first.

import { defineConfig } from "vitest/config";

export default defineConfig({
  envPrefix: ["STUDIO_"],
  test: {
    include: ["tests/browser/*.test.ts"],
    testTimeout: 120_000,
    hookTimeout: 60_000,
    // As long as the busiest machine may need: nothing is asserted of time.
    expect: { poll: { timeout: 30_000 } },
    // Runs of the engine take all cores; what is looked at beside them would wait.
    fileParallelism: false,
  },
});
