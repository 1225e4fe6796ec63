"""Joins tables that may be larger than memory, and gives the 20 best customers to pandas."""

import euphrates as eu

rows = eu.query("orders.parquet").join("items.parquet", "order_id")
paid = rows.group_by("customer").agg(paid="sum(price * amount)")
print(paid.top(20, by="paid").to_pandas(memory="1GiB"))
