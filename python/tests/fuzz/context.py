"""How a case runs: here, on several workers, on processes; with how much memory."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

import euphrates as eu

CLUSTER = "processes:2"
PLACES = ["here", "here", "here", "workers", "processes"]
BUDGETS = [None, None, None, "16MiB", "64MiB"]


class WrongAnswerError(AssertionError):
    """A flow has not done what it should."""


class RefusedError(Exception):
    """A flow has said, as documented, that it cannot do this."""


@dataclasses.dataclass
class Smaller:
    """What of a case is left out, to find out what fails it."""

    rows: tuple[int, int] | None = None
    columns: tuple[int, ...] | None = None
    here: bool = False


@dataclasses.dataclass
class Context:
    """One case: where its chance comes from, where its files are, how its flows run."""

    seed: int
    folder: Path
    smaller: Smaller = dataclasses.field(default_factory=Smaller)

    def __post_init__(self) -> None:
        # What is done does not depend on how much of the data is left.
        self.luck = random.Random(self.seed)
        self.data = random.Random(f"data {self.seed}")
        self.place = self.luck.choice(PLACES)
        self.memory = self.luck.choice(BUDGETS)
        if self.smaller.here:
            self.place = "here"
        self.told: list[str] = [f"{self.place}, memory {self.memory}"]
        self._made = 0

    def tell(self, what: Any) -> None:
        """Notes for whoever looks at a failure."""
        self.told.append(str(what))

    def path(self, ending: str) -> Path:
        """A new file."""
        self._made += 1
        return self.folder / f"{self._made}{ending}"

    def table(self, made: pa.Table) -> pa.Table:
        """A table as much smaller as is asked for."""
        if self.smaller.columns is not None:
            kept = [at for at in self.smaller.columns if at < made.num_columns]
            made = made.select(kept)
        if self.smaller.rows is not None:
            low, high = self.smaller.rows
            made = made.slice(low, high - low)
        return made

    def go(
        self, flow: eu.Flow, may_refuse: Callable[[str], bool] | None = None, **more: Any
    ) -> eu.Report:
        """Runs a flow. What it may say instead of doing it, `may_refuse` says."""
        options: dict[str, Any] = {"memory": self.memory, "home": self.folder / "home", **more}
        if self.place == "workers":
            options["workers"] = 2
        if self.place == "processes":
            options["cluster"] = cluster()
        try:
            return flow.go(progress=False, **options)
        except eu.EuphratesError as error:
            if may_refuse is not None and may_refuse(str(error)):
                raise RefusedError(str(error)) from error
            raise

    def collected(self, *modules: Any, may_refuse: Callable[[str], bool] | None = None) -> pa.Table:
        """What comes out of a chain of modules."""
        flow = eu.Flow("fuzz")
        flow.chain(*modules, eu.collect())
        return pa.table(self.go(flow, may_refuse).collected())


def says(*patterns: str) -> Callable[[str], bool]:
    """Whether an error is one of these."""
    return lambda text: any(re.search(pattern, text) for pattern in patterns)


@functools.cache
def cluster() -> eu.Cluster:
    """One for all cases of this process."""
    return eu.Cluster.processes(2)


def close() -> None:
    """Ends what was opened for all cases."""
    if cluster.cache_info().currsize:
        with contextlib.suppress(eu.EuphratesError):
            cluster().close()
