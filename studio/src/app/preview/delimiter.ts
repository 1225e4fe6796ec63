// The delimiters of CSV files: which a preview offers, and which a file probably has.

/** Delimiters by what the preview calls them. */
export const DELIMITERS: ReadonlyMap<string, string> = new Map([
  [",", "comma"],
  [";", "semicolon"],
  ["\t", "tab"],
  ["|", "bar"],
]);

/** Whether a path is that of a file with a delimiter. */
export function hasDelimiter(path: string): boolean {
  return /\.[ct]sv(\.\w+)?$/i.test(path);
}

/**
 * The delimiter of a file that was read with another: the file has one column, whose name is the
 * whole header.
 */
export function likelyDelimiter(columns: readonly string[]): string | undefined {
  const [header, ...more] = columns;
  if (header === undefined || more.length > 0) return undefined;
  const counts = [...DELIMITERS.keys()].map((one) => [header.split(one).length, one] as const);
  const [parts, most] = counts.reduce((best, next) => (next[0] > best[0] ? next : best));
  return parts > 1 ? most : undefined;
}
