"""Compares Euphrates with DuckDB, Polars and DataFusion across shapes of data.

    .venv/bin/python -m bench.shapes --list                     # the cells
    .venv/bin/python -m bench.shapes --quick                    # a sample of them, about an hour
    .venv/bin/python -m bench.shapes --only '/listed/' --keep   # fixed combinations
    .venv/bin/python -m bench.shapes --memory-fraction 0.25     # with a quarter of the data
    .venv/bin/python -m bench.shapes --rows-scale 0.00025 --repeats 1   # everything, of 1,000 rows
    .venv/bin/python -m bench.shapes.plot bench/results/2026-11-30-shapes.json
    .venv/bin/python -m pytest bench/shapes                     # the tests

A *cell* is one task on one generated table, file to file. Its name is `class/factor/variant`, like
`sort/key type/uint16`; the classes are sort, group, join and scan. All cells of a class differ from
its base cell in one factor, except those of three factors: `listed` are fixed combinations,
`sampled` are drawn from the cross product with a seed, and `rows` are steps of size, from which the
time per row and digit (`time / (n log n)`) is computed.

Every engine gets two threads, the same input in the page cache, and writes the same format with the
same compression. Each run is a process of its own. It measures its wall time from reading to
writing, without start, imports and the opening of a session, and its peak memory (VmHWM). Runs are
interleaved, and the order of engines rotates. The times of a cell are medians. A run ends after ten
times the fastest run of its cell so far, and at least a minute. An engine that fails, or takes
longer, is recorded as such and not run again in that cell.

The first output of each engine is compared with the result that DuckDB computes from the input in
another process: number of rows, a hash of every column and of the rows that does not depend on
their order, floating point aggregates within 1e-9, and for sorts the order of the keys. Values are
cast to the expected types first, since engines choose different types for sums and for text files.
A peer whose result differs is not counted as the fastest.

The ratio of a cell is the median of the fastest peer, divided by ours: more is better. Targets are
1.0 for sort and join, and 0.9 for group and scan.

With `--memory-fraction`, the budget of each run is that part of the table's bytes in memory, and at
least 32 MiB; cells that fit it are left out. DuckDB and DataFusion get the same limit and a folder
for temporary files. Polars knows no limit: a peer that takes more than one and a half of it, beyond
its memory before the run, is not counted as the fastest. Our peak is compared with the budget and a
tenth, if the budget is 128 MiB or more.

Tables are made by seed with numpy and pyarrow, in a folder that is removed (or kept: `--work`), and
deleted when the next cell does not need them. With outputs and scratch they take at most 12 GB.

`values.py` makes values of every type, and `tables.py` tables. `cells.py`, `listed.py` and
`sampled.py` say what is measured. `run.py` measures it with `engines`, `compare.py` checks results,
`summary.py` and `plot.py` show them.
"""
