"""Reads and writes an object store by options of the path; secrets are named, not written."""

import os

import euphrates as eu

lake = {
    "endpoint": os.environ["LAKE_ENDPOINT"],
    "region": "us-east-1",
    "allow_http": "true",
    "access_key_id": "env:LAKE_ID",
    "secret_access_key": "env:LAKE_KEY",
}
prices = eu.scan("s3://euphrates-test/prices.parquet", storage_options=lake)
prices.filter("price > 5").save("s3://euphrates-test/high.parquet", storage_options=lake)
