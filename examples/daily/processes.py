"""The same query on four processes; `eu.Cluster.ray()` runs it on Ray."""

import euphrates as eu

if __name__ == "__main__":
    with eu.Cluster.processes(4) as cluster:
        latest = eu.query("prices.parquet").latest("id", by="updated_at")
        latest.save("latest.parquet", cluster=cluster)
