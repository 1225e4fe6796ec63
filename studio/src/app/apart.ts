// Names in sentences.

/** Letters written from right to left, and marks that turn what stands around them. */
const TURNING = /[\u0590-\u08ff\u200e\u200f\u202a-\u202e\u2066-\u2069\ufb1d-\ufdff\ufe70-\ufefc]/;

/** A name within a text. One that could turn its surroundings is kept apart from them. */
export function apart(name: string): string {
  if (!TURNING.test(name)) return name;
  // Whatever it opens ends with it, unless it closes what is opened here.
  return `\u2068${name.replaceAll("\u2069", "")}\u2069`;
}
