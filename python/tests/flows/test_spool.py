"""Rows that several modules read, each at its own pace."""

from __future__ import annotations

import pytest

import euphrates as eu

ROWS = 3_000_000


def joined_with_itself(build: str) -> eu.Flow:
    """A join of both outputs of a spool, which reads one of them to its end first."""
    flow = eu.Flow("twice")
    spool = flow.chain(eu.generate("integers", rows=ROWS), eu.spool())
    join = flow.place(eu.join("n", build=build))
    _ = spool >> join["left"], spool >> join["right"]
    flow.chain(join, eu.aggregate([], values={"rows": "count()", "sum": "sum(n)"}), eu.collect())
    return flow


@pytest.mark.parametrize("build", ["left", "right"])
def test_both_sides_of_a_join_come_from_one_spool(build: str) -> None:
    rows = joined_with_itself(build).go(memory="1GiB").collected().to_pydict()
    assert rows == {"rows": [ROWS], "sum": [ROWS * (ROWS - 1) // 2]}


def test_rows_beyond_memory_go_to_scratch() -> None:
    report = joined_with_itself("right").go(memory="64MiB", cores=1)
    assert report.collected().to_pydict()["rows"] == [ROWS]
    assert sum(one.spilled_bytes for one in report.modules if one.module == "spool") > 0


def test_workers_share_a_spool() -> None:
    with eu.Cluster.processes(2) as cluster:
        report = joined_with_itself("right").go(cluster=cluster)
    assert report.collected().to_pydict()["rows"] == [ROWS]


def test_an_output_that_has_enough_leaves_the_others_all_rows() -> None:
    flow = eu.Flow()
    spool = flow.chain(eu.generate("integers", rows=ROWS), eu.spool())
    few = flow.chain(spool, eu.limit(3), eu.collect())
    all_rows = flow.chain(spool, eu.count(), eu.collect())
    report = flow.go()
    assert report.collected(few).num_rows == 3
    assert report.collected(all_rows).to_pydict() == {"count": [ROWS]}


def test_an_error_behind_a_spool_ends_the_flow() -> None:
    flow = eu.Flow()
    spool = flow.chain(eu.generate("integers", rows=ROWS), eu.spool())
    flow.chain(spool, eu.project("1 / (n - 2000000) as q"), eu.count(), eu.collect())
    flow.chain(spool, eu.sort("n desc"), eu.collect())
    with pytest.raises(eu.FlowError, match="Divide by zero"):
        flow.go()


def test_a_table_expression_that_is_used_twice_is_computed_once() -> None:
    numbers = eu.query(eu.generate("integers", rows=10_000))
    rows = numbers.sql(
        "with r as (select n % 10 as k, sum(n) as s from self group by 1)"
        " select k from r where s = (select max(s) from r)"
    )
    modules = [node["module"] for node in rows.flow._document["modules"]]
    assert modules.count("generate") == 1 and modules.count("spool") == 1
    assert rows.to_pydict() == {"k": [9]}
    part = "(select max(random()) as r from self)"
    apart = numbers.sql(f"select * from {part} a, {part} b")
    assert all(node["module"] != "spool" for node in apart.flow._document["modules"])


def test_tests_of_subqueries_do_not_double_the_flow() -> None:
    people = eu.query({"id": [1, 2, 3], "age": [10, 20, 30]})
    test = "age > all (select x.age from self x where x.id < t.id)"
    sizes = []
    for count in (2, 4):
        tests = ", ".join(f"{test} as t{number}" for number in range(count))
        rows = people.sql(f"select id, {tests} from self t")
        sizes.append(len(rows.flow._document["modules"]))
    assert sizes[1] < 2.5 * sizes[0], sizes
