// Screenshots and frame rates, taken on demand: `npm run pictures`, `npm run frames`.

import { defineConfig } from "vitest/config";

export default defineConfig({
  envPrefix: ["STUDIO_"],
  test: {
    include: ["tests/pictures/*.test.ts"],
    testTimeout: 120_000,
    hookTimeout: 60_000,
    expect: { poll: { timeout: 30_000 } },
  },
});
