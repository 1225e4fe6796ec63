"""Documents of flows: their JSON, code and pictures, and the Python objects that they refer to."""

from __future__ import annotations

import os

from .. import _euphrates
from .._options import json_text
from ..errors import UsageError
from .module_calls import is_live, live_numbers
from .references import Held, pickled

TYPE_CHECKING = False  # `typing` is slow to load: see `__init__.py`.

if TYPE_CHECKING:
    from typing import Any, Literal

    from typing_extensions import Self


class FlowDocument:
    """A flow as data: what all flows have, however they are built and run."""

    def __init__(self, name: str = "flow") -> None:
        if not isinstance(name, str):
            remedy = 'write eu.Flow("cities"), and place modules: flow.chain(a, b)'
            raise UsageError(f"{name!r} is not the name of a flow", remedy=remedy)
        self._document: dict[str, Any] = {"euphrates": 1, "name": name, "modules": [], "queues": []}
        self._held: dict[int, Held] = {}
        self._is_own = True
        """Whether this program built the flow; a document may come from anyone."""

    @property
    def name(self) -> str:
        """The flow's name."""
        return str(self._document["name"])

    @property
    def layout(self) -> Any:
        """The positions of modules in an editor; they do not affect the flow."""
        return self._document.get("layout")

    @layout.setter
    def layout(self, layout: Any) -> None:
        self._document["layout"] = layout

    def to_json(self) -> str:
        """The flow as a document. Fails if it holds Python objects that cannot be imported.

        >>> import json
        >>> flow = eu.Flow("three")
        >>> _ = flow.chain(eu.generate("integers", rows=3), eu.count(), eu.collect())
        >>> json.loads(flow.to_json())["modules"][0]
        {'id': 'generate_1', 'module': 'generate', 'config': {'what': 'integers', 'rows': 3}}
        """
        for node in self._document["modules"]:
            for number in live_numbers(node["config"]):
                held = self._held.get(number)
                raise UsageError(
                    f"the flow holds {held or 'a Python object'!s}, "
                    "which lives in this process only",
                    place=f"module {node['id']}",
                    remedy=held.remedy if held else None,
                )
        return _euphrates.normalize(self._json())

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The flow of a document. Checking it calls no user code by default (`check(trust=True)`
        does); running it does.

        >>> flow = eu.Flow("three")
        >>> _ = flow.chain(eu.generate("integers", rows=3), eu.collect())
        >>> again = eu.Flow.from_json(flow.to_json())
        >>> again
        <flow 'three': generate_1 collect_1>
        >>> again.go().collected().to_pydict()
        {'n': [0, 1, 2]}
        """
        import json

        if not isinstance(text, str):
            error = f"a {type(text).__name__} is not the text of a document"
            remedy = "write eu.Flow.from_json(json.dumps(document)), or eu.Flow.load(path)"
            raise UsageError(error, remedy=remedy)
        flow = cls()
        flow._is_own = False
        flow._document = json.loads(_euphrates.normalize(text))
        return flow

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the document to a file atomically.

        >>> flow = eu.Flow("three")
        >>> _ = flow.chain(eu.generate("integers", rows=3), eu.collect())
        >>> flow.save("three.json")

        A flow that holds Python objects of this process cannot be saved:

        >>> _ = flow.place(lambda batch: batch)
        >>> flow.save("three.json")
        Traceback (most recent call last):
        euphrates.errors.UsageError: module map_1: the flow holds `<lambda>`, which lives in ...
        """
        text = self.to_json() + "\n"
        path = os.fspath(path)
        staged = f"{path}.{os.getpid()}.tmp"
        try:
            with open(staged, "w", encoding="utf-8") as file:
                file.write(text)
            os.replace(staged, path)
        except OSError as error:
            import contextlib

            with contextlib.suppress(OSError):
                os.unlink(staged)
            raise UsageError(f"cannot write {path!r}: {error.strerror}") from error

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The flow of a document file.

        >>> flow = eu.Flow("three")
        >>> _ = flow.chain(eu.generate("integers", rows=3), eu.collect())
        >>> flow.save("three.json")
        >>> eu.Flow.load("three.json").go().collected().num_rows
        3
        """
        try:
            with open(path, encoding="utf-8") as file:
                return cls.from_json(file.read())
        except OSError as error:
            raise UsageError(f"cannot read {os.fspath(path)!r}: {error.strerror}") from error

    def code(self, language: Literal["python", "rust"] = "python") -> str:
        """A program that builds this flow.

        >>> flow = eu.Flow("three")
        >>> _ = flow.chain(eu.generate("integers", rows=3), eu.collect())
        >>> print(flow.code())
        import euphrates as eu
        <BLANKLINE>
        flow = eu.Flow("three")
        <BLANKLINE>
        generate_1 = flow.place(eu.generate("integers", rows=3))
        collect_1 = flow.place(eu.collect())
        ...
        """
        return _euphrates.code(self.to_json(), language)

    def draw(self, format: Literal["svg", "mermaid", "dot"] = "svg") -> str:
        """A picture of the flow.

        >>> flow = eu.Flow("three")
        >>> _ = flow.chain(eu.generate("integers", rows=3), eu.collect())
        >>> print(flow.draw("mermaid").rstrip())
        flowchart LR
          m0["generate<br/>what: integers<br/>rows: 3"]
          m1["collect"]
          m0 --> m1
        """
        return _euphrates.draw(self._json(), format)

    def _repr_svg_(self) -> str:
        return self.draw()

    def _repr_html_(self) -> str:
        return self.draw()

    def __repr__(self) -> str:
        ids = " ".join(node["id"] for node in self._document["modules"])
        return f"<flow {self.name!r}: {ids or 'no modules'}>"

    # Inside

    def _embed(self, other: FlowDocument) -> str:
        """Places all modules of another flow, and returns the id of the last one."""
        ids: dict[str, str] = {}
        for node in other._document["modules"]:
            ids[node["id"]] = self._next_id(node["module"])
            self._document["modules"].append({**node, "id": ids[node["id"]]})
        for edge in other._document["queues"]:
            edge = {**edge, "from": ids[edge["from"]], "to": ids[edge["to"]]}
            self._document["queues"].append(edge)
        for name, variable in other._document.get("variables", {}).items():
            self._document.setdefault("variables", {}).setdefault(name, variable)
        self._held.update(other._held)
        return [*ids.values()][-1]

    def _next_id(self, module: str) -> str:
        ids = {node["id"] for node in self._document["modules"]}
        number = 1
        while f"{module}_{number}" in ids:
            number += 1
        return f"{module}_{number}"

    def _json(self) -> str:
        return json_text(self._document)

    def _json_for_workers(self) -> str:
        """The document with pickles of the functions that it holds, for processes at workers. A
        function that yields tables is not pickled: the program calls it, where its tables are.
        """
        import json

        document = json.loads(self._json())
        for node in (one for one in document["modules"] if one["module"] != "from_arrow"):
            for value in node["config"].values():
                entry = self._held.get(value["$live"]) if is_live(value) else None
                if entry is not None and callable(entry.target):
                    try:
                        value["$pickled"] = pickled(entry)
                    except UsageError as error:
                        error.place = f"module {node['id']}"
                        raise
        return json_text(document)
