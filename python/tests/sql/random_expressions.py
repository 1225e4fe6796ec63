"""Random expressions over the columns of a query's tables: numbers, text, tests."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

# The kinds of a table's columns by their names.
TableColumns = dict[str, str]
# The tables that an expression may name, by their aliases.
Scope = list[tuple[str, TableColumns]]

LITERALS = {
    "float": ["0.5e0", "-1.0e0", "2.0e0"],
    "decimal": ["0.00", "1.50", "-2.25"],
    "unsigned": ["0", "1", "255", "-1"],
    "date": ["date '2020-01-01'", "date '1969-12-31'"],
    "time": ["timestamp '2020-01-01 12:00:00'", "timestamp '2020-01-01'"],
    "text": ["'x'", "'y'", "''"],
    "bool": ["true", "false"],
}


@dataclass
class Expressions:
    """Makes expressions; `subquery` makes tests that ask another query."""

    random: random.Random
    subquery: Callable[[Scope], str]

    def columns(self, scope: Scope, kinds: set[str] | None = None) -> list[tuple[str, str]]:
        return [
            (f"{alias}.{name}", kind)
            for alias, table in scope
            for name, kind in table.items()
            if kinds is None or kind in kinds
        ]

    def column(self, scope: Scope, kind: str) -> str:
        return self.random.choice(self.columns(scope, {kind}))[0]

    def any_column(self, scope: Scope) -> str:
        return self.random.choice(self.columns(scope))[0]

    def number(self, scope: Scope, depth: int = 1) -> str:
        """An integer."""
        column = self.column(scope, "int")
        small = self.random.randint(-2, 4)
        forms = [column, column, f"({column} + {small})", f"coalesce({column}, {small})"]
        if depth > 0:
            other, test = self.number(scope, depth - 1), self.predicate(scope, 0)
            forms += [f"abs({column})", f"({column} * {other})", f"({column} - {other})"]
            forms += [f"case when {test} then {column} else {other} end", f"-{column}"]
            forms += [f"nullif({column}, {small})", f"greatest({column}, {other})"]
            forms += [f"case when {test} then {other} end", f"({column} % 3)"]
            forms += [f"cast(length({self.column(scope, 'text')}) as int)"]
        return self.random.choice(forms)

    def text(self, scope: Scope, depth: int = 1) -> str:
        column = self.column(scope, "text")
        forms = [column, column, f"coalesce({column}, 'x')"]
        if depth > 0:
            forms += [f"upper({column})", f"{column} || 'z'", f"nullif({column}, '')"]
            forms += [f"{column} || {self.column(scope, 'text')}", f"substr({column}, 1, 1)"]
            forms += [f"case when {self.predicate(scope, 0)} then {column} else 'w' end"]
        return self.random.choice(forms)

    def predicate(self, scope: Scope, depth: int = 1) -> str:
        """A test with three values."""
        chosen = self.random
        if depth > 0 and chosen.random() < 0.35:
            one, other = self.predicate(scope, depth - 1), self.predicate(scope, depth - 1)
            return chosen.choice([f"({one} and {other})", f"({one} or {other})", f"not ({one})"])
        column, kind = chosen.choice(self.columns(scope))
        sign = chosen.choice(["=", "=", "<>", "<", "<=", ">", ">="])
        forms = [f"{column} is null", f"{column} is not null"]
        if kind == "int":
            low, high = chosen.randint(0, 3), chosen.randint(0, 5)
            other = self.number(scope, 0)
            forms += [f"{column} {sign} {low}", f"{column} {sign} {other}"] * 2
            forms += [f"{column} in ({low}, {high})", f"{column} not in ({low}, {high})"]
            forms += [f"{column} in ({low}, null)", f"{column} between {low} and {other}"]
            forms += [
                f"{column} is distinct from {other}",
                f"{column} is not distinct from {other}",
            ]
        else:
            literal = chosen.choice(LITERALS[kind])
            peers = [peer for peer, its in self.columns(scope, {kind})]
            forms += [f"{column} {sign} {literal}", f"{column} {sign} {chosen.choice(peers)}"] * 2
        if kind == "text":
            forms += [f"{column} like '{chosen.choice(['%', 'x%', '_', ''])}'"]
        if kind == "bool":
            forms += [column, f"{column} is true", f"{column} is not false", f"not {column}"]
        return chosen.choice(forms)
