"""Memory that workers lend: spilled bytes of a flow go to other machines, and come back right."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest

import euphrates as eu
from cluster_harness import COMMAND, new_token, wait_for
from lenders import Lenders, lenders, lent_bytes

ROWS = 3_000_000
MEMORY = 32 << 20
BOTH = {"w0": "256MB", "w1": "256MB"}


SORTED_ROWS = 2 * ROWS
"""Each of two workers sorts 24 MB, with 16 MiB."""


def sorting(output: Path, rows: int = SORTED_ROWS) -> eu.Flow:
    flow = eu.Flow("sorting")
    flow.chain(eu.generate("integers", rows=rows), eu.sort(["n desc"]), eu.save(str(output)))
    return flow


def expect_sorted(output: Path, rows: int = SORTED_ROWS) -> None:
    expected = pl.int_range(rows - 1, -1, -1, eager=True).to_arrow()
    assert pq.read_table(output)["n"].combine_chunks() == expected


def spilled(report: eu.Report) -> int:
    return sum(module.spilled_bytes for module in report.modules)


def run(at: Lenders, flow: eu.Flow, **options: Any) -> eu.Report:
    return flow.go(cluster=at.cluster, memory=MEMORY, progress=False, **options)


def expect_nothing_held(at: Lenders) -> None:
    """What a flow has spilled is freed when the flow ends."""
    for name in at.programs:
        wait_for(lambda name=name: at.held_bytes(name) == 0, f"the memory of {name} is free")


def test_sort_spills_to_the_memory_of_its_peers(tmp_path: Path) -> None:
    with lenders(tmp_path, BOTH) as at:
        output = tmp_path / "n.parquet"
        report = run(at, sorting(output))
        expect_sorted(output)
        assert 0 < lent_bytes(report) <= 1.05 * spilled(report)
        assert report.lent_bytes == int(lent_bytes(report))
        assert [worker.lent_bytes for worker in at.cluster.workers] == [256_000_000] * 2
        expect_nothing_held(at)


def test_groups_beyond_memory_spill_to_peers(tmp_path: Path) -> None:
    with lenders(tmp_path, BOTH) as at:
        flow = eu.Flow("groups")
        flow.chain(
            eu.generate("integers", rows=ROWS),
            eu.project(["(n * 7919) % 1500007 as k", "n as v"]),
            eu.aggregate(by=["k"], values={"s": "sum(v)"}),
            eu.aggregate(by=[], values={"groups": "count(*)", "all": "sum(s)"}),
            eu.collect(),
        )
        report = run(at, flow)
        (row,) = report.collected().to_pylist()
        assert row == {"groups": 1_500_007, "all": ROWS * (ROWS - 1) // 2}
        assert lent_bytes(report) > 0
        expect_nothing_held(at)


def test_join_beyond_memory_spills_to_peers(tmp_path: Path) -> None:
    with lenders(tmp_path, BOTH) as at:
        flow = eu.Flow("join")
        join = flow.place(eu.join(["k"]))
        sides = {"left": ["n as k", "n * 3 as a"], "right": ["n * 2 as k", "n as b"]}
        for side, columns in sides.items():
            rows = flow.chain(eu.generate("integers", rows=ROWS), eu.project(columns))
            flow.attach(rows, join, input=side)
        sums = eu.aggregate(by=[], values={"rows": "count(*)", "a": "sum(a)", "b": "sum(b)"})
        flow.chain(join, sums, eu.collect())
        report = run(at, flow)
        (row,) = report.collected().to_pylist()
        half = ROWS // 2
        both = half * (half - 1) // 2
        assert row == {"rows": half, "a": 6 * both, "b": both}
        assert lent_bytes(report) > 0
        expect_nothing_held(at)


def test_what_exceeds_the_lent_memory_goes_to_disks(tmp_path: Path) -> None:
    with lenders(tmp_path, {"w0": "6MB", "w1": "6MB"}) as at:
        output = tmp_path / "n.parquet"
        report = run(at, sorting(output))
        expect_sorted(output)
        assert lent_bytes(report) < spilled(report) / 2
        assert not [loss for loss in report.losses if "left out" in loss], "full is no failure"
        expect_nothing_held(at)


def test_workers_of_one_machine_do_not_borrow_from_each_other(tmp_path: Path) -> None:
    with lenders(tmp_path, BOTH, on_one_host=True) as at:
        output = tmp_path / "n.parquet"
        report = run(at, sorting(output))
        expect_sorted(output)
        assert spilled(report) > 0
        assert lent_bytes(report) == 0


def test_flow_is_right_when_a_lender_is_killed(tmp_path: Path) -> None:
    with lenders(tmp_path, {"w0": None, "w1": "256MB", "w2": "256MB"}) as at:
        output = tmp_path / "n.parquet"
        flow = eu.Flow("sorting")
        modules = [eu.generate("integers", rows=2 * ROWS), eu.sort(["n desc"])]
        placed = [flow.place(module, workers=["w0"], count=1) for module in modules]
        flow.chain(*placed, eu.save(str(output)))
        running = flow.start(cluster=at.cluster, memory=MEMORY)
        wait_for(lambda: at.held_bytes("w1") > 0, "w0 has spilled to w1")
        at.kill("w1")
        report = running.finish()
        expect_sorted(output, 2 * ROWS)
        assert any("w1 was lost" in loss for loss in report.losses), report.losses
        del at.programs["w1"]
        expect_nothing_held(at)


def test_borrower_that_is_killed_leaves_nothing_at_its_lender(tmp_path: Path) -> None:
    with lenders(tmp_path, {"w0": None, "w1": "256MB"}) as at:
        flow = eu.Flow("sorting")
        modules = [eu.generate("integers", rows=20 * ROWS), eu.sort(["n desc"]), eu.count()]
        placed = [flow.place(module, workers=["w0"], count=1) for module in modules]
        flow.chain(*placed, eu.collect())
        running = flow.start(cluster=at.cluster, memory=MEMORY)
        wait_for(lambda: at.held_bytes("w1") > 0, "w0 has spilled to w1")
        at.kill("w0")
        with pytest.raises(eu.EuphratesError):
            running.finish()
        del at.programs["w0"]
        expect_nothing_held(at)


@pytest.mark.parametrize(
    ("size", "told"),
    [
        ("-5", "no option -5"),
        ("12 apples", "12 apples"),
        ("1000", "too few to lend"),
        ("1000TiB", "are to be lent, but this machine has"),
    ],
)
def test_sizes_that_cannot_be_lent_are_refused(tmp_path: Path, size: str, told: str) -> None:
    token = new_token(tmp_path)
    listening = ["--listen", f"unix:{tmp_path}/w", "--token-file", str(token)]
    command = [*COMMAND, "worker", *listening, "--lend-memory", size]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr and "panicked" not in done.stderr
