"""Compiles Ibis expressions to SQL: DataFusion's dialect, except where this package differs."""

from __future__ import annotations

from typing import Any, ClassVar

import ibis.common.exceptions as exc
import ibis.expr.datatypes as dt
import ibis.expr.operations as ops
import sqlglot as sg
import sqlglot.expressions as sge
from ibis.backends.sql.compilers.base import NULL
from ibis.backends.sql.compilers.datafusion import DataFusionCompiler
from ibis.backends.sql.dialects import DataFusion
from ibis.backends.sql.rewrites import subtract_one_from_array_map_filter_index

_URL = r"(?:([^:/?#]+):)?(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?$"
"""The parts of an address: scheme, authority, path, query, fragment (RFC 3986, appendix B)."""
_AUTHORITY = r"(?:([^@]*)@)?(\[[^\]]*\]|[^:]*)(?::[0-9]*)?$"
"""The parts of an authority: user, host."""


class Euphrates(DataFusion):
    """The dialect's name for sqlglot: `con.sql(text, dialect="duckdb")` is translated to it."""

    NULL_ORDERING = "nulls_are_last"

    class Generator(DataFusion.Generator):
        """How the dialect is written."""

        TRANSFORMS: ClassVar = DataFusion.Generator.TRANSFORMS | {
            sge.TryCast: lambda self, cast: self.cast_sql(cast, safe_prefix="TRY_"),
        }


class EuphratesCompiler(DataFusionCompiler):
    """Compiles expressions to the SQL of `eu.sql`."""

    __slots__ = ()
    dialect = Euphrates
    rewrites = (subtract_one_from_array_map_filter_index, *DataFusionCompiler.rewrites)

    SIMPLE_OPS: ClassVar = {
        # The least and the largest truth value: windows have no `bool_and`.
        ops.All: "min",
        ops.Any: "max",
        ops.ArrayMax: "list_max",
        ops.ArrayMean: "list_avg",
        ops.ArrayMin: "list_min",
        ops.ArraySum: "list_sum",
        ops.RegexSearch: "regexp_like",
        ops.RegexSplit: "regexp_split_to_array",
        ops.StringToDate: "to_date",
        ops.StringToTimestamp: "to_timestamp",
    }
    UNSUPPORTED_OPS = ()

    # Literals and casts

    def cast(self, arg: Any, to: dt.DataType) -> Any:
        """A cast; one to a time of day has the name of Arrow's type."""
        if to.is_time():
            return self.f.arrow_cast(arg, "Time64(Nanosecond)")
        return super().cast(arg, to)

    def visit_NonNullLiteral(self, op: ops.Literal, *, value: Any, dtype: dt.DataType) -> Any:
        if dtype.is_date():
            return self.cast(sge.convert(value.isoformat()), dt.date)
        if dtype.is_time():
            return self.cast(sge.convert(value.isoformat()), dtype)
        if dtype.is_interval():
            unit = sge.var(dtype.unit.plural.lower())
            return sge.Interval(this=sge.convert(str(value)), unit=unit)
        return super().visit_NonNullLiteral(op, value=value, dtype=dtype)

    def visit_Cast(self, op: ops.Cast, *, arg: Any, to: dt.DataType) -> Any:
        if to.is_integer() and op.arg.dtype.is_timestamp():
            return self.cast(self.f.floor(self.f.date_part("epoch", arg)), to)
        if to.is_floating() and op.arg.dtype.is_timestamp():
            return self.cast(self.f.date_part("epoch", arg), to)
        return super().visit_Cast(op, arg=arg, to=to)

    def visit_TryCast(self, op: ops.TryCast, *, arg: Any, to: dt.DataType) -> Any:
        """Each time has a number of seconds; other casts give null where they fail."""
        if op.arg.dtype.is_timestamp() and to.is_numeric():
            return self.visit_Cast(op, arg=arg, to=to)
        return super().visit_TryCast(op, arg=arg, to=to)

    # Numbers

    def visit_Sign(self, op: ops.Sign, *, arg: Any) -> Any:
        return self.cast(self.f.anon.signum(arg), op.dtype)

    def visit_BitwiseXor(self, op: ops.BitwiseXor, *, left: Any, right: Any) -> Any:
        """The bits of either without the bits of both: there is no operator."""
        either = self.binop(sge.BitwiseOr, left, right)
        both = self.binop(sge.BitwiseAnd, left, right)
        return self.binop(sge.Sub, sge.paren(either), sge.paren(both))

    def visit_BitwiseNot(self, op: ops.BitwiseNot, *, arg: Any) -> Any:
        return self.binop(sge.Sub, sge.convert(-1), arg)

    # Times

    def visit_ExtractEpochSeconds(self, op: ops.ExtractEpochSeconds, *, arg: Any) -> Any:
        return self.cast(self.f.floor(self.f.date_part("epoch", arg)), dt.int64)

    def visit_ExtractHour(self, op: ops.ExtractHour, *, arg: Any) -> Any:
        return self.f.date_part("hour", arg)

    def visit_ExtractMinute(self, op: ops.ExtractMinute, *, arg: Any) -> Any:
        return self.f.date_part("minute", arg)

    def visit_ExtractSecond(self, op: ops.ExtractSecond, *, arg: Any) -> Any:
        return self.f.date_part("second", arg)

    def visit_ExtractMillisecond(self, op: ops.ExtractMillisecond, *, arg: Any) -> Any:
        return self.f.date_part("millisecond", arg) % 1_000

    def visit_ExtractMicrosecond(self, op: ops.ExtractMicrosecond, *, arg: Any) -> Any:
        return self.f.date_part("microsecond", arg) % 1_000_000

    def visit_ExtractIsoYear(self, op: ops.ExtractIsoYear, *, arg: Any) -> Any:
        return self.f.date_part("isoyear", arg)

    def visit_Date(self, op: ops.Date, *, arg: Any) -> Any:
        return self.cast(arg, dt.date)

    def visit_TimestampTruncate(self, op: ops.TimestampTruncate, *, arg: Any, unit: Any) -> Any:
        return self.f.date_trunc(unit.name.lower(), arg)

    def visit_TimestampBucket(
        self, op: ops.TimestampBucket, *, arg: Any, interval: Any, offset: Any
    ) -> Any:
        origin = self.cast(sge.convert("1970-01-01 00:00:00"), dt.timestamp)
        return self.f.date_bin(interval, arg, origin if offset is None else origin + offset)

    # Texts

    def visit_RegexExtract(
        self, op: ops.RegexExtract, *, arg: Any, pattern: Any, index: Any
    ) -> Any:
        if not isinstance(op.index, ops.Literal):
            raise exc.UnsupportedOperationError(
                "the group of a pattern must be a number\n  remedy: write re_extract(pattern, 1)"
            )
        found = self.f.concat("(", pattern, ")")
        return self.if_(
            self.f.anon.regexp_like(arg, pattern), self._group(arg, found, op.index.value + 1), NULL
        )

    def _group(self, arg: Any, pattern: Any, number: int) -> Any:
        """The part of a text that is the group of this number in its first match."""
        whole = self.f.concat("(?s)^.*?", pattern, ".*$")
        return self.f.anon.regexp_replace(arg, whole, sge.convert(f"${{{number}}}"))

    def _part(self, arg: Any, pattern: str, number: int) -> Any:
        return self.f.anon.regexp_replace(
            arg, sge.convert(f"(?s)^{pattern}"), sge.convert(f"${{{number}}}")
        )

    def visit_ExtractProtocol(self, op: ops.ExtractProtocol, *, arg: Any) -> Any:
        return self._part(arg, _URL, 1)

    def visit_ExtractAuthority(self, op: ops.ExtractAuthority, *, arg: Any) -> Any:
        return self._part(arg, _URL, 2)

    def visit_ExtractPath(self, op: ops.ExtractPath, *, arg: Any) -> Any:
        return self._part(arg, _URL, 3)

    def visit_ExtractFragment(self, op: ops.ExtractFragment, *, arg: Any) -> Any:
        return self._part(arg, _URL, 5)

    def visit_ExtractUserInfo(self, op: ops.ExtractUserInfo, *, arg: Any) -> Any:
        return self._part(self._part(arg, _URL, 2), _AUTHORITY, 1)

    def visit_ExtractHost(self, op: ops.ExtractHost, *, arg: Any) -> Any:
        return self._part(self._part(arg, _URL, 2), _AUTHORITY, 2)

    def visit_ExtractQuery(self, op: ops.ExtractQuery, *, arg: Any, key: Any) -> Any:
        if key is not None:
            raise exc.UnsupportedOperationError(
                "a value of a query is not supported\n  remedy: re_extract it from url.query()"
            )
        return self._part(arg, _URL, 4)

    def visit_FindInSet(self, op: ops.FindInSet, *, needle: Any, values: Any) -> Any:
        """The place of a value, from 1; 0 where there is none."""
        places = [self.if_(value, place) for place, value in enumerate(values, 1)]
        return sge.Case(this=needle, ifs=places, default=sge.convert(0))

    # Lists and maps

    def visit_ArrayMap(
        self, op: ops.ArrayMap, *, arg: Any, body: Any, param: Any, index: Any
    ) -> Any:
        return self.f.anon.list_transform(arg, self._lambda(body, param, index))

    def visit_ArrayFilter(
        self, op: ops.ArrayFilter, *, arg: Any, body: Any, param: Any, index: Any
    ) -> Any:
        return self.f.anon.list_filter(arg, self._lambda(body, param, index))

    def _lambda(self, body: Any, *params: Any) -> Any:
        names = [sg.to_identifier(name) for name in params if name is not None]
        return sge.Lambda(this=body, expressions=names)

    def visit_ArraySlice(self, op: ops.ArraySlice, *, arg: Any, start: Any, stop: Any) -> Any:
        """Places from 0, or from the end; the end itself is left out."""
        first = sge.convert(1) if start is None else self.if_(start < 0, start, start + 1)
        if stop is None:
            last = self.cast(self.f.anon.array_length(arg), dt.int64)
        else:
            last = self.if_(stop < 0, stop - 1, stop)
        return self.f.anon.array_slice(arg, first, last)

    def visit_ArrayPosition(self, op: ops.ArrayPosition, *, arg: Any, other: Any) -> Any:
        place = self.cast(self.f.anon.array_position(arg, other), dt.int64)
        return self.f.coalesce(place, 0)

    def visit_IntegerRange(self, op: ops.IntegerRange, *, start: Any, stop: Any, step: Any) -> Any:
        """A range, which has no items if its step is nothing."""
        none = self.f.anon.range(start, start)
        return self.if_(step.eq(0), none, self.f.anon.range(start, stop, step))

    def visit_TimestampRange(
        self, op: ops.TimestampRange, *, start: Any, stop: Any, step: Any
    ) -> Any:
        if isinstance(op.step, ops.Literal) and not op.step.value:
            step = sge.Interval(this=sge.convert("1"), unit=sge.var("days"))
            return self.f.anon.range(start, start, step)
        return self.f.anon.range(start, stop, step)

    def visit_MapGet(self, op: ops.MapGet, *, arg: Any, key: Any, default: Any) -> Any:
        if op.dtype.is_null():
            return NULL
        found = self.f.anon.array_element(self.f.anon.map_extract(arg, key), 1)
        return self.f.coalesce(found, default)

    # Structs, groups, joins

    def visit_StructField(self, op: ops.StructField, *, arg: Any, field: str) -> Any:
        return self.f.anon.get_field(arg, sge.convert(field))

    def visit_Arbitrary(self, op: ops.Arbitrary, *, arg: Any, where: Any) -> Any:
        """The least value: it is the same in each run."""
        return self.agg.min(arg, where=where)

    def visit_GroupConcat(
        self, op: ops.GroupConcat, *, arg: Any, sep: Any, where: Any, order_by: Any
    ) -> Any:
        return self.agg.string_agg(arg, sep, where=where, order_by=order_by)

    def visit_Mode(self, op: ops.Mode, *, arg: Any, where: Any) -> Any:
        return self.agg.mode(arg, where=where)

    def visit_Kurtosis(self, op: ops.Kurtosis, *, arg: Any, where: Any, how: str) -> Any:
        return self.agg["kurtosis_pop" if how == "pop" else "kurtosis"](arg, where=where)

    def visit_Quantile(self, op: Any, *, arg: Any, quantile: Any, where: Any) -> Any:
        """Between two values if they are numbers, else one of them."""
        name = "quantile_cont" if op.arg.dtype.is_numeric() else "quantile_disc"
        return self.agg[name](arg, quantile, where=where)

    def visit_MultiQuantile(self, op: Any, *, arg: Any, quantile: Any, where: Any) -> Any:
        return self.visit_Quantile(op, arg=arg, quantile=quantile, where=where)

    def visit_ArrayCollect(
        self,
        op: ops.ArrayCollect,
        *,
        arg: Any,
        where: Any,
        order_by: Any,
        include_null: bool,
        distinct: bool,
    ) -> Any:
        if not include_null:
            known = arg.is_(sg.not_(NULL, copy=False))
            where = known if where is None else sge.And(this=known, expression=where)
        if distinct:
            arg = sge.Distinct(expressions=[arg])
        return self.agg.array_agg(arg, where=where, order_by=order_by)

    def visit_JoinLink(self, op: ops.JoinLink, *, how: str, table: Any, predicates: Any) -> Any:
        if how in ("asof", "positional", "any_left", "any_inner"):
            raise exc.UnsupportedOperationError(
                f"joins of the kind `{how}` are not supported\n  remedy: inner, left, right, outer,"
                " cross, semi or anti"
            )
        return super().visit_JoinLink(op, how=how, table=table, predicates=predicates)


compiler = EuphratesCompiler()
