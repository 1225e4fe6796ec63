"""Tensors and datasets of PyTorch, in loaders with worker processes. Needs `torch`."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

import euphrates as eu
from feeding_cases import integers

torch = pytest.importorskip("torch")
data = pytest.importorskip("torch.utils.data")

ROWS, SIZE = 500, 10


def loaded(consumer: eu.Consumer, workers: int) -> list[int]:
    dataset = consumer.torch_dataset(batch_size=None)
    loader = data.DataLoader(dataset, batch_size=None, num_workers=workers)
    return [number for batch in loader for number in batch["n"].tolist()]


def test_batches_are_tensors_that_can_be_written() -> None:
    rows = eu.query(pa.table({"n": [1, 2, 3], "flag": [True, False, True]}))
    with rows.split(1) as consumers:
        for source in (rows, consumers[0]):
            first, last = source.iter_torch_batches(batch_size=2, dtypes={"n": torch.float16})
            assert first["n"].dtype == torch.float16 and first["flag"].tolist() == [True, False]
            assert last["n"].add_(1).tolist() == [4]


def test_collate_gets_arrays() -> None:
    sums = integers(6).iter_torch_batches(batch_size=3, collate_fn=lambda one: one["n"].sum())
    assert list(sums) == [3, 12]


def test_integers_with_nulls_are_tensors_of_floating_point_numbers_if_it_is_said() -> None:
    rows = eu.query({"n": [1, None]})
    with pytest.raises(eu.UsageError, match="column `n` has integers and nulls"):
        list(rows.iter_torch_batches(dtypes={"n": torch.int64}))
    with pytest.raises(eu.UsageError, match="coalesce"):
        list(rows.iter_torch_batches())
    (batch,) = rows.iter_torch_batches(dtypes={"n": torch.float32})
    assert batch["n"][0] == 1 and batch["n"].isnan().tolist() == [False, True]


def test_text_is_no_tensor() -> None:
    with pytest.raises(eu.UsageError, match="column `text` has no numbers"):
        list(eu.query({"text": ["a"]}).iter_torch_batches())


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_workers_of_a_loader_take_every_row_once(workers: int) -> None:
    with integers(ROWS).split(1, batch_size=SIZE) as consumers:
        for _ in range(2):
            assert sorted(loaded(consumers[0], workers)) == list(range(ROWS))


def test_shares_of_loaders_with_workers_are_equal() -> None:
    with integers(ROWS).split(1, batch_size=SIZE, equal=True) as consumers:
        assert sorted(loaded(consumers[0], 2)) == list(range(ROWS))


def test_dataset_resumes_with_its_state() -> None:
    rows = integers(ROWS).sort("n")
    with rows.split(2, batch_size=SIZE, resumable=True) as consumers:
        datasets = [one.torch_dataset(batch_size=None) for one in consumers]
        loops = [iter(one) for one in datasets]
        chance = random.Random(3)
        taken = [n for _ in range(20) for n in next(chance.choice(loops))["n"].tolist()]
        states = [one.state_dict() for one in datasets]
    with rows.split(1, batch_size=SIZE, resume=True) as consumers:
        dataset = consumers[0].torch_dataset(batch_size=None)
        dataset.load_state_dict(states)
        rest = [n for batch in dataset for n in batch["n"].tolist()]
    assert sorted([*taken, *rest]) == list(range(ROWS))


@pytest.mark.parametrize("workers", [0, 2])
def test_stateful_loader_resumes(workers: int) -> None:
    loaders: Any = pytest.importorskip("torchdata.stateful_dataloader")
    rows = integers(ROWS).sort("n")

    def loader(consumer: eu.Consumer) -> Any:
        dataset = consumer.torch_dataset(batch_size=None)
        return loaders.StatefulDataLoader(dataset, batch_size=None, num_workers=workers)

    with rows.split(1, batch_size=SIZE, resumable=True) as consumers:
        first, taken = loader(consumers[0]), []
        for count, batch in enumerate(first, 1):
            taken += batch["n"].tolist()
            if count == 13:
                state = first.state_dict()
                break
        del first
    with rows.split(1, batch_size=SIZE, resume=True) as consumers:
        second = loader(consumers[0])
        second.load_state_dict(state)
        rest = [n for batch in second for n in batch["n"].tolist()]
    assert sorted([*taken, *rest]) == list(range(ROWS))
