// References of modules to Python code, and where that code is in its file.

import type { Module } from "../flow";

/** A function or class of a script in the project. */
export interface ScriptReference {
  readonly path: string;
  readonly name: string;
}

/** The code that a module runs, if it is in a script: `clean.py:tidy`. */
export function scriptReference({ config }: Module): ScriptReference | undefined {
  for (const option of ["function", "module"]) {
    const value = config.get(option);
    const [, path, name] = typeof value === "string" ? (/^(.+\.py):(.+)$/.exec(value) ?? []) : [];
    if (path !== undefined && name !== undefined) return { path, name };
  }
  return undefined;
}

/** The number of the line that defines a function or class, from 1. */
export function definitionLine(text: string, name: string): number | undefined {
  const [outer = ""] = name.split(".");
  const lines = text.split(/\r\n|\n|\r/);
  const pattern = /^(?:async\s+)?(?:def|class)\s+([\p{L}\p{N}_]+)|^([\p{L}\p{N}_]+)\s*=/u;
  const at = lines.findIndex((line) => {
    const [, defined, assigned] = pattern.exec(line) ?? [];
    return defined === outer || assigned === outer;
  });
  return at < 0 ? undefined : at + 1;
}
