"""The tables and views of a connection, by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import ibis.common.exceptions as exc

from .._options import suggestion
from .._user_code.query_tables import query

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .._user_code.query_tables import Rows
    from ..flow import Flow
    from ..queries import Query

Kind = Literal["table", "view"]
"""What a name stands for: rows that the connection was given, or a query that is run when used."""


@dataclass(frozen=True)
class _Entry:
    kind: Kind
    rows: Query


class Catalog:
    """Rows by name. A name that begins with `@` is a collection and needs no entry."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __contains__(self, name: str) -> bool:
        return name in self._entries

    def get(self, name: str) -> Query | None:
        """The rows of a name; `None` if it has none."""
        if name in self._entries:
            return self._entries[name].rows
        return query(name) if name.startswith("@") else None

    def __getitem__(self, name: str) -> Query:
        found = self.get(name)
        if found is None:
            near = suggestion(name, list(self._entries))
            known = ", ".join(sorted(self._entries)) or "none"
            raise exc.TableNotFound(f"no table named `{name}`\n  remedy: {near or known}")
        return found

    def put(self, name: str, rows: Rows, *, kind: Kind = "table", replace: bool = True) -> None:
        """Gives rows a name; a name that is taken keeps its rows unless it is replaced."""
        if name.startswith("@"):
            raise exc.IbisInputError(
                f"`{name}` is the name of a collection\n  remedy: save the query to it:"
                f" con.query(expression).save({name!r})"
            )
        if name in self._entries and not replace:
            remedy = f"drop the {self._entries[name].kind}, or give overwrite=True"
            raise exc.IbisInputError(f"`{name}` exists already\n  remedy: {remedy}")
        self._entries[name] = _Entry(kind, query(rows))

    def drop(self, name: str, kind: Kind, *, force: bool) -> None:
        """Forgets a name of this kind; with `force` one that is unknown, too."""
        entry = self._entries.get(name)
        if entry is None:
            if not force:
                self[name]
            return
        if entry.kind != kind:
            raise exc.IbisInputError(
                f"`{name}` is a {entry.kind}\n  remedy: drop it by drop_{entry.kind}({name!r})"
            )
        del self._entries[name]

    def rename(self, old: str, new: str) -> None:
        """Gives the rows of one name another, which must be free."""
        self.put(new, self[old], kind=self._entries[old].kind, replace=False)
        del self._entries[old]

    def flows(self) -> dict[str, Flow]:
        """The flows whose last modules have the rows, by name."""
        return {name: entry.rows._flow for name, entry in self._entries.items()}
