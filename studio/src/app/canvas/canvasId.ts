// Ids for the canvas. React Flow builds CSS selectors from ids, so a module's name, which may be
// any text, is escaped.

/** Escapes everything but ASCII letters, digits and underscores as `-<hex>-`. */
export function encodeId(name: string): string {
  return name.replace(/[^A-Za-z0-9_]/g, (unit) => `-${unit.charCodeAt(0).toString(16)}-`);
}

/** Inverse of `encodeId`. */
export function decodeId(text: string): string {
  return text.replace(/-([0-9a-f]+)-/g, (_, unit) => {
    return String.fromCharCode(Number.parseInt(unit, 16));
  });
}
