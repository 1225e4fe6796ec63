"""Files on S3, against a real server on loopback."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import euphrates as eu
from s3_server import S3Server, s3, s3_session  # noqa: F401


def sort(source: str, target: str, **options: Any) -> None:
    flow = eu.Flow("sort")
    flow.chain(eu.scan(source), eu.sort(["n"]), eu.save(target, **options))
    flow.go()


@pytest.mark.parametrize("name", ["x.parquet", "x.csv", "x.jsonl", "x.arrow"])
def test_sort_roundtrips_through_s3(s3: S3Server, name: str) -> None:  # noqa: F811
    make = eu.Flow("make")
    make.chain(eu.generate("integers", rows=50_000), eu.save(s3.url(name)))
    make.go()
    sort(s3.url(name), s3.url(f"sorted/{name}"))
    assert s3.keys() == sorted([f"sorted/{name}", name])
    read = eu.Flow("read")
    read.chain(eu.scan(s3.url(f"sorted/{name}"), order=True), eu.collect())
    assert read.go().collected().to_pydict()["n"] == list(range(50_000))


def test_glob_below_a_prefix_is_scanned(s3: S3Server) -> None:  # noqa: F811
    for part in range(3):
        sink = pa.BufferOutputStream()
        pq.write_table(pa.table({"n": [part]}), sink)
        s3.put(f"in/{part}.parquet", sink.getvalue().to_pybytes())
    sort(s3.url("in/*.parquet"), s3.url("out.parquet"))
    assert pq.read_table(pa.BufferReader(s3.get("out.parquet")))["n"].to_pylist() == [0, 1, 2]


def test_large_upload_is_multipart_and_atomic(s3: S3Server) -> None:  # noqa: F811
    flow = eu.Flow("large")
    flow.chain(eu.generate("records", rows=400_000), eu.save(s3.url("large.dat")))
    flow.go()
    assert len(s3.get("large.dat")) == 40_000_000
    assert s3.unfinished() == []


def test_failed_flow_publishes_no_object(s3: S3Server) -> None:  # noqa: F811
    def fails(batch: eu.Batch) -> eu.Batch:
        if batch.to_pydict()["n"][-1] > 500_000:
            raise ValueError("no luck")
        return batch

    flow = eu.Flow("fails")
    schema = pa.schema({"n": pa.int64()})
    flow.chain(
        eu.generate("integers", rows=3_000_000),
        eu.map(fails, schema=schema),
        eu.save(s3.url("x.csv")),
    )
    with pytest.raises(eu.FlowError, match="no luck"):
        flow.go()
    assert s3.keys() == [] and s3.unfinished() == []


def test_existing_object_is_rejected(s3: S3Server) -> None:  # noqa: F811
    s3.put("x.csv", b"n\n1\n")
    with pytest.raises(eu.UsageError, match="exists already"):
        sort(s3.url("x.csv"), s3.url("x.csv"))
    sort(s3.url("x.csv"), s3.url("x.csv"), overwrite=True)
    assert s3.get("x.csv") == b"n\n1\n"


def test_missing_object_is_named(s3: S3Server) -> None:  # noqa: F811
    with pytest.raises(eu.UsageError, match=r"missing\.parquet"):
        sort(s3.url("missing.parquet"), s3.url("out.parquet"))


def test_rewritten_object_is_detected_as_changed(
    s3: S3Server,  # noqa: F811
    tmp_path: Path,
) -> None:
    flow = eu.Flow("copy")
    flow.chain(eu.scan(s3.url("in.csv")), eu.save(tmp_path / "out.parquet"))
    s3.put("in.csv", b"n\n1\n")
    flow.go(resume=True)
    assert flow.go(resume=True).made_before == ["save_1"]
    s3.put("in.csv", b"n\n2\n")
    with pytest.raises(eu.UsageError, match="scan_1: what it reads has changed"):
        flow.go(resume=True)
