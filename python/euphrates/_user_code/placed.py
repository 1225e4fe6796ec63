"""Modules in a flow, and their ports: what `>>` attaches."""

from __future__ import annotations

from .._other_names.answers import OtherNames

TYPE_CHECKING = False  # `typing` is slow to load: see `__init__.py`.

if TYPE_CHECKING:
    from typing import TypeAlias

    from ..flow import Flow
    from .module_calls import Placeable

    Port: TypeAlias = str | int
    """A port, by its name or its position."""


class Placed(OtherNames):
    """A module in a flow. `a >> b` attaches, `a["name"]` chooses a port.

    >>> flow = eu.Flow()
    >>> one = flow.place(eu.from_arrow({"n": [1]}))
    >>> two = flow.place(eu.from_arrow({"n": [2]}))
    >>> union = flow.place(eu.union())
    >>> one >> union >> eu.sort(["n"]) >> eu.collect()
    <collect_1 in 'flow'>
    >>> two >> union
    <union_1 in 'flow'>
    >>> flow.go().collected().to_pydict()
    {'n': [1, 2]}
    """

    _kind, _called = "placed", "a placed module"

    def __init__(self, flow: Flow, id: str) -> None:
        self.flow = flow
        self.id = id

    def __rshift__(self, other: Placed | PortOf | Placeable) -> Placed:
        return self.flow._joined(self, None, other)

    def __getitem__(self, port: Port) -> PortOf:
        return PortOf(self, port)

    def __repr__(self) -> str:
        return f"<{self.id} in {self.flow.name!r}>"


class PortOf:
    """A port of a module in a flow: an output left of `>>`, an input right of it.

    >>> flow = eu.Flow()
    >>> ids = flow.place(eu.from_arrow({"id": [1, 2, 3]}))
    >>> known = flow.place(eu.from_arrow({"id": [2]}))
    >>> join = flow.place(eu.join("id", how="anti"))
    >>> ids >> join["left"] >> eu.collect()
    <collect_1 in 'flow'>
    >>> known >> join["right"]
    <join_1 in 'flow'>
    >>> flow.go().collected().num_rows
    2
    """

    def __init__(self, placed: Placed, port: Port) -> None:
        self.placed = placed
        self.port = port

    def __rshift__(self, other: Placed | PortOf | Placeable) -> Placed:
        return self.placed.flow._joined(self.placed, self.port, other)
