// Checks the compressed size of the built page and widget against their limits.

import { readdirSync, readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

/** Limits in bytes. */
const GZIP_BYTES_MAX = { page: 250 * 1024, notebook: 200 * 1024 };

const sums = { page: 0, notebook: 0 };
for (const file of readdirSync("dist", { recursive: true, withFileTypes: true })) {
  if (!file.isFile()) continue;
  const of = file.name === "notebook.js" ? "notebook" : "page";
  sums[of] += gzipSync(readFileSync(`${file.parentPath}/${file.name}`)).length;
}
for (const [of, bytes] of Object.entries(sums)) {
  console.log(`${of}: ${bytes} bytes compressed, of at most ${GZIP_BYTES_MAX[of]}`);
  if (bytes > GZIP_BYTES_MAX[of]) process.exit(1);
}
