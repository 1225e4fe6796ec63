// Isolates names with right-to-left text inside sentences.

/** Right-to-left letters and bidirectional control characters. */
const BIDI = /[\u0590-\u08ff\u200e\u200f\u202a-\u202e\u2066-\u2069\ufb1d-\ufdff\ufe70-\ufefc]/;

/** Wraps a name that could change the direction of its surroundings in isolate marks. */
export function isolateBidi(name: string): string {
  if (!BIDI.test(name)) return name;
  // The closing mark ends all that the name opens, unless the name closes the isolate itself.
  return `\u2068${name.replaceAll("\u2069", "")}\u2069`;
}
