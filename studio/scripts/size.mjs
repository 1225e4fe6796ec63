// Fails if what a browser loads, compressed, is more than it may be.

import { readdirSync, readFileSync } from "node:fs";
import { gzipSync } from "node:zlib";

const GZIP_BYTES_MAX = 250 * 1024;

const files = readdirSync("dist", { recursive: true, withFileTypes: true });
const bytes = files
  .filter((file) => file.isFile())
  .map((file) => gzipSync(readFileSync(`${file.parentPath}/${file.name}`)).length)
  .reduce((sum, length) => sum + length, 0);
console.log(`${bytes} bytes compressed, of at most ${GZIP_BYTES_MAX}`);
if (bytes > GZIP_BYTES_MAX) process.exit(1);
