"""Delta tables on an object store, against a real server on loopback."""

from __future__ import annotations

import os

import pytest
from deltalake import DeltaTable, write_deltalake

import euphrates as eu
from lake_cases import SALES, rows_of
from s3_server import S3Server, s3_apart, s3_apart_session  # noqa: F401


def test_a_table_is_read_by_its_address(s3_apart: S3Server) -> None:  # noqa: F811
    for name, by in (("plain", None), ("parts", ["city"])):
        write_deltalake(s3_apart.url(name), SALES, partition_by=by)
        assert rows_of(eu.scan_delta(s3_apart.url(name)).to_pyarrow()) == rows_of(SALES)
        query = eu.sql(f"select n from 'delta://{s3_apart.url(name)}' where city = 'Kish'")
        assert query.to_pydict() == {"n": [2]}


def test_a_table_is_written_by_commits_of_one_file(s3_apart: S3Server) -> None:  # noqa: F811
    url = s3_apart.url("sales")
    eu.query(SALES).save_delta(url)
    eu.query(SALES).save_delta(url, mode="append")
    written = DeltaTable(url)
    assert written.version() == 1 and len(written.file_uris()) == 2
    assert written.to_pyarrow_table().num_rows == 2 * SALES.num_rows
    eu.query(SALES).filter("n > 2").save_delta(url, mode="overwrite")
    assert rows_of(eu.scan_delta(url).to_pyarrow()) == rows_of(SALES.slice(2))
    with pytest.raises(eu.UsageError, match="already"):
        eu.query(SALES).save_delta(url)


def test_a_run_that_fails_leaves_no_object(s3_apart: S3Server) -> None:  # noqa: F811
    url = s3_apart.url("sales")
    eu.query(SALES).save_delta(url)
    before = s3_apart.keys()
    with pytest.raises(eu.EuphratesError):
        eu.query(SALES).select("city", n="1 / (n - 2)").save_delta(url, mode="append")
    assert s3_apart.keys() == before and s3_apart.unfinished() == []
    for options in ({"partition_by": ["city"]}, {"file_bytes": 1 << 20}):
        with pytest.raises(eu.UsageError, match="object store"):
            eu.query(SALES).save_delta(s3_apart.url("other"), **options)  # type: ignore[arg-type]
    with pytest.raises(eu.UsageError, match="object stores"):
        eu.sort_delta(url, "n")
    assert s3_apart.keys() == before


def test_the_losing_writer_is_told(s3_apart: S3Server) -> None:  # noqa: F811
    url = s3_apart.url("sales")
    eu.query(SALES).save_delta(url)

    def interrupted(batch: eu.Batch) -> eu.Batch:
        if DeltaTable(url).version() == 0:
            write_deltalake(url, SALES, mode="append")
        return batch

    before = len(s3_apart.keys())
    with pytest.raises(eu.ConflictError):
        eu.query(SALES).then(
            eu.map(interrupted, schema={"city": "string", "n": "int64"})
        ).save_delta(url, mode="overwrite")
    assert len(s3_apart.keys()) == before + 2, "the other commit and its file"


def test_tables_have_storage_options(
    s3_apart: S3Server,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    url = s3_apart.url("sales")
    write_deltalake(url, SALES, partition_by=["city"])
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("LAKE_KEY", "test")
    options = {"endpoint": s3_apart.endpoint, "region": "us-east-1", "allow_http": "true"}
    options |= {"access_key_id": "env:LAKE_KEY", "secret_access_key": "env:LAKE_KEY"}
    table = eu.scan_delta(url, storage_options=options)
    assert rows_of(table.to_pyarrow()) == rows_of(SALES)
    table.save_delta(s3_apart.url("copy"), storage_options=options)
    copied = eu.scan_delta(s3_apart.url("copy"), storage_options=options).to_pyarrow()
    assert rows_of(copied) == rows_of(SALES)
    with pytest.raises(eu.UsageError, match="profile"):
        eu.scan_delta(url, storage_options={"profile": "lake"})
