"""The execution context of a case: in this process, on several workers, on processes; its
memory.
"""

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
    """A flow's result differs from the expected one."""


class RefusedError(Exception):
    """A flow has rejected the case, as documented."""


@dataclasses.dataclass
class Smaller:
    """The parts of a case that are left out while shrinking."""

    rows: tuple[int, int] | None = None
    columns: tuple[int, ...] | None = None
    here: bool = False


@dataclasses.dataclass
class Context:
    """One case: its random source, its files, and how its flows run."""

    seed: int
    folder: Path
    smaller: Smaller = dataclasses.field(default_factory=Smaller)

    def __post_init__(self) -> None:
        # The operations do not depend on how much of the data is left.
        self.luck = random.Random(self.seed)
        self.data = random.Random(f"data {self.seed}")
        self.place = self.luck.choice(PLACES)
        self.memory = self.luck.choice(BUDGETS)
        if self.smaller.here:
            self.place = "here"
        self.told: list[str] = [f"{self.place}, memory {self.memory}"]
        self._made = 0

    def tell(self, what: Any) -> None:
        """Notes for the analysis of a failure."""
        self.told.append(str(what))

    def path(self, ending: str) -> Path:
        """A new file path."""
        self._made += 1
        return self.folder / f"{self._made}{ending}"

    def table(self, made: pa.Table) -> pa.Table:
        """A table, reduced as far as the shrinker asks."""
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
        """Runs a flow. `may_refuse` lists the acceptable error messages."""
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
        """The output of a chain of modules."""
        flow = eu.Flow("fuzz")
        flow.chain(*modules, eu.collect())
        return pa.table(self.go(flow, may_refuse).collected())


def says(*patterns: str) -> Callable[[str], bool]:
    """Whether an error matches one of these."""
    return lambda text: any(re.search(pattern, text) for pattern in patterns)


@functools.cache
def cluster() -> eu.Cluster:
    """One cluster for all cases of this process."""
    return eu.Cluster.processes(2)


def close() -> None:
    """Closes what all cases shared."""
    if cluster.cache_info().currsize:
        with contextlib.suppress(eu.EuphratesError):
            cluster().close()
