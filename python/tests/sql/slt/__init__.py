"""Makes the files of `crates/cli/tests/slt`: queries, with the results of DuckDB.

`cd python/tests/sql && python -m slt` writes the files of the matrices (`matrix_*.py`), and the
results below the queries of all files, those written by hand too.
"""
