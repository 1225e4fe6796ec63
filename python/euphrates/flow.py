"""Flows: dataflow graphs, built by `place` and `attach` and executed by `go`."""

from __future__ import annotations

from . import _euphrates
from ._config import Gathered, Var
from ._display.terminal import Watcher
from ._feeding.flow_methods import FlowFeeding
from ._options import json_text, known_variables, options_json, size, whole_number, words
from ._other_names.answers import OtherNames
from ._user_code.documents import FlowDocument
from ._user_code.module_calls import call_of
from ._user_code.placed import Placed, PortOf
from .errors import UsageError
from .running import Running

TYPE_CHECKING = False  # `typing` is slow to load: see `__init__.py`.

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Literal, TypeAlias

    from ._display.progress import Progress
    from ._options import Folder
    from ._user_code.module_calls import Placeable
    from ._user_code.placed import Port
    from .cluster import Cluster
    from .explanation import Explanation
    from .perturbation import Perturbation
    from .report import Report

    Queue: TypeAlias = Literal["distributed", "pairwise", "broadcast", "keyed"]
    """The receiver of a batch: any instance, instance i from instance i, every instance; or, for a
    whole partition, any instance.
    """
    ProgressOption: TypeAlias = bool | Callable[[Progress], object] | None
    """A line on a terminal if there is one (`None`), always (`True`), never, or a function to call.
    """


class Flow(FlowFeeding, FlowDocument, OtherNames):
    """A graph of modules and queues.

    >>> import euphrates as eu
    >>> flow = eu.Flow("cities")
    >>> cities = eu.from_arrow({"city": ["Ur", "Uruk", "Eridu"], "founded": [-3800, -4000, -5400]})
    >>> flow.chain(cities, eu.sort(["founded"]), eu.collect())
    <collect_1 in 'cities'>
    >>> report = flow.go()
    >>> report.collected().to_pydict()["city"]
    ['Eridu', 'Uruk', 'Ur']
    """

    _kind, _called = "flow", "a flow"

    # Building

    def place(
        self,
        module: Placeable,
        *,
        count: int | None = None,
        per_worker: int | None = None,
        workers: Sequence[str] = (),
        id: str | None = None,
    ) -> Placed:
        """Places a module and returns its handle.

        `count` is the number of instances; by default as many as are useful, up to one per core.
        `per_worker` is the number at each worker, instead of `count`. `workers` restricts it to
        workers by name or label; any by default. `id` is its name in the flow; by default the
        module's name and a number.

        >>> flow = eu.Flow()
        >>> flow.place(eu.generate("integers", rows=10), count=2)
        <generate_1 in 'flow'>
        >>> flow.place(lambda batch: batch.slice(0, 1), id="first_of_each_batch")
        <first_of_each_batch in 'flow'>
        """
        if isinstance(query := getattr(module, "_flow", None), Flow):
            return Placed(self, self._embed(query))
        call = call_of(module)
        ids = {node["id"] for node in self._document["modules"]}
        if id is None:
            id = self._next_id(call.name)
        elif id in ids:
            raise UsageError(f"two modules have the id `{id}`", remedy="choose another")
        elif not isinstance(id, str):
            raise UsageError(f"the id is {id!r}, which is not text", remedy='write id="first"')
        node: dict[str, Any] = {"id": id, "module": call.name, "config": call.config}
        for what, number in (("count", count), ("per_worker", per_worker)):
            if number is not None:
                # The check refuses 0, which documents may have.
                node[what] = whole_number(what, number, least=0)
        if workers:
            node["workers"] = words("workers", workers)
        for variable in call.gathered.variables:
            self._declare(variable)
        self._held.update((held.number, held) for held in call.gathered.held)
        self._document["modules"].append(node)
        return Placed(self, id)

    def attach(
        self,
        a: Placed | str,
        b: Placed | str,
        *,
        queue: Queue | None = None,
        output: Port | None = None,
        input: Port | None = None,
        bytes_max: int | float | str | None = None,
    ) -> Placed:
        """Connects two modules by a queue and returns the second.

        `output` and `input` are ports by name or position, the first by default. `queue` selects
        the receiver of each batch: by default any instance that is free. `bytes_max` limits the
        bytes waiting in it.

        >>> flow = eu.Flow()
        >>> orders = flow.place(eu.from_arrow({"city": ["Ur", "Ur"], "price": [5, 7]}))
        >>> cities = flow.place(eu.from_arrow({"city": ["Ur"], "river": ["Euphrates"]}))
        >>> join = flow.place(eu.join("city"))
        >>> _ = flow.attach(orders, join, input="left")
        >>> _ = flow.attach(cities, join, input="right", bytes_max="1MiB")
        >>> _ = flow.attach(join, flow.place(eu.collect()))
        >>> flow.go().collected().column_names
        ['city', 'price', 'river']
        """
        edge: dict[str, Any] = {"from": self._id(a), "to": self._id(b)}
        given = {"output": output, "input": input, "queue": queue}
        edge.update((key, value) for key, value in given.items() if value is not None)
        if bytes_max is not None:
            edge["bytes_max"] = size(bytes_max)
        self._document["queues"].append(edge)
        return Placed(self, edge["to"])

    def chain(self, *modules: Placed | Placeable) -> Placed:
        """Places the modules that are not placed yet, attaches each to the next, and returns the
        last.

        >>> flow = eu.Flow()
        >>> source = flow.place(eu.generate("integers", rows=5))
        >>> flow.chain(source, eu.filter("n > 2"), eu.collect())
        <collect_1 in 'flow'>
        >>> flow.go().collected().to_pydict()
        {'n': [3, 4]}
        """
        if not modules:
            raise UsageError("a chain has no modules", remedy="give at least one")
        placed = [self._placed(module) for module in modules]
        for a, b in zip(placed, placed[1:], strict=False):
            self.attach(a, b)
        return placed[-1]

    def variable(self, name: str, *, default: Any = None, doc: str | None = None) -> Var:
        """Declares a variable. `eu.var` in a configuration declares one too.

        >>> flow = eu.Flow()
        >>> rows = flow.variable("rows", default=10, doc="How many integers")
        >>> _ = flow.chain(eu.generate("integers", rows=rows), eu.collect())
        >>> flow.go(rows=3).collected().num_rows, flow.go().collected().num_rows
        (3, 10)
        """
        variable = Var(name, default=default, doc=doc)
        self._declare(variable)
        return variable

    # Running

    def go(
        self,
        *,
        memory: int | float | str | None = None,
        cores: int | None = None,
        home: Folder | None = None,
        scratch: Folder | Sequence[Folder] = (),
        workers: int | None = None,
        queues: str | None = None,
        cluster: Cluster | str | None = None,
        progress: ProgressOption = None,
        perturb: Perturbation | Sequence[Perturbation] = (),
        resume: bool = False,
        metrics: str | int | None = None,
        event_log: Folder | None = None,
        cache: int | float | str | None = None,
        variables: Mapping[str, Any] | None = None,
        **more_variables: Any,
    ) -> Report:
        """Runs the flow and returns the report. Outputs appear atomically, or not at all.

        `memory` is the budget in bytes (`"1GiB"`), 70 % of the machine's by default. `cores` is the
        number of instances of a module without a `count`; one per core by default. Collections live
        in `home`; data beyond memory is spilled to `scratch`. `workers` spreads the instances over
        that many workers of this process. `cluster` runs them on separate workers: an open cluster,
        or words like `"processes:4"` or `"ray"` for one that lives as long as the flow. `queues` is
        the policy of distributed queues: `"late_binding"`, or, for comparison, `"static"` division
        in advance, `"round_robin"`, `"shortest"`, `"credit"` (River's own) or `"sparrow"`.
        `perturb` slows components on purpose (`eu.perturb`). With `resume`, the flow does not run
        if the same flow with the same options has already made its outputs and its sources are
        unchanged; otherwise it runs, and may replace outputs that it made itself. A flow that scans
        files, changes single rows and saves a folder continues from the splits that an earlier
        attempt has completed. `metrics` is an address (`"127.0.0.1:9100"`), or a port of this
        machine, at which Prometheus finds the flow's counters while it runs. `event_log` is a file
        for what happens to the flow, one JSON object a line. `cache` is memory beside the budget in
        which each machine keeps what it reads of object stores and web servers for later flows with
        this option (`eu.cache_clear`). All other arguments, and `variables`, are values of the
        flow's variables.

        >>> flow = eu.Flow()
        >>> _ = flow.chain(eu.generate("integers", rows=1000), eu.save("n.parquet"))
        >>> report = flow.go(memory="1GiB", cores=2, resume=True, progress=False)
        >>> report.modules[0].rows_out
        1000
        >>> flow.go(memory="1GiB", cores=2, resume=True, progress=False).made_before
        ['save_1']
        """
        values = self._values(Flow.go, variables, more_variables)
        given = (memory, cores, home, scratch, values, workers, queues, perturb)
        options = options_json(*given, self._resumable(resume), metrics, event_log, cache)
        if cluster is None:
            return self._run(options, None, progress)
        from .cluster import opened

        with opened(cluster, self.name) as native:
            return self._run(options, native, progress)

    def start(
        self,
        *,
        memory: int | float | str | None = None,
        cores: int | None = None,
        home: Folder | None = None,
        scratch: Folder | Sequence[Folder] = (),
        workers: int | None = None,
        queues: str | None = None,
        cluster: Cluster | None = None,
        perturb: Perturbation | Sequence[Perturbation] = (),
        resume: bool = False,
        metrics: str | int | None = None,
        event_log: Folder | None = None,
        cache: int | float | str | None = None,
        variables: Mapping[str, Any] | None = None,
        **more_variables: Any,
    ) -> Running:
        """Starts the flow without waiting for it; the arguments are those of `go`, but the cluster
        must be open, and progress is what the result tells.

        >>> flow = eu.Flow()
        >>> _ = flow.chain(eu.generate("integers", rows=1000), eu.count(), eu.collect())
        >>> running = flow.start()
        >>> running.finish().collected().to_pylist()
        [{'count': 1000}]
        """
        if isinstance(cluster, str):
            error = f"a started flow cannot open the cluster `{cluster}`, which lives as long as it"
            raise UsageError(error, remedy="give an open one, like `eu.Cluster.processes(4)`")
        values = self._values(Flow.start, variables, more_variables)
        given = (memory, cores, home, scratch, values, workers, queues, perturb)
        options = options_json(*given, self._resumable(resume), metrics, event_log, cache)
        if cluster is None:
            return self._started(options, None)
        from .cluster import native_of

        return self._started(options, native_of(cluster))

    def check(
        self,
        *,
        trust: bool | None = None,
        variables: Mapping[str, Any] | None = None,
        **more_variables: Any,
    ) -> None:
        """Checks the flow without starting it: schemas, ports, orders, cycles, options. Python
        functions without a declared schema are called with an empty batch.

        With `trust=False`, the check neither imports nor calls any function, class or query that
        the flow names; modules that run them, and modules downstream of these, stay unchecked. This
        is the default for a flow read from a document; a flow built by this program is trusted.

        >>> flow = eu.Flow()
        >>> _ = flow.chain(eu.from_arrow({"city": ["Ur"]}), eu.sort(["town"]), eu.collect())
        >>> flow.check()
        Traceback (most recent call last):
        euphrates.errors.UsageError: module sort_1: no column named `town`
          remedy: known: city
        """
        self.explain(trust=trust, variables=variables, **more_variables)

    def explain(
        self,
        *,
        trust: bool | None = None,
        variables: Mapping[str, Any] | None = None,
        **more_variables: Any,
    ) -> Explanation:
        """Checks the flow, and explains how many instances and which queues it would have, and why.
        The arguments are those of `check`.

        >>> flow = eu.Flow("first")
        >>> _ = flow.chain(eu.generate("integers", rows=9), eu.limit(3), eu.collect())
        >>> plan = flow.explain()
        >>> [(queue["to"], queue["schema"]) for queue in plan.data["queues"]]
        [('limit_1', 'n: Int64 not null'), ('collect_1', 'n: Int64 not null')]
        """
        import json

        from .explanation import Explanation

        values = self._values(Flow.explain, variables, more_variables)
        options = options_json(None, None, None, (), values)
        trusted = self._is_own if trust is None else trust
        return Explanation(json.loads(_euphrates.check(self._json(), options, trusted)))

    def spelled_out(
        self,
        *,
        trust: bool | None = None,
        variables: Mapping[str, Any] | None = None,
        **more_variables: Any,
    ) -> Flow:
        """The flow as it runs, with everything implied made explicit: a `sort` is preceded by the
        `partition` that reads its input, and counts are resolved. It can be inspected, drawn and
        changed. The arguments are those of `check`.

        >>> flow = eu.Flow()
        >>> _ = flow.chain(eu.generate("integers", rows=9), eu.sort(["n desc"]), eu.collect())
        >>> flow.spelled_out()
        <flow 'flow': generate_1 sort_1_partition sort_1 collect_1>
        """
        seen = self.explain(trust=trust, variables=variables, **more_variables).data
        if seen["unchecked"]:
            raise UsageError(
                f"{', '.join(seen['unchecked'])}: not checked, since that calls user code",
                remedy="trust=True, if you trust whoever wrote the flow",
            )
        flow = Flow.from_json(json_text(seen["document"]))
        flow._held.update(self._held)
        flow._is_own = self._is_own
        return flow

    # Inside

    def _run(
        self, options: str, cluster: _euphrates.Cluster | None, progress: ProgressOption
    ) -> Report:
        with Watcher(progress, self.name) as tell:
            return self._started(options, cluster)._go(tell)

    def _started(self, options: str, cluster: _euphrates.Cluster | None) -> Running:
        document = self._json() if cluster is None else self._json_for_workers()
        native = _euphrates.start(document, options, cluster)
        return Running(native, list(self._held.values()))

    def _resumable(self, resume: bool) -> bool:
        """Whether to resume. Rejects flows with objects of this process, which have no lasting
        identity.
        """
        return resume and bool(self.to_json())

    def _values(
        self,
        call: Callable[..., Any],
        variables: Mapping[str, Any] | None,
        more: Mapping[str, Any],
    ) -> dict[str, Any]:
        """The variables' values. Names in `more` may be misspelt options of the call."""
        known_variables(call, more, self._document.get("variables", {}))
        if not isinstance(variables or {}, dict):
            remedy = 'give a dict: variables={"path": "a.csv"}'
            raise UsageError(f"variables is {variables!r}", remedy=remedy)
        return {**(variables or {}), **more}

    def _id(self, module: Placed | str) -> str:
        if isinstance(module, str):
            return module
        if isinstance(module, Placed):
            if module.flow is not self:
                raise UsageError(
                    f"`{module.id}` was placed in another flow", remedy="place it in this one"
                )
            return module.id
        raise UsageError(
            f"{module!r} is not placed", remedy="flow.place(…) it first, or use flow.chain(…)"
        )

    def _placed(self, module: Placed | Placeable) -> Placed:
        return module if isinstance(module, Placed) else self.place(module)

    def _joined(self, a: Placed, output: Port | None, b: Placed | PortOf | Placeable) -> Placed:
        target = b.placed if isinstance(b, PortOf) else b
        port = b.port if isinstance(b, PortOf) else None
        return self.attach(a, self._placed(target), output=output, input=port)

    def _declare(self, variable: Var) -> None:
        variables = self._document.setdefault("variables", {})
        entry = variables.setdefault(variable.name, {})
        for key, value in (("default", variable.default), ("doc", variable.doc)):
            if value is None:
                continue
            value = Gathered().json(value)
            if entry.setdefault(key, value) != value:
                raise UsageError(
                    f"variable `{variable.name}` has two values for {key}",
                    remedy="declare it once, and use eu.var(name) elsewhere",
                )
