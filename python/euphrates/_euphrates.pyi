import builtins
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, final, overload

from typing_extensions import CapsuleType

from ._user_code.module import Empty

__version__: str

class _Rows:
    @property
    def num_rows(self) -> int: ...
    @property
    def num_columns(self) -> int: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def schema(self) -> Schema: ...
    @property
    def column_names(self) -> list[str]: ...
    def __len__(self) -> int: ...
    def __bool__(self) -> bool: ...
    def __arrow_c_schema__(self) -> CapsuleType: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> CapsuleType: ...
    def to_polars(self) -> Any:
        """The rows as a Polars data frame.

        >>> flow = eu.Flow()
        >>> _ = flow.chain(eu.generate("integers", rows=3), eu.collect())
        >>> flow.go().collected().to_polars()["n"].sum()
        3
        """
    def to_pandas(self) -> Any:
        """The rows as a pandas data frame, with exact integers beside nulls. Needs pyarrow.

        >>> flow = eu.Flow()
        >>> _ = flow.chain(eu.generate("integers", rows=3), eu.collect())
        >>> int(flow.go().collected().to_pandas()["n"].sum())
        3
        """
    def to_duckdb(self, connection: Any = None) -> Any:
        """The rows as a DuckDB relation, of a connection or of the default one.

        >>> flow = eu.Flow()
        >>> _ = flow.chain(eu.generate("integers", rows=3), eu.collect())
        >>> flow.go().collected().to_duckdb().aggregate("sum(n)").fetchall()
        [(3,)]
        """
    def to_pyarrow(self) -> Any:
        """The rows as a pyarrow table.

        >>> flow = eu.Flow()
        >>> _ = flow.chain(eu.generate("integers", rows=3), eu.collect())
        >>> flow.go().collected().to_pyarrow()["n"].to_pylist()
        [0, 1, 2]
        """
    def to_pydict(self) -> dict[str, list[Any]]:
        """The rows as Python values, a list for each column.

        >>> flow = eu.Flow()
        >>> _ = flow.chain(eu.generate("integers", rows=3), eu.collect())
        >>> flow.go().collected().to_pydict()
        {'n': [0, 1, 2]}
        """
    def to_pylist(self) -> list[dict[str, Any]]:
        """The rows as Python values, a dict for each row.

        >>> flow = eu.Flow()
        >>> _ = flow.chain(eu.generate("integers", rows=2), eu.collect())
        >>> flow.go().collected().to_pylist()
        [{'n': 0}, {'n': 1}]
        """

@final
class Batch(_Rows):
    """A batch of rows: what flows between modules.

    >>> flow = eu.Flow()
    >>> _ = flow.chain(eu.generate("integers", rows=3), eu.collect())
    >>> flow.go().collected().batches
    [Batch(3 rows: n: Int64 not null)]
    """

    def __arrow_c_array__(
        self, requested_schema: object | None = None
    ) -> tuple[CapsuleType, CapsuleType]: ...
    def slice(self, offset: int = 0, length: int | None = None) -> Batch:
        """Some of the rows, without copying them.

        >>> def first_two(batch):
        ...     return batch.slice(0, 2)
        >>> flow = eu.Flow()
        >>> _ = flow.chain(eu.generate("integers", rows=9), first_two, eu.collect())
        >>> flow.go().collected().to_pydict()
        {'n': [0, 1]}
        """
    def select(self, columns: Sequence[str]) -> Batch:
        """Some of the columns, by name, in this order.

        >>> def without_price(batch):
        ...     return batch.select(["city"])
        >>> flow = eu.Flow()
        >>> orders = eu.from_arrow({"city": ["Ur"], "price": [5]})
        >>> _ = flow.chain(orders, without_price, eu.collect())
        >>> flow.go().collected().column_names
        ['city']
        """

@final
class Table(_Rows):
    """Rows that a flow collected.

    >>> flow = eu.Flow()
    >>> _ = flow.chain(eu.generate("integers", rows=3), eu.collect())
    >>> flow.go().collected()
    Table(3 rows: n: Int64 not null)
    """

    @property
    def batches(self) -> list[Batch]: ...
    def _repr_html_(self) -> str: ...

@final
class Cluster:
    @staticmethod
    def open(
        words: str,
        token_file: str | None = None,
        workers: int | None = None,
        within: float | None = None,
        security: str | None = None,
        lost_after: float | None = None,
    ) -> Cluster: ...
    @staticmethod
    def given(
        workers: list[tuple[str, str]],
        token: str,
        security: str,
        restart: Callable[[str], str | None],
        lost_after: float | None = None,
    ) -> Cluster: ...
    def is_forked(self) -> bool: ...
    def lose(self, worker: str, why: str) -> None: ...
    def members(self) -> str: ...
    def control_bytes(self) -> int: ...
    def close(self) -> None: ...

@final
class WorkerServer:
    def __init__(
        self,
        name: str,
        listen: str,
        token: str,
        security: str,
        labels: list[str],
        cores: int,
        memory_bytes: int | None = None,
        lost_after: float | None = None,
    ) -> None: ...
    @property
    def address(self) -> str: ...
    def close(self) -> None: ...

def new_token() -> str: ...

@final
class ActiveEndpoint:
    def __init__(
        self,
        name: str,
        address: str | None,
        token: str,
        tls: bool,
        requests_max: int,
        message_bytes_max: int,
        lost_after: float | None,
    ) -> None: ...
    def address(self) -> str | None: ...
    def connect(self, address: str, within: float) -> int: ...
    def peers(self) -> list[tuple[int, str]]: ...
    def losses(self) -> list[tuple[int, str]]: ...
    def unsettled(self) -> int: ...
    def on_request(self, handler: int, run: Callable[..., object]) -> None: ...
    def on_reply(self, handler: int, run: Callable[..., object]) -> None: ...
    def on_returned(self, run: Callable[..., object]) -> None: ...
    def register(self, bytes: int) -> ActiveRegion: ...
    def unregister(self, region: ActiveRegion) -> bool: ...
    def request(
        self,
        to: int,
        message: tuple[int, list[int], object | None, tuple[int, int] | None],
    ) -> None: ...
    def poll(self) -> int: ...
    def wait(self, timeout: float | None) -> int: ...
    def close(self, within: float) -> None: ...

@final
class ActiveRegion:
    def key(self) -> int: ...
    def size(self) -> int: ...
    def read(self, offset: int, count: int) -> builtins.bytes: ...
    def write(self, offset: int, data: object) -> None: ...

@final
class Launch:
    @property
    def id(self) -> str: ...
    def places(self) -> list[tuple[str, str]]: ...
    def step(self, seconds: float) -> tuple[str, int, str, bytes | int | None]: ...
    def check(self) -> None: ...
    def stop(self, at_once: bool) -> None: ...
    def feed(self, bytes: bytes) -> bool: ...

def run_confined() -> None: ...
def launch(cluster: Cluster, order: str, on: list[str], per_worker: int) -> Launch: ...
def processes(cluster: Cluster) -> str: ...
def kill(cluster: Cluster, ids: list[str], at_once: bool) -> str: ...

@final
class Schema:
    """Names and types of columns.

    >>> schema = eu.schema({"id": "int64", "name": "string"})
    >>> schema.names, schema.types
    (['id', 'name'], ['Int64', 'Utf8'])
    """

    @property
    def names(self) -> list[str]: ...
    @property
    def types(self) -> list[str]: ...
    def __len__(self) -> int: ...
    def __arrow_c_schema__(self) -> CapsuleType: ...
    def to_pyarrow(self) -> Any:
        """The schema as pyarrow has it.

        >>> eu.schema({"id": "int64"}).to_pyarrow().field("id").nullable
        True
        """

@final
class InputStream:
    """An input as an Arrow stream, to be read once."""

    def __arrow_c_schema__(self) -> CapsuleType: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> CapsuleType: ...

@final
class Ports:
    """The inputs and outputs of one instance of a module.

    >>> class FirstAndRest(eu.Module):
    ...     outputs = ("first", "rest")
    ...     def run(self, ports):
    ...         for batch in ports:
    ...             ports.put("first", batch.slice(0, 1))
    ...             ports.put("rest", batch.slice(1))
    >>> flow = eu.Flow()
    >>> divided = flow.chain(eu.generate("integers", rows=3), FirstAndRest())
    >>> first = divided["first"] >> eu.collect()
    >>> rest = divided["rest"] >> eu.collect()
    >>> report = flow.go()
    >>> report.collected(first).to_pydict(), report.collected(rest).to_pydict()
    ({'n': [0]}, {'n': [1, 2]})
    """

    def get(self, input: str | int | None = None) -> Batch | None:
        """The next batch of an input; `None` when there will be no more.

        >>> class Copy(eu.Module):
        ...     def run(self, ports):
        ...         while (batch := ports.get()) is not None:
        ...             ports.put(batch)
        >>> flow = eu.Flow()
        >>> _ = flow.chain(eu.generate("integers", rows=3), Copy(), eu.collect())
        >>> flow.go().collected().to_pydict()
        {'n': [0, 1, 2]}
        """
    def get_partition(self, input: str | int | None = None) -> Batch | None:
        """All records of the next partition of an input behind a `partition`, in one batch; `None`
        when all have been taken.

        >>> class Largest(eu.Module):
        ...     def run(self, ports):
        ...         while (part := ports.get_partition()) is not None:
        ...             ports.put(part.to_polars().group_by("city").max())
        >>> orders = eu.from_arrow({"city": ["Ur", "Uruk", "Ur"], "price": [2, 3, 5]})
        >>> flow = eu.Flow()
        >>> _ = flow.chain(orders, eu.partition("city", together=True), Largest(), eu.collect())
        >>> sorted(flow.go().collected().to_pydict()["price"])
        [3, 5]
        """
    def try_get(self, input: str | int | None = None) -> Batch | Empty | None:
        """Like `get`, but does not wait: `EMPTY` if nothing is there now.

        >>> class Impatient(eu.Module):
        ...     def run(self, ports):
        ...         while (batch := ports.try_get()) is not None:
        ...             if batch is eu.EMPTY:
        ...                 ports.check()  # and do something else meanwhile
        ...             else:
        ...                 ports.put(batch)
        >>> flow = eu.Flow()
        >>> _ = flow.chain(eu.generate("integers", rows=3), Impatient(), eu.collect())
        >>> flow.go().collected().num_rows
        3
        """
    @overload
    def put(self, data: Any, /) -> None:
        """Puts rows on an output: `put(batch)` or `put("name", batch)`. Takes anything that speaks
        Arrow, batch by batch. Waits while the queue is full.

        >>> class Doubled(eu.Module):
        ...     def run(self, ports):
        ...         for batch in ports:
        ...             ports.put(batch.to_polars() * 2)
        >>> flow = eu.Flow()
        >>> _ = flow.chain(eu.generate("integers", rows=3), Doubled(), eu.collect())
        >>> flow.go().collected().to_pydict()
        {'n': [0, 2, 4]}
        """
    @overload
    def put(self, output: str | int, data: Any, /) -> None: ...
    @overload
    def try_put(self, batch: Any, /) -> bool:
        """Puts one batch if there is room for it, and says whether there was.

        >>> class Lossy(eu.Module):
        ...     def run(self, ports):
        ...         dropped = sum(not ports.try_put(batch) for batch in ports)
        >>> flow = eu.Flow()
        >>> _ = flow.chain(eu.generate("integers", rows=3), Lossy(), eu.collect())
        >>> flow.go().collected().num_rows  # one batch has room
        3
        """
    @overload
    def try_put(self, output: str | int, batch: Any, /) -> bool: ...
    @overload
    def select(self, inputs: Sequence[str] | None = None) -> str | None:
        """Waits until one of the inputs has something, or has ended, and returns it; all inputs if
        none is named. An input that has ended is always ready: leave it out.

        >>> class Both(eu.Module):
        ...     inputs, parallel = ("left", "right"), False
        ...     def run(self, ports):
        ...         open_inputs = ports.inputs
        ...         while open_inputs:
        ...             batch = ports.get(name := ports.select(open_inputs))
        ...             if batch is None:
        ...                 open_inputs.remove(name)
        ...             else:
        ...                 ports.put(batch)
        >>> flow = eu.Flow()
        >>> both = flow.place(Both())
        >>> left = flow.place(eu.from_arrow({"n": [1]})) >> both["left"]
        >>> right = flow.place(eu.from_arrow({"n": [2]})) >> both["right"]
        >>> _ = flow.chain(both, eu.sort(["n"]), eu.collect())
        >>> flow.go().collected().to_pydict()
        {'n': [1, 2]}
        """
    @overload
    def select(self, inputs: Sequence[int]) -> int | None: ...
    @overload
    def begin_run(self, run: int, /) -> None:
        """Begins a run on an output, `begin_run(3)` or `begin_run("name", 3)`: what is put until
        `end_run` stays together and in order. Runs of one output are numbered from 0 without gaps,
        over all instances.

        >>> class AsItCame(eu.Module):
        ...     parallel, streams = False, True
        ...     def run(self, ports):
        ...         for run, batch in enumerate(ports):
        ...             ports.begin_run(run)
        ...             ports.put(batch)
        ...             ports.end_run()
        >>> flow = eu.Flow()
        >>> _ = flow.chain(eu.generate("integers", rows=3), AsItCame(), eu.collect())
        >>> flow.go().collected().to_pydict()
        {'n': [0, 1, 2]}
        """
    @overload
    def begin_run(self, output: str | int, run: int, /) -> None: ...
    def end_run(self, output: str | int | None = None) -> None: ...
    def stream(self, input: str | int | None = None) -> InputStream:
        """An input as an Arrow stream for a library to pull from, while `run` runs. Its rows can be
        read once.

        >>> import polars
        >>> class Total(eu.Module):
        ...     parallel = False
        ...     def run(self, ports):
        ...         ports.put(polars.DataFrame(ports.stream()).sum())
        >>> flow = eu.Flow()
        >>> _ = flow.chain(eu.generate("integers", rows=4), Total(), eu.collect())
        >>> flow.go().collected().to_pydict()
        {'n': [6]}
        """
    def schema(self, input: str | int | None = None) -> Schema:
        """The schema of an input.

        >>> class Strict(eu.Module):
        ...     def run(self, ports):
        ...         assert ports.schema().names == ["n"]
        ...         ports.put(ports.stream())
        >>> flow = eu.Flow()
        >>> _ = flow.chain(eu.generate("integers", rows=3), Strict(), eu.collect())
        >>> flow.go().collected().num_rows
        3
        """
    def check(self) -> None: ...
    def on_stop(self, stop: Callable[[], object], /) -> None:
        """Has a function called when the flow is stopped, from another thread and perhaps more than
        once, until `run` returns: to break off a library that computes without Python, as in
        `ports.on_stop(connection.interrupt)`.

        >>> import threading
        >>> class Waiting(eu.Module):
        ...     inputs, outputs = (), ()
        ...     def run(self, ports):
        ...         stopped = threading.Event()
        ...         ports.on_stop(stopped.set)
        ...         stopped.wait()
        >>> flow = eu.Flow()
        >>> _ = flow.place(Waiting(), count=1)
        >>> running = flow.start()
        >>> running.cancel()
        >>> running.wait()
        True
        """
    def count_in(self, rows: int, bytes: int) -> None:
        """Counts rows and bytes that a source brought in from outside the flow.

        >>> import pyarrow as pa
        >>> class Sensor(eu.Module):
        ...     inputs, parallel = (), False
        ...     def schemas(self, inputs):
        ...         return {"celsius": "float64"}
        ...     def run(self, ports):
        ...         ports.put(pa.table({"celsius": [21.5]}))
        ...         ports.count_in(rows=1, bytes=8)
        >>> flow = eu.Flow()
        >>> _ = flow.chain(Sensor(), eu.collect())
        >>> flow.go().modules[0].rows_in
        1
        """
    def __iter__(self) -> Iterator[Batch]: ...
    def __next__(self) -> Batch: ...
    @property
    def instance(self) -> int: ...
    @property
    def instances(self) -> int: ...
    @property
    def memory_bytes(self) -> int: ...
    @property
    def scratch(self) -> list[str]: ...
    @property
    def inputs(self) -> list[str]: ...
    @property
    def outputs(self) -> list[str]: ...

@final
class Running:
    def progress(self) -> str: ...
    def live(self) -> str: ...
    def failure(self) -> str | None: ...
    def wait(self, timeout: float | None = None) -> bool: ...
    def cancel(self) -> None: ...
    def stop(self, timeout: float) -> bool: ...
    def finish(self) -> tuple[str, str, list[tuple[str, Table]]]: ...

def start(document: str, options: str, cluster: Cluster | None = None) -> Running: ...
def specs() -> str: ...
def check(document: str, options: str, trust: bool) -> str: ...
def code(document: str, language: str) -> str: ...
def draw(document: str, format: str) -> str: ...
def normalize(document: str) -> str: ...
def notebook() -> str | None: ...
def sql(query: str, tables: dict[str, str], options: str, storage: Sequence[str] = ()) -> str: ...
def sql_tables(query: str) -> list[str]: ...
def sql_functions() -> dict[str, list[str]]: ...
def sql_explained(query: str) -> tuple[str, str]: ...
def sql_summary(columns: Schema) -> str: ...
def columns(document: str, options: str, storage: Sequence[str] = ()) -> Schema: ...
def forget(name: str, files: Sequence[str] | None = None) -> int: ...
def cache_clear() -> int: ...
def schema_words(object: Any) -> dict[str, str]: ...
def table(batches: Sequence[Batch], schema: Schema) -> Table: ...
def table_of(columns: Mapping[str, Any]) -> Table: ...
def cli_main(arguments: Sequence[str]) -> int: ...
def schema(columns: Mapping[str, str]) -> Schema:
    """A schema of types by name.

    >>> eu.schema({"id": "int64", "name": "string"})
    schema({"id": "Int64", "name": "Utf8"})
    """

@final
class StripedReader:
    def __init__(self, name: str, home: str | None) -> None: ...
    def read_into(self, offset: int, to: object) -> int: ...
    def read_view(self, view: StridedView, at: int, to: object) -> None: ...
    def read(self, offset: int, size: int) -> builtins.bytes: ...
    def bytes(self) -> int: ...
    def description(self) -> str: ...
    def warning(self) -> str | None: ...
    def damages(self) -> list[str]: ...

@final
class StripedWriter:
    @staticmethod
    def create(
        name: str,
        home: str | None,
        shape: tuple[int, int],
        disks: list[str],
        overwrite: bool,
    ) -> StripedWriter: ...
    @staticmethod
    def update(name: str, home: str | None) -> StripedWriter: ...
    def write_from(self, offset: int, data: object) -> int: ...
    def read_into(self, offset: int, to: object) -> int: ...
    def write_view(self, view: StridedView, at: int, data: object) -> int: ...
    def read_view(self, view: StridedView, at: int, to: object) -> None: ...
    def truncate(self, bytes: int) -> None: ...
    def bytes(self) -> int: ...
    def set_memory(self, bytes: int) -> None: ...
    def needs_every_disk(self) -> bool: ...
    def machine_warning(self) -> str | None: ...
    def commit(self) -> int: ...
    def abandon(self) -> None: ...

@final
class StridedView:
    def __init__(self, start: int, length: int, levels: list[tuple[int, int]]) -> None: ...
    def bytes(self) -> int: ...
    def expect_within(self, file_bytes: int) -> None: ...

@final
class StripedSession:
    def __init__(
        self,
        name: str,
        home: str | None,
        shape: tuple[int, int],
        disks: list[str],
        writers: tuple[int, bool],
    ) -> None: ...
    def id(self) -> str: ...
    def missing(self) -> list[int]: ...
    def commit(self) -> int: ...
    def abandon(self) -> None: ...

@final
class StripedShare:
    def __init__(self, home: str | None, id: str, number: int) -> None: ...
    def set_memory(self, bytes: int) -> None: ...
    def write_from(self, offset: int, data: object) -> int: ...
    def write_view(self, view: StridedView, at: int, data: object) -> int: ...
    def bytes(self) -> int: ...
    def commit(self) -> None: ...
    def abandon(self) -> None: ...

def served_home(
    words: str,
    token_file: str | None = None,
    security: str | None = None,
    lost_after: float | None = None,
) -> str: ...
def striped_folder(folder: str, home: str | None) -> str: ...
def striped_find(name: str, home: str | None) -> str | None: ...
def striped_remove(name: str, home: str | None) -> None: ...
def striped_name(path: bytes) -> str: ...
def striped_path(name: str) -> bytes: ...
