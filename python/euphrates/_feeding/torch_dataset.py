"""A consumer as an iterable dataset of PyTorch. Only this file needs `torch` to be loaded."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from torch.utils.data import IterableDataset, get_worker_info

if TYPE_CHECKING:
    from .consumer import Consumer


class ConsumerDataset(IterableDataset):  # type: ignore[misc]
    """The batches of a consumer as tensors. Each worker of a `DataLoader` opens a connection of its
    own and takes from the same queue, so a slow worker delays no other. A worker acknowledges a
    batch when it receives it. The batches of a consumer with equal shares are those of
    all its workers together.
    """

    def __init__(self, consumer: Consumer, options: dict[str, Any]) -> None:
        super().__init__()
        self._consumer = consumer
        self._options = options
        self._is_workers = False

    def __iter__(self) -> Iterator[Any]:
        return self._own().iter_torch_batches(**self._options)

    def state_dict(self) -> dict[str, Any]:
        """What this process has consumed of the epoch: `Consumer.state_dict`."""
        return self._own().state_dict()

    def load_state_dict(self, state: Any) -> None:
        """Resumes with the states of one or more datasets: `Consumer.load_state_dict`."""
        self._own().load_state_dict(state)

    def _own(self) -> Consumer:
        """The consumer of this process: in a worker, one of the same number."""
        worker = get_worker_info()
        if worker is not None and not self._is_workers:
            self._consumer = copy.copy(self._consumer)
            self._consumer._become_worker(worker.id, worker.num_workers)
            self._is_workers = True
        return self._consumer
