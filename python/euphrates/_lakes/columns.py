"""Columns of lake tables: types in words of SQL, and projections to what a table declares."""

from __future__ import annotations

from typing import Any

from ..errors import UsageError


def quoted(name: str) -> str:
    """A column's name as an expression."""
    return '"' + name.replace('"', '""') + '"'


def plain(kind: Any) -> Any:
    """The type without its layout: one type for texts, one for bytes, one for lists. UUIDs are read
    as texts.
    """
    import pyarrow as pa

    types = pa.types
    if types.is_dictionary(kind):
        return plain(kind.value_type)
    is_uuid = getattr(kind, "extension_name", None) == "arrow.uuid"
    if is_uuid or types.is_large_string(kind) or types.is_string_view(kind):
        return pa.string()
    if types.is_large_binary(kind) or types.is_binary_view(kind):
        return pa.binary()
    if types.is_map(kind):
        return pa.map_(plain(kind.key_type), plain(kind.item_type))
    if hasattr(kind, "value_type") and types.is_nested(kind):
        return pa.list_(pa.field("item", plain(kind.value_type)))
    if types.is_struct(kind):
        return pa.struct([pa.field(one.name, plain(one.type)) for one in kind])
    return kind


def reads_as(found: Any, declared: Any) -> bool:
    """Whether a column that a scan finds can stand for a declared one as it is. Units of timestamps
    may differ, since a cast would keep filters from the scan.
    """
    import pyarrow as pa

    found, declared = plain(found), plain(declared)
    if pa.types.is_timestamp(found) and pa.types.is_timestamp(declared):
        return (found.tz is None) == (declared.tz is None)
    return bool(found == declared)


def cast(value: str, kind: Any, place: str) -> str:
    """An expression that converts a value to a type."""
    named = words(kind, place).replace("'", "''")
    return f"arrow_cast({value}, '{named}')"


def words(kind: Any, place: str) -> str:
    """The name of a type, as `arrow_cast` and `hive_types` take it."""
    import pyarrow as pa

    kind = plain(kind)
    if pa.types.is_list(kind):
        return f"List({words(kind.value_type, place)})"
    if pa.types.is_map(kind):
        parts = f'"key": {words(kind.key_type, place)}, "value": {words(kind.item_type, place)}'
        return f'Map("entries": non-null Struct({parts}), unsorted)'
    if pa.types.is_struct(kind):
        return (
            f"Struct({', '.join(f'{quoted(one.name)}: {words(one.type, place)}' for one in kind)})"
        )
    if pa.types.is_decimal(kind):
        return f"Decimal128({kind.precision}, {kind.scale})"
    if pa.types.is_timestamp(kind):
        zone = "None" if kind.tz is None else 'Some("UTC")'
        units = {"s": "Second", "ms": "Millisecond", "us": "Microsecond", "ns": "Nanosecond"}
        return f"Timestamp({units[kind.unit]}, {zone})"
    known = {
        pa.bool_(): "Boolean",
        pa.int8(): "Int8",
        pa.int16(): "Int16",
        pa.int32(): "Int32",
        pa.int64(): "Int64",
        pa.float32(): "Float32",
        pa.float64(): "Float64",
        pa.string(): "Utf8",
        pa.binary(): "Binary",
        pa.date32(): "Date32",
    }
    if kind in known:
        return known[kind]
    raise UsageError(
        f"a column of type {kind} cannot be made of what the files have",
        place=place,
        remedy="rewrite the files with the engine that wrote the table",
    )


def stored_type(kind: Any, place: str, *, has_small_integers: bool) -> Any:
    """The type in which a lake table keeps a column; fails if it has none. Delta has integers of 8
    and 16 bits, Iceberg has not.
    """
    import pyarrow as pa

    types, kind = pa.types, plain(kind)
    if types.is_uint64(kind):
        return pa.decimal128(20, 0)
    if types.is_unsigned_integer(kind):
        kind = {8: pa.int16(), 16: pa.int32(), 32: pa.int64()}[kind.bit_width]
    if types.is_float16(kind):
        return pa.float32()
    if types.is_date64(kind):
        return pa.date32()
    if types.is_timestamp(kind):
        return pa.timestamp("us", "UTC" if kind.tz else None)
    if types.is_decimal(kind) and kind.precision <= 38:
        return pa.decimal128(kind.precision, kind.scale)
    if types.is_fixed_size_binary(kind):
        return pa.binary()
    if (types.is_int8(kind) or types.is_int16(kind)) and not has_small_integers:
        return pa.int32()
    simple = (types.is_boolean, types.is_signed_integer, types.is_floating, types.is_string)
    if any(is_one(kind) for is_one in (*simple, types.is_binary, types.is_date32)):
        return kind
    if types.is_nested(kind) and all(
        plain(part) == stored_type(part, place, has_small_integers=has_small_integers)
        for part in _parts(kind)
    ):
        return kind
    raise UsageError(
        f"lake tables have no type for {kind}", place=place, remedy="cast the column before"
    )


def _parts(kind: Any) -> list[Any]:
    import pyarrow as pa

    if pa.types.is_map(kind):
        return [kind.key_type, kind.item_type]
    if pa.types.is_struct(kind):
        return [one.type for one in kind]
    return [kind.value_type]


def widens(given: Any, to: Any) -> bool:
    """Whether each value of a type is one of another."""
    import pyarrow as pa

    types = pa.types
    if types.is_signed_integer(given):
        if types.is_signed_integer(to):
            return bool(given.bit_width <= to.bit_width)
        if types.is_decimal(to):
            digits = {8: 3, 16: 5, 32: 10, 64: 19}[given.bit_width]
            return bool(to.precision - to.scale >= digits)
        return bool(types.is_float64(to) and given.bit_width <= 32)
    if types.is_float32(given):
        return bool(types.is_float64(to))
    if types.is_decimal(given) and types.is_decimal(to):
        wider = to.precision - to.scale >= given.precision - given.scale
        return bool(wider and to.scale >= given.scale)
    return False


def fitted(given: Any, table: Any, place: str, *, has_small_integers: bool = True) -> list[str]:
    """Expressions of the columns that rows of a schema have in a table, in the table's order; those
    that the rows lack are left out. Fails if a type does not fit.
    """
    import pyarrow as pa

    expressions = []
    for field in table:
        at = given.get_field_index(field.name)
        if at < 0:
            continue
        found = given.field(at).type
        where = f"{place}: column {field.name}"
        stored = stored_type(found, where, has_small_integers=has_small_integers)
        wanted = plain(field.type)
        if pa.types.is_timestamp(wanted) and pa.types.is_timestamp(stored):
            fits = (wanted.tz is None) == (stored.tz is None)
        else:
            fits = bool(stored == wanted) or widens(stored, wanted)
        if not fits:
            raise UsageError(
                f"the rows have {found}, and the table has {wanted}",
                place=where,
                remedy="cast the column before",
            )
        name = quoted(field.name)
        same = plain(found) == wanted
        expressions.append(name if same else f"{cast(name, wanted, where)} as {name}")
    return expressions
