"""The graph of imports between the files of a Rust crate, and its cycles.

An edge leads from a file to the file that defines what it names: by `use`, by a path that begins
with `crate`, `self` or `super`, or through a module that it declares. Re-exports (`pub use`) are
followed to the definition and are no edges themselves. Code under `#[cfg(test)]` is left out. What
a macro expands to is not seen.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

Module = tuple[str, ...]
"""A module's path within its crate; empty for the root."""

TEST_MODULE = re.compile(r"#\[cfg\((?:all\()?test\b[^\n]*\]\s*(?:pub(?:\(\w+\))?\s+)?mod \w+ \{")
STRING = re.compile(r'r#"(?:.|\n)*?"#|"(?:[^"\\]|\\.)*"')
COMMENT = re.compile(r"//[^\n]*")
USE = re.compile(r"(pub(?:\([\w: ]+\))? )?use ([^;]+);")
DECLARED = re.compile(
    r"(#\[cfg\((?:all\()?test\b[^\n]*\]\s*)?(?:pub(?:\([\w: ]+\))? )?\bmod (\w+);"
)
ROOTED_PATH = re.compile(r"\b((?:crate|super|self)(?:::\w+)+)")
LOCAL_PATH = re.compile(r"(?<![:\w])(\w+)((?:::\w+)+)")


class Crate:
    """A crate's files by module path, and what each imports."""

    def __init__(self, source: Path) -> None:
        self._files: dict[Module, Path] = {}
        self._code: dict[Module, str] = {}
        root = source / "lib.rs"
        self._add((), root if root.exists() else source / "main.rs")
        self._names = {module: dict(self._imported_names(module)) for module in self._files}

    def edges(self) -> dict[Module, set[Module]]:
        """The modules whose items each module names."""
        return {module: self._targets(module) for module in self._files}

    def _add(self, module: Module, path: Path) -> None:
        code = COMMENT.sub("", STRING.sub('""', TEST_MODULE.split(path.read_text())[0]))
        self._files[module], self._code[module] = path, code
        is_root = path.name in ("lib.rs", "main.rs", "mod.rs")
        folder = path.parent if is_root else path.with_suffix("")
        for is_test, name in DECLARED.findall(code):
            candidates = (folder / f"{name}.rs", folder / name / "mod.rs")
            path = next((one for one in candidates if one.exists()), None)
            if path is not None and not is_test:
                self._add((*module, name), path)

    def _uses(self, module: Module) -> Iterator[tuple[bool, Module, str]]:
        """For each name of each `use`: whether it is public, its path, and the name it gets."""
        for public, tree in USE.findall(self._code[module]):
            for path, name in flattened(re.sub(r"\s+", " ", tree).strip()):
                yield bool(public), path, name

    def _imported_names(self, module: Module) -> Iterator[tuple[str, Module]]:
        return ((name, path) for _, path, name in self._uses(module))

    def _targets(self, module: Module) -> set[Module]:
        paths = [path for public, path, _ in self._uses(module) if not public]
        body = USE.sub("", self._code[module])
        paths += [tuple(path.split("::")) for path in ROOTED_PATH.findall(body)]
        for first, rest in LOCAL_PATH.findall(body):
            behind = tuple(rest[2:].split("::"))
            if (*module, first) in self._files:
                paths.append(("self", first, *behind))
            elif first in self._names[module]:
                paths.append((*self._names[module][first], *behind))
        targets = {self._resolved(module, path, frozenset()) for path in paths}
        return {target for target in targets if target is not None and target != module}

    def _absolute(self, module: Module, path: Module) -> Module | None:
        first, rest = path[0], path[1:]
        if first == "crate":
            return rest
        if first == "self":
            return (*module, *rest)
        if first == "super":
            while path and path[0] == "super":
                module, path = module[:-1], path[1:]
            return (*module, *path)
        return (*module, *path) if (*module, first) in self._files else None

    def _resolved(self, module: Module, path: Module, seen: frozenset[Module]) -> Module | None:
        """The module that defines what a path names; `None` if it is of another crate."""
        absolute = self._absolute(module, path)
        if absolute is None or absolute in seen:
            return None
        at: Module = ()
        for index, part in enumerate(absolute):
            if (*at, part) in self._files:
                at = (*at, part)
            elif part in self._names[at]:
                further = (*self._names[at][part], *absolute[index + 1 :])
                return self._resolved(at, further, seen | {absolute})
            else:
                break
        return at


def flattened(tree: str, prefix: Module = ()) -> Iterator[tuple[Module, str]]:
    """The paths of a `use` tree, each with the name it gets."""
    group = re.match(r"^((?:\w+::)*)\{(.*)\}$", tree.strip())
    if group:
        head = (*prefix, *[part for part in group[1].split("::") if part])
        for part in split_at_commas(group[2]):
            yield from flattened(part, head)
        return
    path_text, _, alias = tree.strip().partition(" as ")
    path = (*prefix, *[part for part in path_text.split("::") if part])
    if path and path[-1] == "self" and len(path) > 1:
        path = path[:-1]
    if path:
        yield path, alias.strip() or path[-1]


def split_at_commas(text: str) -> list[str]:
    """The parts of a list, whose braces may hold commas of their own."""
    depth, parts = 0, [""]
    for character in text:
        depth += (character == "{") - (character == "}")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part for part in parts if part.strip()]


def cycles(edges: dict[Module, set[Module]]) -> list[list[Module]]:
    """The strongly connected components of more than one module (Tarjan 1972)."""
    order: dict[Module, int] = {}
    low: dict[Module, int] = {}
    stack: list[Module] = []
    found: list[list[Module]] = []

    def visit(module: Module) -> None:
        order[module] = low[module] = len(order)
        stack.append(module)
        for target in edges.get(module, ()):
            if target not in order:
                visit(target)
                low[module] = min(low[module], low[target])
            elif target in stack:
                low[module] = min(low[module], order[target])
        if low[module] == order[module]:
            component = stack[stack.index(module) :]
            del stack[stack.index(module) :]
            if len(component) > 1:
                found.append(sorted(component))

    for module in edges:
        if module not in order:
            visit(module)
    return found
