"""Recursive queries: their bounds, and where their tables come from."""

from __future__ import annotations

import pyarrow as pa
import pytest

import euphrates as eu


def test_rounds_have_a_bound() -> None:
    query = eu.sql("with recursive t(n) as (select 1 union all select n from t) select n from t")
    flow = query.flow
    [node] = [node for node in flow._document["modules"] if node["module"] == "recurse"]
    node["config"]["rounds_max"] = 5
    with pytest.raises(eu.FlowError, match=r"does not end in 5 rounds(.|\n)*condition"):
        eu.Query(flow).collect()


def test_rows_of_a_round_have_a_bound() -> None:
    query = """
        with recursive t(n, s) as (
            select 1, repeat('x', 1000) union all select n, s from t, range(0, 20) r
        ) select count(*) from t
    """
    with pytest.raises(eu.ResourceError, match="memory"):
        eu.sql(query).collect(memory="64MiB")


def test_a_failure_in_a_round_is_that_of_the_query() -> None:
    query = "with recursive t(n) as (select 3 union all select n - 1 from t where 6 / n > 0) from t"
    with pytest.raises(eu.FlowError, match=r"(?i)divi"):
        eu.sql(query).collect()


def test_tables_are_read_once() -> None:
    edges = eu.query({"a": [1, 2, 3, 4], "b": [2, 3, 4, 1]})
    once = pa.RecordBatchReader.from_stream(edges)
    reached = eu.sql(
        """
        with recursive r(n) as (select 1 union select e.b from r join edges e on e.a = r.n)
        select n from r order by n
        """,
        edges=once,
    )
    assert reached.to_pydict() == {"n": [1, 2, 3, 4]}
