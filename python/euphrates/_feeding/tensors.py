"""Batches as NumPy arrays and as tensors of PyTorch, which is imported when it is first needed."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from ..errors import UsageError


def torch() -> Any:
    """The package `torch`."""
    try:
        import torch as package
    except ImportError:
        raise UsageError(
            "tensors need PyTorch, which is not installed",
            remedy='pip install torch, or take batch_format="numpy"',
        ) from None
    return package


def as_arrays(batch: pa.RecordBatch) -> dict[str, Any]:
    """A NumPy array for each column. Numbers without nulls are not copied, and cannot be written;
    lists of a fixed size are rows of a matrix. A null among floating point numbers is NaN; among
    integers, which NaN would round, it is `None` in an array of objects.
    """
    names = batch.schema.names
    return {name: _as_array(batch.column(index)) for index, name in enumerate(names)}


def _as_array(column: pa.Array) -> Any:
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _as_array(column.dictionary_decode())
    if pa.types.is_fixed_size_list(kind) and column.null_count == 0:
        return _as_array(column.flatten()).reshape(len(column), kind.list_size)
    if isinstance(column, pa.FixedShapeTensorArray):
        return column.to_numpy_ndarray()
    if kind == pa.time64("ns"):  # Python has no nanoseconds: rounded down.
        return _as_array(column.cast(pa.time64("us"), safe=False))
    if not _would_round(column):
        return column.to_numpy(zero_copy_only=False)
    if pa.types.is_integer(kind) or pa.types.is_struct(kind) or pa.types.is_map(kind):
        return _objects(column.to_pylist())
    lists = (row.values for row in column)
    return _objects([None if one is None else _as_array(one) for one in lists])


def _would_round(column: pa.Array) -> bool:
    """Whether NumPy would have an integer of a column as a floating point number, for a null."""
    kind = column.type
    if pa.types.is_integer(kind):
        return bool(column.null_count)
    if pa.types.is_struct(kind) or pa.types.is_map(kind):
        entries = column.flatten() if pa.types.is_struct(kind) else (column.keys, column.items)
        return any(map(_would_round, entries))
    is_list = pa.types.is_nested(kind) and kind.num_fields == 1
    return is_list and _would_round(column.flatten())


def _objects(values: list[Any]) -> Any:
    import numpy as np

    array = np.empty(len(values), dtype=object)
    for row, value in enumerate(values):  # A slice would take lists of one length for a matrix.
        array[row] = value
    return array


def as_tensors(batch: pa.RecordBatch, dtypes: Any, device: Any) -> dict[str, Any]:
    """A tensor for each column. `dtypes` are one type, or types by column."""
    package = torch()
    made = {}
    for name, array in as_arrays(batch).items():
        dtype = dtypes.get(name) if isinstance(dtypes, dict) else dtypes
        kind = batch.schema.field(name).type
        while pa.types.is_fixed_size_list(kind):
            kind = kind.value_type
        if array.dtype.kind == "O" and pa.types.is_integer(kind):
            if dtype is None or not dtype.is_floating_point:
                raise UsageError(
                    f"column `{name}` has integers and nulls, which a tensor of integers has not",
                    remedy=f'fill them, .with_columns({name}="coalesce({name}, 0)"), or give a '
                    f'type that has NaN, dtypes={{"{name}": torch.float64}}',
                )
            array = array.astype("float64")
        if array.dtype.kind not in "biuf":
            raise UsageError(
                f"column `{name}` has no numbers, so it is no tensor",
                remedy="select columns of numbers, or of lists of a fixed size",
            )
        # Memory that is shared with a producer cannot be written; a tensor always can.
        tensor = package.from_numpy(array if array.flags.writeable else array.copy())
        made[name] = tensor.to(device=device, dtype=dtype)
    return made
