"""A CPU of a set speed: a control group with a hard quota, or a relative weight."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from . import cgroups
from .groups import Group


class Cpu(Group):
    """Part of the machine's CPUs within a `with`; on exit the processes still in it are killed.

    `quota` is the number of CPUs it may use (0.25: a quarter of one). `weight` is its share when
    CPUs are contended; 100 is the default of every other process. Both can change while it is in
    use.
    """

    controller = "cpu"
    feature = "cpus"

    def __init__(self, quota: float | None = None, *, weight: int = 100) -> None:
        super().__init__()
        self.quota = checked(quota)
        self.weight = weight
        self._stolen = 0.0

    def set_quota(self, quota: float | None) -> None:
        self.quota = checked(quota)
        self._set()

    def set_weight(self, weight: int) -> None:
        self.weight = weight
        self._set()

    @contextlib.contextmanager
    def stolen(self, share: float) -> Iterator[None]:
        """Reduces the quota as if another job took that share (the paper: 0.75), without burning
        CPU.
        """
        if not 0 < share < 1:
            raise ValueError("a stolen share is above 0 and below 1")
        self._stolen = share
        self._set()
        try:
            yield
        finally:
            self._stolen = 0.0
            self._set()

    def limits(self, version: int) -> dict[str, str]:
        quota = self.quota
        if self._stolen:
            quota = (1.0 if quota is None else quota) * (1 - self._stolen)
        return cgroups.cpu_limits(version, quota, self.weight)


def checked(quota: float | None) -> float | None:
    if quota is not None and quota < 0.01:
        raise ValueError("a CPU of less than a hundredth is below what the kernel can give")
    return quota
