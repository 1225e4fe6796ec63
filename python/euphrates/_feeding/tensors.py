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
    nulls become NaN; lists of a fixed size are rows of a matrix.
    """
    names = batch.schema.names
    return {name: _as_array(batch.column(index)) for index, name in enumerate(names)}


def _as_array(column: pa.Array) -> Any:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_fixed_size_list(column.type) and column.null_count == 0:
        return _as_array(column.flatten()).reshape(len(column), column.type.list_size)
    if isinstance(column, pa.FixedShapeTensorArray):
        return column.to_numpy_ndarray()
    return column.to_numpy(zero_copy_only=False)


def as_tensors(batch: pa.RecordBatch, dtypes: Any, device: Any) -> dict[str, Any]:
    """A tensor for each column. `dtypes` are one type, or types by column."""
    package = torch()
    made = {}
    for name, array in as_arrays(batch).items():
        if array.dtype.kind not in "biuf":
            raise UsageError(
                f"column `{name}` has no numbers, so it is no tensor",
                remedy="select columns of numbers, or of lists of a fixed size",
            )
        # Memory that is shared with a producer cannot be written; a tensor always can.
        tensor = package.from_numpy(array if array.flags.writeable else array.copy())
        dtype = dtypes.get(name) if isinstance(dtypes, dict) else dtypes
        made[name] = tensor.to(device=device, dtype=dtype)
    return made
