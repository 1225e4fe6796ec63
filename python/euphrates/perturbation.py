"""Perturbations: fault injection that slows components of a flow without failing them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

from ._options import size
from ._other_names.answers import answering
from .errors import UsageError


@dataclasses.dataclass(frozen=True)
class Perturbation:
    """One perturbation, constructed by `eu.perturb`.

    >>> flow = eu.Flow()
    >>> _ = flow.chain(eu.generate("integers", rows=9), eu.count(), eu.collect())
    >>> flow.go(perturb=eu.perturb(module="count_1", share=0.5)).perturbations
    [{'module': 'count_1', 'share': 0.5}]
    """

    data: dict[str, Any]
    """The perturbation as JSON values."""

    def __repr__(self) -> str:
        given = ", ".join(f"{name}={value!r}" for name, value in self.data.items())
        return f"eu.perturb({given})"


@answering
def perturb(
    *,
    instance: str | None = None,
    module: str | None = None,
    worker: str | None = None,
    disk: str | None = None,
    link: str | None = None,
    share: float | None = None,
    pause: bool = False,
    rate: int | float | str | None = None,
    memory: int | float | str | None = None,
    after: float | None = None,
    lasts: float | None = None,
    every: float | None = None,
) -> Perturbation:
    """A perturbation for `flow.go(perturb=[…])`: shows how a flow tolerates a slow component.

    `share` is the part of its speed that an instance loses, or all instances of a module or worker
    (`w0`, `w1`, …). `pause` stops it. `rate` limits a disk, or what one worker of a cluster sends
    to another. It begins `after` seconds from the start of the flow, lasts `lasts` seconds, and
    recurs every `every` seconds; by default it lasts from the start to the end.

    >>> slowed = [
    ...     eu.perturb(instance="map_1.2", share=0.75),
    ...     eu.perturb(module="scan_1", pause=True, after=2, lasts=3),
    ...     eu.perturb(worker="w1", share=0.5),
    ...     eu.perturb(disk="d1", rate="5MB/s", lasts=10, every=20),
    ...     eu.perturb(link="w0>w1", rate="5MB/s"),
    ...     eu.perturb(memory="1GB"),
    ... ]
    >>> slowed[3]
    eu.perturb(disk='d1', rate=5000000, lasts=10, every=20)
    """
    given: dict[str, Any] = {
        "instance": instance,
        "module": module,
        "worker": worker,
        "disk": disk,
        "link": link,
        "share": share,
        "pause": pause or None,
        "rate": None if rate is None else _rate(rate),
        "memory": None if memory is None else size(memory),
        "after": after,
        "lasts": lasts,
        "every": every,
    }
    return Perturbation({name: value for name, value in given.items() if value is not None})


def _rate(rate: int | float | str) -> int:
    return size(rate.strip().removesuffix("/s") if isinstance(rate, str) else rate)


def perturbations_json(given: Perturbation | Iterable[Perturbation]) -> list[dict[str, Any]]:
    """The perturbations of a run, as JSON values."""
    listed = [given] if isinstance(given, Perturbation) else list(given)
    for one in listed:
        if not isinstance(one, Perturbation):
            raise UsageError(f"{one!r} is no perturbation", remedy="make it with eu.perturb(…)")
    return [one.data for one in listed]
