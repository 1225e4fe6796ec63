"""A Python function over batches: its input and output are Arrow."""

import pyarrow as pa
import pyarrow.compute as pc

import euphrates as eu


def squares(batch: eu.Batch) -> pa.RecordBatch:
    n = pa.record_batch(batch).column("n")
    return pa.record_batch({"n": n, "square": pc.multiply(n, n)})


flow = eu.Flow("squares")
flow.chain(eu.generate("integers", rows=100_000), eu.map(squares), eu.collect())

if __name__ == "__main__":  # skipped when `euphrates run` or `check` reads this file
    table = flow.go().collected().to_pyarrow()
    print(table.num_rows, pc.max(table["square"]).as_py())
