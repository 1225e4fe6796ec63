"""Iterates over the same rows in two epochs, while they are read."""

import euphrates as eu

rows = eu.query("texts.parquet").filter("length(text) > 3")
for epoch in range(2):
    for batch in rows:
        print(epoch, batch.num_rows)
