"""Keeps the latest row of each key."""

import euphrates as eu

eu.query("prices.parquet").latest("id", by="updated_at").save("latest.parquet")
