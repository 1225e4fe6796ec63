"""A query over three tables."""

import euphrates as eu

print(
    eu.sql("""select land, sum(price * amount) as paid
    from 'orders.parquet' join 'items.parquet' using (order_id)
        join 'customers.parquet' using (customer)
    group by land order by paid desc""").to_pandas()
)
