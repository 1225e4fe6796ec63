"""The records of an `.slt` file: statements, queries with their results, and comments."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

CONDITIONS = ("skipif", "onlyif")


@dataclass
class Record:
    """A statement or query; `head` is its first line, and the lines above are its conditions."""

    sql: str
    head: str = "query"
    above: list[str] = field(default_factory=list)
    results: list[str] = field(default_factory=list)

    @property
    def is_query(self) -> bool:
        return self.head.startswith("query")

    @property
    def is_error(self) -> bool:
        return self.head.startswith("statement error")

    def has_condition(self, condition: str) -> bool:
        return condition in self.above

    def text(self) -> str:
        lines = [*self.above, self.head, self.sql]
        if self.is_query:
            lines += ["----", *self.results]
        return "\n".join(lines) + "\n"


def parsed(text: str) -> Iterator[Record]:
    """The records of a file, with the comments above them."""
    for block in re.split(r"\n{2,}", text.strip("\n")):
        lines = block.split("\n")
        first = next(
            (n for n, line in enumerate(lines) if line.startswith(("statement", "query"))), None
        )
        if first is None:
            yield Record("", head="", above=lines)
            continue
        body = lines[first + 1 :]
        end = body.index("----") if "----" in body else len(body)
        yield Record("\n".join(body[:end]), lines[first], lines[:first], body[end + 1 :])


def joined(records: Iterable[Record]) -> str:
    texts = [record.text() if record.head else "\n".join(record.above) + "\n" for record in records]
    return "\n".join(texts)


def outermost(query: str) -> str:
    """The query without what stands in parentheses or in quotes."""
    query = re.sub(r"'[^']*'", "''", query)
    while (shorter := re.sub(r"\([^()]*\)", "", query)) != query:
        query = shorter
    return query


def is_ordered(query: str) -> bool:
    return "order by" in outermost(query.lower())


def drafted(text: str) -> Iterator[Record]:
    """Records of a list of statements, each ended by `;`, with comments and conditions above.

    `error REGEX` in a line above makes a statement that fails so.
    """
    for piece in re.split(r";[ ]*(?:\n|$)", text):
        above, lines, head = [], [], ""
        for line in piece.split("\n"):
            if not lines and line.startswith("error"):
                head = f"statement {line}"
            elif not lines and line.startswith(("#", *CONDITIONS)):
                above.append(line)
            elif line.strip():
                lines.append(line)
        sql = "\n".join(lines)
        if sql:
            yield Record(sql, head or kind(sql), above)


def kind(sql: str) -> str:
    is_query = re.match(r"[\s(]*(select|with|values|from)\b", sql.lower())
    return "query" if is_query else "statement ok"
