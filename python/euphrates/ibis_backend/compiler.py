"""The SQL of Ibis expressions: DataFusion's, where this package's queries have the same."""

from __future__ import annotations

from typing import Any

import ibis.expr.datatypes as dt
import ibis.expr.operations as ops
from ibis.backends.sql.compilers.datafusion import DataFusionCompiler
from ibis.backends.sql.dialects import DataFusion


class Euphrates(DataFusion):
    """The dialect's name for sqlglot: `con.sql(text, dialect="duckdb")` is translated to it."""


class EuphratesCompiler(DataFusionCompiler):
    """Compiles expressions to the SQL of `eu.sql`."""

    __slots__ = ()
    dialect = Euphrates

    def _part(self, part: str, arg: Any) -> Any:
        return self.f.date_part(part, arg)

    def visit_ExtractEpochSeconds(self, op: ops.ExtractEpochSeconds, *, arg: Any) -> Any:
        return self.cast(self._part("epoch", arg), dt.int64)

    def visit_ExtractHour(self, op: ops.ExtractHour, *, arg: Any) -> Any:
        return self._part("hour", arg)

    def visit_ExtractMinute(self, op: ops.ExtractMinute, *, arg: Any) -> Any:
        return self._part("minute", arg)

    def visit_ExtractSecond(self, op: ops.ExtractSecond, *, arg: Any) -> Any:
        return self._part("second", arg)

    def visit_ExtractMillisecond(self, op: ops.ExtractMillisecond, *, arg: Any) -> Any:
        return self._part("millisecond", arg) % 1000

    def visit_ExtractMicrosecond(self, op: ops.ExtractMicrosecond, *, arg: Any) -> Any:
        return self._part("microsecond", arg) % 1000000


compiler = EuphratesCompiler()
