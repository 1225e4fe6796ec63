// Tests in a browser, of what is in `dist`: `npm run build` first.

import { defineConfig } from "vitest/config";

export default defineConfig({
  envPrefix: ["STUDIO_"],
  test: { include: ["tests/browser/*.test.ts"], testTimeout: 60_000, hookTimeout: 60_000 },
});
