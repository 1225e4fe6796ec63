// Python keywords and reserved names of generated code.

export const KEYWORDS: ReadonlySet<string> = new Set(
  (
    "False None True and as assert async await break class continue def del elif else except " +
    "finally for from global if import in is lambda nonlocal not or pass raise return try while " +
    "with yield"
  ).split(" "),
);

/** Names that generated code uses. */
export const RESERVED_NAMES: ReadonlySet<string> = new Set(["eu", "flow", "print"]);

/** The Python spelling of a name: keywords get an underscore. */
export function pythonName(name: string): string {
  return KEYWORDS.has(name) ? `${name}_` : name;
}
