// Names as the canvas can have them. It puts them into selectors, where a quote would be syntax;
// and a module may be called anything.

/** The name with nothing in it but letters, digits and dashes. */
export function encoded(name: string): string {
  return name.replace(/[^A-Za-z0-9_]/g, (unit) => `-${unit.charCodeAt(0).toString(16)}-`);
}

/** The name that was encoded. */
export function decoded(text: string): string {
  return text.replace(/-([0-9a-f]+)-/g, (_, unit) => {
    return String.fromCharCode(Number.parseInt(unit, 16));
  });
}
