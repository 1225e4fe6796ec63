"""Reads and writes an object store at an endpoint of its own: AWS_ENDPOINT_URL, and keys."""

import euphrates as eu

high = eu.query("s3://euphrates-test/prices.parquet").filter("price > 5")
high.save("s3://euphrates-test/high.parquet")
