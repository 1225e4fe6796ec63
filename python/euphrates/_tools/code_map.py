"""Writes `docs/code-map.md` from the first sentence of each Rust file.

Needs neither the compiled package nor anything installed:
`python python/euphrates/_tools/code_map.py`
in the project's folder writes the page. `make derive` writes it too, and a test compares it.
"""

from __future__ import annotations

import re
from pathlib import Path

CODE_MAP = Path("docs/code-map.md")
CRATES = Path("crates")

_HEAD = """\
# Code map

Derived from the first sentence of every Rust file by `make derive`; do not edit it. Tests are left
out. `ARCHITECTURE.md`, at the top of the source tree, says how the parts work together, and the
[glossary](glossary.md) defines the terms.
"""


def code_map(root: Path = Path()) -> str:
    """The page: a table of files for every crate, a crate after all those that it uses."""
    manifests = sorted((root / CRATES).glob("*/Cargo.toml"))
    used = {path.parent.name: _used(path.read_text("utf-8")) for path in manifests}

    def height(crate: str) -> int:
        return 1 + max(map(height, used[crate]), default=0)

    names = sorted(used, key=lambda name: (height(name), name))
    return _HEAD + "".join(_section(root / CRATES / name) for name in names)


def _used(manifest: str) -> list[str]:
    section = re.search(r"(?ms)^\[dependencies\]\n(.*?)(?=^\[|\Z)", manifest)
    return re.findall(r"(?m)^euphrates-([\w-]+)", section[1] if section else "")


def _section(crate: Path) -> str:
    source = crate / "src"
    files = [path for path in sorted(source.rglob("*.rs")) if not _is_test(path, source)]
    front = next(path for path in (source / "lib.rs", source / "main.rs") if path in files)
    rows = [
        f"| `{path.relative_to(source).as_posix()}` | {first_sentence(path.read_text('utf-8'))} |"
        for path in files
        if path != front
    ]
    listed = "\n".join(["| file | what it is |", "|---|---|", *rows])
    return f"\n## {crate.name}\n\n{first_sentence(front.read_text('utf-8'))}\n\n{listed}\n"


def _is_test(path: Path, source: Path) -> bool:
    names = path.relative_to(source).with_suffix("").parts
    return any(name == "tests" or name.endswith("_tests") for name in names)


def first_sentence(code: str) -> str:
    """The first sentence of a file's `//!` comment, as one line that may stand in a table."""
    paragraph = []
    for line in code.splitlines():
        text = line.removeprefix("//!").strip()
        if not line.startswith("//!") or not text:
            break
        paragraph.append(text)
    sentence = re.split(r"(?<=[.!?])\s+(?=[A-Z`\[])", " ".join(paragraph), maxsplit=1)[0]
    sentence = re.sub(r"\[([^\]]*)\](\([^)]*\))?", r"\1", sentence)
    return sentence.replace("|", "\\|")


if __name__ == "__main__":
    CODE_MAP.write_text(code_map(), encoding="utf-8")
