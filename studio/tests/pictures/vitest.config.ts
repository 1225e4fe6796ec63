// Pictures and figures are taken on purpose, not by the tests: `npm run pictures`.

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
