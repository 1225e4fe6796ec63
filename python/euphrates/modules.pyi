# Derived from the modules by `make derive`; not to be edited.
from collections.abc import Callable, Collection, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, TypeAlias

from ._config import Gathered, Var

SchemaLike: TypeAlias = Any
"""A schema that speaks Arrow, or types by name like `{"id": "int64"}`."""

class ModuleCall:
    """A module with its configuration, to be placed in a flow.

    >>> sort = eu.sort(["price desc"])
    >>> sort
    <module sort, by=['price desc']>
    >>> sort.name, sort.config
    ('sort', {'by': ['price desc']})
    """

    name: str
    config: dict[str, Any]
    gathered: Gathered
    def __init__(
        self, name: str, config: dict[str, Any], gathered: Gathered | None = None
    ) -> None: ...

SPECS: dict[str, dict[str, Any]]

def module(name: str, config: dict[str, Any] | None = None) -> ModuleCall:
    """Any module by name, with its configuration as in a flow document.

    It also covers modules without a function in this package, for example of a newer version.

    >>> limit = eu.module("limit", {"rows": 3})
    >>> limit
    <module limit, rows=3>
    >>> flow = eu.Flow()
    >>> _ = flow.chain(eu.generate("integers", rows=9), limit, eu.collect())
    >>> flow.go().collected().num_rows
    3
    """

def configures(
    name: str, *, lists: Collection[str] = (), data: Collection[str] = ()
) -> Callable[[Callable[..., Any]], Callable[..., ModuleCall]]: ...

def aggregate(
    by: Sequence[str | PathLike[str]] | Var,
    *,
    values: Mapping[str, str | PathLike[str]] | Var = {},
) -> ModuleCall:
    """Groups its input by columns, and computes values of each group.

    `values` says what: `{"total": "sum(price)", "rows": "count()"}`. There are `count`,
    `count(distinct ...)`, `sum`, `min`, `max` and `avg`, of columns or SQL expressions, and
    expressions over them: `max(a) - min(a)`. Nulls are skipped, but are a group of their own
    among keys, as are NaN; zeros of either sign are one. Of no values, a count is 0 and all
    else null. Sums of integers are 64 bits wide, of decimals 38 digits, and one that is larger
    is an error. With no keys one row comes out. A `pre_aggregate` is placed before it, which
    groups where the records are; what does not fit the memory goes to scratch. The output has
    no order.

    Options:

    by
        The columns whose values make a group. With none, all rows are one.
    values
        What comes out beside them: names, and what stands under each: `count()`, or `count`,
        `count(distinct ...)`, `sum`, `min`, `max` or `avg` of a column or an SQL expression; or
        an SQL expression over these and the columns of `by`, like `max(a) - min(a)`.

    Example:

    >>> orders = eu.from_arrow({"city": ["Ur", "Uruk", "Ur"], "price": [2, 3, 5]})
    >>> totals = eu.aggregate("city", values={"total": "sum(price)", "orders": "count()"})
    >>> flow = eu.Flow()
    >>> _ = flow.chain(orders, totals, eu.sort("city"), eu.collect())
    >>> flow.go().collected().to_pydict()
    {'city': ['Ur', 'Uruk'], 'total': [7, 3], 'orders': [2, 1]}
    """

def collect() -> ModuleCall:
    """Keeps the rows in memory, for the program that started the flow.

    `report.collected()` gives them to anything that reads Arrow, without copying. The order of
    a stream is kept.

    Example:

    >>> flow = eu.Flow()
    >>> kept = flow.chain(eu.from_arrow({"city": ["Ur", "Uruk"]}), eu.collect())
    >>> flow.go().collected(kept).to_pydict()
    {'city': ['Ur', 'Uruk']}
    """

def copy_in(
    format: str | PathLike[str] | Var,
    *,
    path: str | PathLike[str] | None | Var = None,
    columns: Mapping[str, Any] | None | Var = None,
    types: Mapping[str, str | PathLike[str]] | None | Var = None,
    order: bool | Var = True,
    delimiter: str | PathLike[str] | None | Var = None,
    header: bool | None | Var = None,
    quote: str | PathLike[str] | None | Var = None,
    escape: str | PathLike[str] | None | Var = None,
    comment: str | PathLike[str] | None | Var = None,
    skip_rows: int | None | Var = None,
    null_values: Sequence[str | PathLike[str]] | None | Var = None,
    encoding: str | PathLike[str] | None | Var = None,
    compression: str | PathLike[str] | None | Var = None,
) -> ModuleCall:
    """Reads standard input, or a named pipe.

    Formats are `arrow_ipc` (as a stream), `csv`, `json_lines`, `records` and `lines`. What is
    compressed with gzip, bzip2 or zstd is decompressed, but for Arrow. Types of CSV and JSON
    are inferred from the first 256 KiB, which are read when the flow is checked, unless
    `columns` names them. One thread reads, so the rows come in their order. Files that can be
    read in parts are better read by `scan`.

    Options:

    format
        `arrow_ipc`, `csv`, `json_lines`, `records` or `lines`.
    path
        A named pipe or a file; standard input if absent.
    columns
        Names and types of the columns, in the order they come: `{"id": "int64"}`.
    types
        CSV and JSON: types of columns, like `{"zip": "string"}`; the others are inferred from
        the first records.
    order
        Keep the order of the rows.
    delimiter
        CSV: the character between fields; a comma if absent.
    header
        CSV: whether the first line names the columns; it does if absent.
    quote
        CSV: the character around fields that may hold anything, `"` if absent; none if empty.
    escape
        CSV: the character behind which any other is itself; if absent, a quote within quotes is
        doubled.
    comment
        CSV: the character with which comments begin, which end with their line.
    skip_rows
        CSV: how many lines to pass over at the beginning, before the header.
    null_values
        CSV: fields without quotes that are nulls, like `["NA", ""]`; the empty one if absent.
    encoding
        CSV, JSON and lines: the encoding of the text, like `latin-1` or `utf-16`; UTF-8 if
        absent, or what a mark at its beginning says.
    compression
        Text and records: `none` says that they are not compressed, although their first bytes
        or their name look like it.

    Example:

    >>> with open("cities.csv", "w") as file:
    ...     print("city,founded", "Ur,-3800", "Uruk,-4000", sep="\\n", file=file)
    >>> flow = eu.Flow()
    >>> _ = flow.chain(eu.copy_in("csv", path="cities.csv"), eu.collect())
    >>> flow.go().collected().to_pydict()
    {'city': ['Ur', 'Uruk'], 'founded': [-3800, -4000]}
    """

def copy_out(
    format: str | PathLike[str] | Var,
    *,
    path: str | PathLike[str] | None | Var = None,
    delimiter: str | PathLike[str] | None | Var = None,
    header: bool | None | Var = None,
    compression: str | PathLike[str] | None | Var = None,
    quote: str | PathLike[str] | None | Var = None,
    escape: str | PathLike[str] | None | Var = None,
    null_value: str | PathLike[str] | None | Var = None,
) -> ModuleCall:
    """Writes to standard output, or a named pipe.

    Formats are `arrow_ipc` (as a stream), `csv`, `json_lines`, `records`, `lines` and
    `parquet`. A stream keeps its order. Every batch goes out as it comes. When the reader has
    had enough, the flow ends well. What has gone out cannot be taken back if the flow fails;
    `save` writes files that appear whole or not at all.

    Options:

    format
        `arrow_ipc`, `csv`, `json_lines`, `records`, `lines` or `parquet`.
    path
        A named pipe or a device; standard output if absent.
    delimiter
        CSV: the character between fields; a comma if absent.
    header
        CSV: whether the first line names the columns; it does if absent.
    compression
        Of `csv`, `json_lines`, `records` and `lines`: `none`, `gzip`, `bzip2` or `zstd`.
    quote
        CSV: the character around fields that need it, `"` if absent; none if empty.
    escape
        CSV: the character before a quote within quotes, and before whatever means something
        where there are none; if absent, a quote is doubled.
    null_value
        CSV: what is written for a null, like `NA`; nothing if absent.

    Example:

    >>> import os
    >>> reading, writing = os.pipe()
    >>> flow = eu.Flow()
    >>> cities = eu.from_arrow({"city": ["Ur", "Uruk"]})
    >>> _ = flow.chain(cities, eu.copy_out("csv", path=f"/dev/fd/{writing}"))
    >>> _ = flow.go()
    >>> os.read(reading, 100)
    b'city\\nUr\\nUruk\\n'
    """

def count() -> ModuleCall:
    """Counts the rows of its input.

    Output: one row with one column `count` (int64).

    Example:

    >>> flow = eu.Flow()
    >>> _ = flow.chain(eu.generate("integers", rows=1000), eu.count(), eu.collect())
    >>> flow.go().collected().to_pydict()
    {'count': [1000]}
    """

def divide(
    by: Sequence[str | PathLike[str] | Mapping[str, Any]] | Var,
) -> ModuleCall:
    """Gives each row to the output that has its range of keys, of ranges of one size.

    As many outputs as are attached; the first has the keys that sort first. Ranges divide all
    that the type of the key could hold, not what is there; if the column is nullable, null
    takes half of the ranges. This suits keys that are spread evenly, like those of the sort
    benchmark. `by` is written as for `sort`. Use `partition` for ranges that follow the data
    and go to any free consumer; this module is for comparison.

    Options:

    by
        The columns, most significant first.

    Example:

    >>> flow = eu.Flow()
    >>> divided = flow.chain(eu.generate("records", rows=1000), eu.divide("key"))
    >>> low, high = divided >> eu.collect(), divided >> eu.collect()
    >>> report = flow.go()
    >>> report.collected(low).num_rows, report.collected(high).num_rows
    (529, 471)
    """

def exec(
    command: str | PathLike[str] | Sequence[str | PathLike[str]] | Var,
    *,
    input: str | PathLike[str] | Var = 'csv',
    output: str | PathLike[str] | None | Var = None,
    columns: Mapping[str, Any] | None | Var = None,
    order: bool | Var = False,
    delimiter: str | PathLike[str] | None | Var = None,
    header: bool | None | Var = None,
) -> ModuleCall:
    """Runs a program: rows go in on its standard input, and come out on its output.

    `exec("grep -v foo", input="lines")`. The program is any that reads and writes `csv`,
    `json_lines`, `arrow_ipc` (as a stream), `records` or `lines`. One copy of it runs; with
    `count`, as many as that, each with a part of the rows. If it exits with another status than
    0, or is killed, the flow fails with the last lines it wrote to its standard error. A
    program that does not read all its input is well. It is killed when the flow is stopped,
    with all it has started.

    Options:

    command
        A program and its arguments, or one string for the shell.
    input
        How the rows are written for it: `csv`, `json_lines`, `arrow_ipc`, `records` or `lines`.
    output
        How what it writes is read; as the input if absent.
    columns
        Names and types of what it writes, like `{"id": "int64"}`; as the input if absent.
        `records` and `lines` know theirs.
    order
        Keep the order in which it writes.
    delimiter
        CSV: the character between fields, in and out; a comma if absent.
    header
        CSV: whether the first line names the columns, in and out; it does if absent.

    Example:

    >>> flow = eu.Flow()
    >>> cities = eu.from_arrow({"line": ["Ur", "Mari", "Uruk"]})
    >>> _ = flow.chain(cities, eu.exec("grep ^U", input="lines"), eu.collect())
    >>> flow.go().collected().to_pydict()
    {'line': [b'Ur', b'Uruk']}
    """

def filter(
    where: str | PathLike[str] | Var,
) -> ModuleCall:
    """Keeps the rows for which a condition is true.

    The condition is SQL, like `l_quantity > 30 and l_shipmode in ('AIR', 'RAIL')`. A row for
    which it is null is left out. Arithmetic that overflows, and a division by zero, fail. A
    `scan` before it skips row groups without such rows, if the condition compares columns with
    literals.

    Options:

    where
        A condition in SQL.

    Example:

    >>> orders = eu.from_arrow({"city": ["Ur", "Uruk", "Ur"], "price": [2, 3, 5]})
    >>> flow = eu.Flow()
    >>> _ = flow.chain(orders, eu.filter("city = 'Ur' and price > 2"), eu.collect())
    >>> flow.go().collected().to_pydict()
    {'city': ['Ur'], 'price': [5]}
    """

def from_arrow(
    data: Any | Var,
    *,
    order: bool | Var = False,
    schema: SchemaLike | Var | None = None,
) -> ModuleCall:
    """Brings in a table: pyarrow, Polars, pandas, DuckDB, anything that speaks Arrow.

    The rows are not copied, and a stream is read only as fast as the flow takes it. A list or
    an iterator of tables is one table; a function that returns any of these is called when the
    flow is checked.

    Options:

    data
        The table, or where it can be imported from: `package.module:name`.
    order
        Keep the order of the rows: they come as a stream.
    schema
        The columns of an iterator's tables: a schema, or types by name like `{"id": "int64"}`.

    Example:

    >>> import polars
    >>> cities = polars.DataFrame({"city": ["Ur", "Uruk"]})
    >>> flow = eu.Flow()
    >>> _ = flow.chain(eu.from_arrow(cities, order=True), eu.collect())
    >>> flow.go().collected().to_pydict()
    {'city': ['Ur', 'Uruk']}
    """

def generate(
    what: Literal['records'] | Literal['integers'] | Literal['lineitem'] | Literal['orders'] | Literal['customer'] | Literal['part'] | Literal['partsupp'] | Literal['supplier'] | Literal['nation'] | Literal['region'] | Var,
    *,
    rows: int | None | Var = None,
    scale: float | None | Var = None,
    first: int | Var = 0,
    ascii: bool | Var = False,
    skewed: bool | Var = False,
    order: bool | Var = False,
) -> ModuleCall:
    """Makes data: sort benchmark records, TPC-H tables, or integers.

    `records` have the columns `key` (10 bytes) and `payload` (90 bytes) and are those of
    gensort 1.5. The tables `lineitem`, `orders`, `customer`, `part`, `partsupp`, `supplier`,
    `nation` and `region` are those of TPC-H at `scale` (1 is about 1 GB in all). `integers` has
    one column `n`, from `first` upwards.

    Options:

    what
        The kind of records, or the TPC-H table.
    rows
        Number of rows, for `records` and `integers`.
    scale
        Scale factor, for the tables of TPC-H; 1 is about 1 GB in all.
    first
        Number of the first record or integer.
    ascii
        Printable records, as gensort `-a`.
    skewed
        Records with skewed keys, as gensort `-s`.
    order
        Give the output an order: it comes as a stream.

    Example:

    >>> flow = eu.Flow()
    >>> _ = flow.chain(eu.generate("integers", rows=3, first=7, order=True), eu.collect())
    >>> flow.go().collected().to_pydict()
    {'n': [7, 8, 9]}
    """

def join(
    on: Sequence[str | PathLike[str] | Mapping[str, Any]] | Var,
    *,
    how: Literal['inner'] | Literal['left'] | Literal['right'] | Literal['full'] | Literal['semi'] | Literal['anti'] | Var | None = None,
    where: str | PathLike[str] | None | Var = None,
    build: Literal['auto'] | Literal['left'] | Literal['right'] | Var | None = None,
    suffix: str | PathLike[str] | Var = '_right',
) -> ModuleCall:
    """Joins its inputs `left` and `right` by equal keys.

    One side is held in memory, as a table, and what does not fit goes to scratch; the other
    streams by. It is the right that is held, unless less is read for the left or `build` says
    so. Nulls match nothing, NaN matches NaN. Columns of the left come first, then those of the
    right but its keys; keys come once, with the value of whichever side has one. Nothing is
    read of the side that streams by before the other has ended, so both must not come from one
    `tee`. The output has no order.

    Options:

    on
        The keys: names of columns that both sides have, or `{"left": "a", "right": "b"}`.
    how
        Which rows come out.
    where
        A condition in SQL that a pair must meet besides, over the columns of both sides.
    build
        The side that is held, best the smaller one. `auto` is that of which less is read, and
        the right if that is not known.
    suffix
        Stands behind names of the right that the left has too.

    Example:

    >>> flow = eu.Flow()
    >>> join = flow.place(eu.join("city"))
    >>> orders = flow.place(eu.from_arrow({"city": ["Ur", "Kish"], "price": [2, 3]}))
    >>> cities = flow.place(eu.from_arrow({"city": ["Ur"], "founded": [-3800]}))
    >>> _ = orders >> join["left"], cities >> join["right"], join >> eu.collect()
    >>> flow.go().collected().to_pydict()
    {'city': ['Ur'], 'price': [2], 'founded': [-3800]}
    """

def limit(
    rows: int | Var,
    *,
    offset: int | Var = 0,
) -> ModuleCall:
    """Passes on the first rows and ends.

    Of a stream these are its first rows; of anything else, whichever come first. What comes
    before it stops as soon as there are enough.

    Options:

    rows
        Number of rows to pass on.
    offset
        Number of rows to leave out before them.

    Example:

    >>> cheapest = eu.sort("price"), eu.limit(2)
    >>> flow = eu.Flow()
    >>> _ = flow.chain(eu.from_arrow({"price": [5, 2, 7, 3]}), *cheapest, eu.collect())
    >>> flow.go().collected().to_pydict()
    {'price': [2, 3]}
    """

def map(
    function: Callable[..., Any] | str | Var,
    *,
    schema: SchemaLike | Var | None = None,
    arguments: Mapping[str, Any] | None | Var = None,
) -> ModuleCall:
    """Gives every batch to a Python function, and sends on what it returns.

    The function gets a `Batch` of about 1 MiB, which pyarrow, Polars, pandas and DuckDB
    understand (`batch.to_polars()`, …), and returns anything that speaks Arrow, with any number
    of rows, or `None` to send nothing. Several instances call it at the same time from
    different threads; Python runs one of them at a time, except inside libraries that release
    the GIL, as those four do. Behind a `partition`, the function gets a whole partition at a
    time. Without `schema`, the function is called once with an empty batch when the flow is
    checked, and what it returns says what the columns are. When it raises, it is called again
    with parts of that batch, for two seconds at most, to name the first row at which it does.

    Options:

    function
        The function, or where it can be imported from: `package.module:name`.
    schema
        The columns it returns: a schema, or types by name like `{"id": "int64"}`. Inferred from
        an empty batch if absent.
    arguments
        More arguments for every call, by name.

    Example:

    >>> def doubled(batch):
    ...     return batch.to_polars() * 2
    >>> flow = eu.Flow()
    >>> _ = flow.chain(eu.generate("integers", rows=3), eu.map(doubled), eu.collect())
    >>> flow.go().collected().to_pydict()
    {'n': [0, 2, 4]}
    """

def merge(
    by: Sequence[str | PathLike[str] | Mapping[str, Any]] | Var,
) -> ModuleCall:
    """Makes one sorted stream of several.

    As many inputs as are attached, each a stream sorted by `by`, which is written as for
    `sort`; one that is not is an error that names the row. Of records with equal keys, those of
    the earlier input come first. A batch of each input is held, so the memory does not depend
    on how much there is.

    Options:

    by
        The columns, most significant first.

    Example:

    >>> flow = eu.Flow()
    >>> merge = flow.chain(eu.from_arrow({"n": [1, 4]}, order=True), eu.merge("n"))
    >>> _ = flow.chain(eu.from_arrow({"n": [2, 3]}, order=True), merge, eu.collect())
    >>> flow.go().collected().to_pydict()
    {'n': [1, 2, 3, 4]}
    """

def partition(
    by: Sequence[str | PathLike[str] | Mapping[str, Any]] | Var,
    *,
    stable: bool | Var = False,
    together: bool | Var = False,
    first: int | None | Var = None,
) -> ModuleCall:
    """Keeps its input in partitions, each of one range of keys, for whoever is free.

    Its output is keyed: a consumer takes a whole partition, sorted, when it has time, and the
    partitions are in the order of their keys. There are many, of at most about 16 MiB and
    smaller towards the end, cut where samples of the data say, so that skewed keys make no
    large one. With `together`, records of equal keys are in one partition, however large it
    gets: for modules that work on groups. What does not fit the memory goes to scratch. `by` is
    written as for `sort`.

    Options:

    by
        The columns, most significant first.
    stable
        Keep the input's order among records with equal keys. The input must be a stream.
    together
        Keep records with equal keys in one partition.
    first
        Keep at least this many records that come first, and perhaps leave out others; all if
        absent. A `sort` before a `limit` asks for that.

    Example:

    >>> flow = eu.Flow()
    >>> integers = eu.generate("integers", rows=1000)
    >>> _ = flow.chain(integers, eu.partition("n"), eu.sort("n"), eu.limit(3), eu.collect())
    >>> flow.go().collected().to_pydict()
    {'n': [0, 1, 2]}
    """

def pre_aggregate(
    by: Sequence[str | PathLike[str]] | Var,
    *,
    values: Mapping[str, str | PathLike[str]] | Var = {},
) -> ModuleCall:
    """Groups records where they are, and keeps what an `aggregate` makes values of.

    Its output is keyed: a consumer takes the states of all groups whose keys have some hashes,
    when it has time. Nobody needs to write it: it is placed before each `aggregate`, with the
    same `by` and `values`. Records that hardly share their keys are not grouped here, but
    passed on. What does not fit the memory goes to scratch.

    Options:

    by
        The columns whose values make a group. With none, all rows are one.
    values
        What comes out beside them: names, and what stands under each: `count()`, or `count`,
        `count(distinct ...)`, `sum`, `min`, `max` or `avg` of a column or an SQL expression; or
        an SQL expression over these and the columns of `by`, like `max(a) - min(a)`.

    Example:

    >>> orders = eu.from_arrow({"city": ["Ur", "Uruk", "Ur"], "price": [2, 3, 5]})
    >>> totals = {"by": "city", "values": {"total": "sum(price)"}}
    >>> flow = eu.Flow()
    >>> groups = flow.chain(orders, eu.pre_aggregate(**totals), eu.aggregate(**totals))
    >>> _ = flow.chain(groups, eu.sort("city"), eu.collect())
    >>> flow.go().collected().to_pydict()
    {'city': ['Ur', 'Uruk'], 'total': [7, 3]}
    """

def project(
    columns: Sequence[str | PathLike[str]] | Var,
) -> ModuleCall:
    """Chooses, computes and names columns.

    Each item is a column's name, `*`, `* exclude (a, b)`, or an SQL expression with a name:
    `l_extendedprice * (1 - l_discount) as revenue`. The columns come out in this order.
    Arithmetic that overflows, and a division by zero, fail.

    Options:

    columns
        Names of columns, `*`, and expressions like `a + b as sum`.

    Example:

    >>> orders = eu.from_arrow({"city": ["Ur", "Kish"], "price": [2, 3], "n": [4, 1]})
    >>> flow = eu.Flow()
    >>> _ = flow.chain(orders, eu.project(["city", "price * n as revenue"]), eu.collect())
    >>> flow.go().collected().to_pydict()
    {'city': ['Ur', 'Kish'], 'revenue': [8, 3]}
    """

def python(
    module: type[Any] | str | Var,
    *,
    args: Sequence[Any] | None | Var = None,
    kwargs: Mapping[str, Any] | None | Var = None,
) -> ModuleCall:
    """Runs a module written in Python: a subclass of `euphrates.Module`.

    The class declares `inputs`, `outputs` and `order`, says what comes out in `schemas(self,
    inputs)`, and works in `run(self, ports)`. Every instance has an object of its own and runs
    in a thread of its own. Usually placed as an object: `flow.place(MyModule(3))`.

    Options:

    module
        The class, or where it can be imported from: `package.module:Name`.
    args
        Arguments of its constructor, by position.
    kwargs
        Arguments of its constructor, by name.

    Example:

    >>> class First(eu.Module):
    ...     def __init__(self, rows):
    ...         self.rows = rows
    ...     def run(self, ports):
    ...         for batch in ports:
    ...             ports.put(batch.slice(0, self.rows))
    >>> first = eu.python(First, args=[2])
    >>> flow = eu.Flow()
    >>> _ = flow.chain(eu.generate("integers", rows=9), first, eu.collect())
    >>> flow.go().collected().to_pydict()
    {'n': [0, 1]}
    """

def read(
    collection: str | PathLike[str] | Var,
    *,
    columns: Sequence[str | PathLike[str]] | None | Var = None,
    order: bool | Var = False,
    mirrors: str | PathLike[str] | None | Var = None,
) -> ModuleCall:
    """Reads a collection.

    Each instance takes the next blocks when it has finished some, so a slow one reads fewer.
    With `order`, the records come as a stream, in the order written. Every block is compared
    with its checksum before it is used. The copies of a mirrored collection share the reading
    by the speed each disk has now (graduated declustering); a block that one copy has lost is
    read from another, and the report says so. If `columns` is absent, those that no module
    after it reads are left out, unless a sorted collection is read in order.

    Options:

    collection
        The name of a collection in the home folder.
    columns
        The columns to read, in this order; all if absent.
    order
        Keep the order in which the records were written.
    mirrors
        How the copies of a mirrored collection share the reading: `graduated`, or, to compare,
        `shares`, `laggard`, `arrival`, `alternate`, `random`, `fastest` or `primary`;
        `graduated` if absent.

    Example:

    >>> flow = eu.Flow()
    >>> _ = flow.chain(eu.from_arrow({"city": ["Ur", "Uruk"]}), eu.write("cities"))
    >>> _ = flow.go(home="data")
    >>> flow = eu.Flow()
    >>> _ = flow.chain(eu.read("cities", order=True), eu.collect())
    >>> flow.go(home="data").collected().to_pydict()
    {'city': ['Ur', 'Uruk']}
    """

def sample(
    *,
    fraction: float | None | Var = None,
    rows: int | None | Var = None,
    seed: int | Var = 0,
) -> ModuleCall:
    """Picks rows at random: a fraction of them, or a number.

    With `fraction`, every row passes with this probability, and the order of a stream is kept.
    With `rows`, that number of rows is picked, each with the same probability; they are held in
    memory until the input has ended. The same seed picks the same rows of a stream.

    Options:

    fraction
        The probability of a row to be picked, from 0 to 1.
    rows
        The number of rows to pick; all, if there are fewer.
    seed
        Another seed picks other rows.

    Example:

    >>> flow = eu.Flow()
    >>> _ = flow.chain(eu.generate("integers", rows=1000), eu.sample(rows=10), eu.collect())
    >>> flow.go().collected().num_rows
    10
    """

def save(
    path: str | PathLike[str] | Var,
    *,
    format: str | PathLike[str] | None | Var = None,
    overwrite: bool | Var = False,
    compression: str | PathLike[str] | None | Var = None,
    row_group_bytes: int | Var = 33554432,
    delimiter: str | PathLike[str] | None | Var = None,
    header: bool | None | Var = None,
    quote: str | PathLike[str] | None | Var = None,
    escape: str | PathLike[str] | None | Var = None,
    null_value: str | PathLike[str] | None | Var = None,
) -> ModuleCall:
    """Writes one file: Parquet, CSV, JSON lines, Arrow IPC, records, lines.

    The file appears when the flow has ended well, whole and at once; until then, and if the
    flow fails, what was there before stays. Several instances encode in parallel; an ordered
    stream is written in order.

    Options:

    path
        A file, or the URL of an object (`s3://bucket/key`, `gs://`, `az://`).
    format
        `parquet`, `csv`, `json_lines`, `arrow_ipc`, `records` or `lines`; told from the
        extension if absent.
    overwrite
        Replace an existing file.
    compression
        Parquet (`none`, `snappy`, `lz4`, `zstd`, which is the default), Arrow IPC (`none`,
        `lz4`, `zstd`), and all others as a whole (`none`, `gzip`, `bzip2`, `zstd`; from the
        extension if absent, like `.csv.gz`).
    row_group_bytes
        Bytes that are encoded together, and held by each instance: a row group of Parquet.
    delimiter
        CSV: the character between fields; a comma if absent, a tab for `.tsv`.
    header
        CSV: whether the first line names the columns; it does if absent.
    quote
        CSV: the character around fields that need it, `"` if absent; none if empty.
    escape
        CSV: the character before a quote within quotes, and before whatever means something
        where there are none; if absent, a quote is doubled.
    null_value
        CSV: what is written for a null, like `NA`; nothing if absent.

    Example:

    >>> flow = eu.Flow()
    >>> cities = eu.from_arrow({"city": ["Ur", "Uruk"]}, order=True)
    >>> _ = flow.chain(cities, eu.save("cities.csv"))
    >>> _ = flow.go()
    >>> open("cities.csv").read()
    'city\\nUr\\nUruk\\n'
    """

def scan(
    path: str | PathLike[str] | Sequence[str | PathLike[str]] | Var,
    *,
    format: str | PathLike[str] | None | Var = None,
    columns: Sequence[str | PathLike[str]] | None | Var = None,
    order: bool | Var = False,
    delimiter: str | PathLike[str] | None | Var = None,
    header: bool | None | Var = None,
    types: Mapping[str, str | PathLike[str]] | None | Var = None,
    quote: str | PathLike[str] | None | Var = None,
    escape: str | PathLike[str] | None | Var = None,
    comment: str | PathLike[str] | None | Var = None,
    skip_rows: int | None | Var = None,
    null_values: Sequence[str | PathLike[str]] | None | Var = None,
    encoding: str | PathLike[str] | None | Var = None,
    compression: str | PathLike[str] | None | Var = None,
) -> ModuleCall:
    """Reads files: Parquet, CSV, JSON, Arrow IPC, records, lines.

    The files must have the same columns. They are read in splits (row groups, or ranges of 16
    MiB), and each instance takes the next split when it has finished one. Text that is
    compressed (`.csv.gz`, `.bz2`, `.zst`) or not UTF-8, JSON that is not one object a line, and
    CSV with comments or escapes are one split a file. If `columns` is absent, those that no
    module after it reads are left out. Row groups of Parquet files are skipped if no row of
    them can pass the `filter`s behind it, by their statistics: minimum, maximum and number of
    nulls. What is in names of folders only (`year=2024/`) is not read as a column.

    Options:

    path
        A file, a pattern (`data/*.parquet`, `**`), a folder, a URL (`s3://bucket/key`, `gs://`,
        `az://`), or a list of them.
    format
        `parquet`, `csv`, `json_lines` (also arrays, and objects over several lines),
        `arrow_ipc`, `records` (100 bytes, as gensort makes them) or `lines`; told from the
        extension if absent.
    columns
        The columns to read, in this order; all if absent.
    order
        Keep the order of the records: file by file, each from front to back.
    delimiter
        CSV: the character between fields; a comma if absent, a tab for `.tsv`.
    header
        CSV: whether the first line names the columns; it does if absent.
    types
        CSV and JSON: types of columns, like `{"zip": "string"}`; the others are inferred from
        the first records.
    quote
        CSV: the character around fields that may hold anything, `"` if absent; none if empty.
    escape
        CSV: the character behind which any other is itself; if absent, a quote within quotes is
        doubled.
    comment
        CSV: the character with which comments begin, which end with their line.
    skip_rows
        CSV: how many lines to pass over at the beginning, before the header.
    null_values
        CSV: fields without quotes that are nulls, like `["NA", ""]`; the empty one if absent.
    encoding
        CSV, JSON and lines: the encoding of the text, like `latin-1` or `utf-16`; UTF-8 if
        absent, or what a mark at its beginning says.
    compression
        Text and records: `none` says that they are not compressed, although their first bytes
        or their name look like it.

    Example:

    >>> with open("cities.csv", "w") as file:
    ...     print("city,founded", "Ur,-3800", "Uruk,-4000", sep="\\n", file=file)
    >>> flow = eu.Flow()
    >>> _ = flow.chain(eu.scan("cities.csv", columns=["city"], order=True), eu.collect())
    >>> flow.go().collected().to_pydict()
    {'city': ['Ur', 'Uruk']}
    """

def sort(
    by: Sequence[str | PathLike[str] | Mapping[str, Any]] | Var,
    *,
    stable: bool | Var = False,
) -> ModuleCall:
    """Sorts its input by one or more columns, spilling to disk what does not fit.

    Each key is a column name, `"price desc"`, `"name asc nulls first"`, or an object with
    `column`, `descending`, `nulls_first`. Nulls come last unless asked for first. Zeros of
    either sign are equal, and NaN comes behind all numbers; lists and structs are compared by
    their first difference, their nulls wherever the column's own would come. Before a `limit`,
    only as many records are kept. The output is a stream of runs in order: `save` and `write`
    keep it. A `partition` is placed before it unless one is there: it takes the input in, and
    the sort's instances take its partitions.

    Options:

    by
        The columns, most significant first.
    stable
        Keep the input's order among records with equal keys. The input must be a stream.

    Example:

    >>> orders = eu.from_arrow({"city": ["Ur", "Uruk", "Ur"], "price": [2, 3, 5]})
    >>> flow = eu.Flow()
    >>> _ = flow.chain(orders, eu.sort(["city", "price desc"]), eu.collect())
    >>> flow.go().collected().to_pydict()
    {'city': ['Ur', 'Ur', 'Uruk'], 'price': [5, 2, 3]}
    """

def sql(
    query: str | PathLike[str] | Var,
    *,
    per_batch: bool | Var = False,
    engine: str | PathLike[str] | None | Var = None,
    inputs: Sequence[str | PathLike[str]] | None | Var = None,
) -> ModuleCall:
    """Runs an SQL query over its input, with DuckDB or Polars.

    The input is a table named `input`: `eu.sql("select city, sum(price) from input group by
    city")`. DuckDB reads it as it flows in and keeps within this module's share of the memory.
    With `per_batch`, the query is run on every batch by itself, by several instances at the
    same time, and the order is kept: for queries that look at one row at a time. Polars holds
    the whole input in memory.

    Options:

    query
        The query; it gives one table.
    per_batch
        Run it on every batch by itself, in parallel.
    engine
        `duckdb` or `polars`; the first of them that is installed if absent.
    inputs
        Names of the inputs, each a table of the query; `input` alone if absent. Several are
        copied into tables before the query runs.

    Example:

    >>> orders = eu.from_arrow({"city": ["Ur", "Uruk", "Ur"], "price": [2, 3, 5]})
    >>> query = eu.sql("select city, max(price) as most from input group by city order by city")
    >>> flow = eu.Flow()
    >>> _ = flow.chain(orders, query, eu.collect())
    >>> flow.go().collected().to_pydict()
    {'city': ['Ur', 'Uruk'], 'most': [5, 3]}
    """

def tee() -> ModuleCall:
    """Gives every row to each of its outputs.

    As many outputs as are attached; nothing is copied. It goes at the pace of the slowest of
    them; one whose consumer has had enough is left out from then on. Do not lead two of its
    outputs to a module that reads one of them to its end first.

    Example:

    >>> flow = eu.Flow()
    >>> tee = flow.chain(eu.from_arrow({"price": [5, 2, 7]}), eu.tee())
    >>> rows = flow.chain(tee, eu.count(), eu.collect())
    >>> cheapest = flow.chain(tee, eu.sort("price"), eu.limit(1), eu.collect())
    >>> report = flow.go()
    >>> report.collected(rows).to_pydict(), report.collected(cheapest).to_pydict()
    ({'count': [3]}, {'price': [2]})
    """

def union() -> ModuleCall:
    """Passes on the rows of all its inputs.

    As many inputs as are attached, with the same columns in the same order. Types may differ in
    how values are laid out (text in a dictionary or not, large lists, the names of items), but
    not in what they are; decimals are widened to one that has the digits of all. Rows are taken
    from whichever input has some; duplicates are kept, and no order is.

    Example:

    >>> flow = eu.Flow()
    >>> union = flow.chain(eu.from_arrow({"n": [3, 1]}), eu.union())
    >>> _ = flow.chain(eu.from_arrow({"n": [2, 1]}), union, eu.sort("n"), eu.collect())
    >>> flow.go().collected().to_pydict()
    {'n': [1, 1, 2, 3]}
    """

def write(
    collection: str | PathLike[str] | Var,
    *,
    overwrite: bool | Var = False,
    disk: str | PathLike[str] | None | Var = None,
    disks: Sequence[str | PathLike[str]] | Var = [],
    copies: int | None | Var = None,
    layout: str | PathLike[str] | None | Var = None,
    compression: str | PathLike[str] | None | Var = None,
) -> ModuleCall:
    """Writes a collection.

    The collection appears when the flow has ended well, whole and at once; until then, and if
    the flow fails, what was there before stays. An ordered stream is written in order, by
    several instances at once. Over several `disks`, each block goes to the disk that has least
    to do, so a slow one gets fewer. With `copies`, each segment has mirrors on other disks, of
    other workers where there are some.

    Options:

    collection
        The collection's name: letters, digits, `_`, `-` and `.`, with `/` between folders.
    overwrite
        Replace an existing collection.
    disk
        The disk to write to, of those in `disks.json`; the home folder's if absent.
    disks
        The disks to write to, all at once.
    copies
        Copies of each segment, each on another disk; 1 if absent.
    layout
        Where mirrors go: `chained`, on the next of the disks, or `spread`, evenly over all
        others; `chained` if absent.
    compression
        `none`, `lz4` or `zstd`; `none` if absent.

    Example:

    >>> flow = eu.Flow()
    >>> _ = flow.chain(eu.generate("integers", rows=1000), eu.write("numbers"))
    >>> flow.go(home="data").modules[0].rows_out
    1000
    """

__all__ = [
    "ModuleCall",
    "module",
    "aggregate",
    "collect",
    "copy_in",
    "copy_out",
    "count",
    "divide",
    "exec",
    "filter",
    "from_arrow",
    "generate",
    "join",
    "limit",
    "map",
    "merge",
    "partition",
    "pre_aggregate",
    "project",
    "python",
    "read",
    "sample",
    "save",
    "scan",
    "sort",
    "sql",
    "tee",
    "union",
    "write",
]
