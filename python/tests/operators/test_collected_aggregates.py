"""Aggregates of all values of a group, beyond memory and on several processes, beside DuckDB."""

from __future__ import annotations

import duckdb
import pyarrow as pa
import pytest

import euphrates as eu

VALUES = {
    "middle": "median(x)",
    "list": "array_agg(n order by n desc)",
    "text": "string_agg(t, '+' order by n)",
    "first": "first(n order by x, n)",
    "best": "arg_max(n, n)",
    "sum": "sum(distinct t_length)",
    "slope": "regr_slope(x, n)",
    "some": "count(n) filter (where x > 0.5)",
}
ROWS = 300_000


@pytest.fixture(scope="module")
def rows() -> pa.Table:
    return duckdb.sql(
        f"""
        select (hash(i) % 40000)::bigint as k, i as n, (hash(i + 1) % 1000) / 1000.0::double as x,
            (hash(i + 2) % 100)::varchar as t, length(t) as t_length
        from range({ROWS}) r (i)"""
    ).to_arrow_table()


@pytest.mark.parametrize(
    "options",
    [{}, {"memory": "64MiB"}, {"cluster": "processes:2"}],
    ids=["one", "spilled", "processes"],
)
def test_collected_values_are_those_of_duckdb(rows: pa.Table, options: dict[str, str]) -> None:
    found = eu.query(rows).group_by("k").agg(**VALUES).collect(progress=False, **options)
    found = pa.table(found).sort_by("k")
    selected = ", ".join(f'{call} as "{name}"' for name, call in VALUES.items())
    wanted = duckdb.sql(f"select k, {selected} from rows group by k order by k").to_arrow_table()
    assert found.num_rows == wanted.num_rows
    for name in VALUES:
        pairs = zip(found[name].to_pylist(), wanted[name].to_pylist(), strict=True)
        wrong = [(one, other) for one, other in pairs if one != pytest.approx(other, nan_ok=True)]
        # A slope of one value is null here, as in PostgreSQL.
        wrong = [(one, other) for one, other in wrong if not (one is None and other != other)]
        assert not wrong, (name, wrong[:3])


def test_group_beyond_memory_is_named() -> None:
    rows = eu.query(eu.generate("integers", rows=20_000_000))
    with pytest.raises(eu.ResourceError, match="`m` collects of a group exceed the memory"):
        rows.group_by().agg(m="median(n)").collect(progress=False, memory="64MiB")
