"""`python -m slt [NAME…]`: writes the results of the files with these names, or of all."""

from __future__ import annotations

import sys
from pathlib import Path

from . import matrices
from .oracle import Oracle
from .records import Record, drafted, joined, parsed

FOLDER = Path(__file__).resolve().parents[4] / "crates/cli/tests/slt"


def generated(name: str) -> list[Record]:
    """The records of a matrix. A query that fails in DuckDB has to fail in the same class."""
    statements, error = matrices.ALL[name]
    lines = [line if is_comment(line) else f"{line};" for line in statements()]
    records = list(drafted("\n".join(lines)))
    head = f"# Written by python/tests/sql/slt: `python -m slt {name}`"
    return [Record("", head="", above=[head]), *Oracle().fill_all(records, error)]


def is_comment(line: str) -> bool:
    return line.startswith("# ") and "\n" not in line


def contents(name: str) -> str:
    """A file as it has to be: its queries, with the results of DuckDB."""
    if name in matrices.ALL:
        return joined(generated(name))
    return joined(Oracle().fill_all(parsed((FOLDER / f"{name}.slt").read_text())))


def names() -> list[str]:
    written = {path.relative_to(FOLDER).with_suffix("") for path in FOLDER.glob("**/*.slt")}
    return sorted({*map(str, written), *matrices.ALL})


if __name__ == "__main__":
    for name in sys.argv[1:] or names():
        path = FOLDER / f"{name}.slt"
        path.parent.mkdir(exist_ok=True)
        path.write_text(contents(name))
