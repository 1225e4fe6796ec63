"""A folder of messy CSV becomes typed, deduplicated, sorted Parquet in folders by land."""

import euphrates as eu

types = {"id": "int64", "day": "date", "price": "float64"}
rows = eu.scan("in/*.csv", types=types, on_error="skip", rejects="bad.parquet")
rows.distinct().sort("day", "id").save("clean/", partition_by="land", file_bytes=64 << 20)
