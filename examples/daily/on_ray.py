"""The latest row of each key, on the nodes of a Ray cluster."""

import euphrates as eu

with eu.Cluster.ray() as cluster:
    latest = eu.query("prices.parquet").latest("id", by="updated_at")
    latest.save("latest.parquet", cluster=cluster)
