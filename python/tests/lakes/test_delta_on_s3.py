"""Delta tables on an object store, against a real server on loopback."""

from __future__ import annotations

import pytest
from deltalake import write_deltalake

import euphrates as eu
from lake_cases import SALES, rows_of
from s3_server import S3Server, s3, s3_session  # noqa: F401


def test_a_table_is_read_by_its_address(s3: S3Server) -> None:  # noqa: F811
    for name, by in (("plain", None), ("parts", ["city"])):
        write_deltalake(s3.url(name), SALES, partition_by=by)
        assert rows_of(eu.scan_delta(s3.url(name)).to_pyarrow()) == rows_of(SALES)
        query = eu.sql(f"select n from 'delta://{s3.url(name)}' where city = 'Kish'")
        assert query.to_pydict() == {"n": [2]}
    with pytest.raises(eu.UsageError, match="object stores"):
        eu.query(SALES).save_delta(s3.url("plain"), mode="append")
    with pytest.raises(eu.UsageError, match="object stores"):
        eu.sort_delta(s3.url("plain"), "n")
