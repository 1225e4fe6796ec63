// Sizes in bytes as people write them: `1000`, `1e9`, `64MB`, `1.5GiB`, as in
// `python/euphrates/_options.py`.

const UNITS = ["", "k", "m", "g", "t"];

/** Parses a size; undefined if it is invalid or 0. */
export function parseBytes(size: string | number): number | undefined {
  const bytes = typeof size === "number" ? Math.trunc(size) : parseBytesText(size);
  return bytes > 0 && Number.isSafeInteger(bytes) ? bytes : undefined;
}

/** Parses a rate, `5MB/s` or `5MB`, to bytes per second; undefined if it is invalid. */
export function parseRate(rate: string): number | undefined {
  return parseBytes(rate.trim().replace(/\/s$/, ""));
}

function parseBytesText(size: string): number {
  const found = /^\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?\s*$/.exec(size.toLowerCase());
  const [, number = "", unit = "", binary = ""] = found ?? [];
  if (found === null || (unit === "" && binary !== "")) return 0;
  return Math.trunc(Number(number) * (binary ? 1024 : 1000) ** UNITS.indexOf(unit));
}

/** The shortest exact text of a size: `8MiB`, `1500KB`, `1001`. */
export function printBytes(bytes: number): string {
  const ways = UNITS.slice(1).flatMap((unit, i) => {
    const binary = { unit: `${unit.toUpperCase()}iB`, each: 1024 ** (i + 1) };
    return [binary, { unit: `${unit.toUpperCase()}B`, each: 1000 ** (i + 1) }];
  });
  const exact = ways.filter(({ each }) => bytes % each === 0).sort((a, b) => b.each - a.each)[0];
  return exact === undefined ? String(bytes) : `${bytes / exact.each}${exact.unit}`;
}
