"""The sorts of the papers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import euphrates as eu
from euphrates import sorts

ROWS = 400_000
WORKERS = 3
NAMES = [f"w{at}" for at in range(WORKERS)]
KEYS = [["key"], ["key desc"]]


@pytest.fixture(scope="module")
def cluster() -> Iterator[eu.Cluster]:
    with eu.Cluster.processes(WORKERS) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def parts(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Records in one file per worker."""
    folder = tmp_path_factory.mktemp("parts")
    files = [folder / f"{at}.parquet" for at in range(WORKERS)]
    for at, file in enumerate(files):
        flow = eu.Flow("parts")
        part = eu.generate("records", rows=ROWS // WORKERS, first=at * (ROWS // WORKERS))
        flow.chain(part, eu.save(str(file)))
        flow.go(progress=False)
    return files


def ours(parts: list[Path], by: list[str]) -> pa.Table:
    flow = eu.Flow("ours")
    flow.chain(eu.scan([str(part) for part in parts]), eu.sort(by), eu.collect())
    return pa.table(flow.go(progress=False).collected())


def read(made: list[Path]) -> pa.Table:
    return pa.concat_tables([pq.read_table(file) for file in made])


@pytest.mark.parametrize("by", KEYS)
@pytest.mark.parametrize("variant", [sorts.now, sorts.bucket])
def test_bucket_sort_output_is_sorted(
    variant: Callable[..., sorts.Variant], by: list[str], parts: list[Path], tmp_path: Path
) -> None:
    made = [tmp_path / f"{at}.parquet" for at in range(WORKERS)]
    source = eu.scan([str(part) for part in parts])
    sort = variant(source, lambda at: eu.save(str(made[at])), by, NAMES)
    sort.go(workers=WORKERS, progress=False)
    assert read(made).equals(ours(parts, by))
    rows = [pq.read_metadata(file).num_rows for file in made]
    assert all(abs(count - ROWS / WORKERS) < ROWS / 50 for count in rows), rows


def test_bucket_sort_across_processes(
    cluster: eu.Cluster, parts: list[Path], tmp_path: Path
) -> None:
    made = [tmp_path / f"{at}.parquet" for at in range(WORKERS)]
    source = eu.scan([str(part) for part in parts])
    sort = sorts.now(source, lambda at: eu.save(str(made[at])), ["key"], NAMES)
    sort.go(cluster=cluster, progress=False)
    assert read(made).equals(ours(parts, ["key"]))


def test_single_bucket_of_all_records_is_sorted(tmp_path: Path) -> None:
    """The effect of skewed keys on fixed ranges."""
    made = [tmp_path / f"{at}.parquet" for at in range(WORKERS)]
    source = eu.generate("integers", rows=ROWS)
    sort = sorts.bucket(source, lambda at: eu.save(str(made[at])), ["n desc"], NAMES)
    sort.go(workers=WORKERS, progress=False)
    rows = [pq.read_metadata(file).num_rows for file in made]
    assert sorted(rows) == [0, 0, ROWS]
    assert read(made).column("n").to_pylist() == list(range(ROWS - 1, -1, -1))


@pytest.mark.parametrize("by", KEYS)
@pytest.mark.parametrize("count", [1, 2, 3])
def test_merge_tree_output_is_sorted(
    count: int, by: list[str], parts: list[Path], tmp_path: Path
) -> None:
    made = tmp_path / "sorted.parquet"
    sort = sorts.merge_tree(
        lambda at: eu.scan(str(parts[at])), eu.save(str(made)), by, NAMES[:count]
    )
    sort.go(workers=count, progress=False)
    assert pq.read_table(made).equals(ours(parts[:count], by))


def test_merge_tree_across_processes_beyond_memory(cluster: eu.Cluster, tmp_path: Path) -> None:
    rows = 1_200_000
    made = tmp_path / "sorted.parquet"
    sort = sorts.merge_tree(
        lambda at: eu.generate("records", rows=rows, first=at * rows),
        eu.save(str(made)),
        ["key"],
        NAMES,
        memory="96MiB",
    )
    report = sort.go(cluster=cluster, progress=False)
    spilled = [one.spilled_bytes for one in report.modules if one.module == "partition"]
    assert len(spilled) == WORKERS
    assert all(bytes_ > 20e6 for bytes_ in spilled), spilled
    merged = [one for one in report.modules if one.module == "merge"]
    assert max(one.rows_out for one in merged) == WORKERS * rows
    keys = pq.read_table(made, columns=["key"])["key"].cast(pa.binary())
    ordered = pc.all(pc.less_equal(keys.combine_chunks()[:-1], keys.combine_chunks()[1:]))
    assert ordered.as_py()


def test_merge_names_unsorted_streams(tmp_path: Path) -> None:
    flow = eu.Flow("wrong")
    merge = flow.place(eu.merge(["n desc"]))
    for at in range(2):
        source = flow.place(eu.generate("integers", rows=ROWS, order=True), count=1)
        flow.attach(source, merge, input=at)
    flow.attach(merge, flow.place(eu.collect()))
    with pytest.raises(eu.FlowError, match="input 0 is not sorted by n desc: row 1 belongs before"):
        flow.go(progress=False)


def test_sort_without_worker_names_is_rejected() -> None:
    for wrong in ([], "w0"):
        with pytest.raises(eu.UsageError, match="no workers are named"):
            sorts.merge_tree(lambda at: eu.generate("integers", rows=1), eu.count(), ["n"], wrong)


def test_disk_count_must_match_sort_workers() -> None:
    with pytest.raises(eu.UsageError, match="3 workers sort, and 1 have disks"):
        sorts.merge_tree(
            lambda at: eu.generate("integers", rows=1), eu.count(), ["n"], NAMES, disks=["w0"]
        )
