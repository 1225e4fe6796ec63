"""The function `generate`. Derived from the modules by `make derive`; not to be edited."""

# mypy: disable-error-code="empty-body"
# `configures` makes the body.

from __future__ import annotations

from ..modules import ModuleCall, configures

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Literal
    from .._config import Var


@configures("generate")
def generate(
    what: Literal['records'] | Literal['integers'] | Literal['lineitem'] | Literal['orders'] | Literal['customer'] | Literal['part'] | Literal['partsupp'] | Literal['supplier'] | Literal['nation'] | Literal['region'] | Var,
    *,
    rows: int | None | Var = None,
    scale: float | None | Var = None,
    first: int | Var = 0,
    ascii: bool | Var = False,
    skewed: bool | Var = False,
    order: bool | Var = False,
) -> ModuleCall:
    """Makes data: sort benchmark records, TPC-H tables, or integers.

    `records` have the columns `key` (10 bytes) and `payload` (90 bytes) and are those of
    gensort 1.5. The tables `lineitem`, `orders`, `customer`, `part`, `partsupp`, `supplier`,
    `nation` and `region` are those of TPC-H at `scale` (1 is about 1 GB in all). `integers` has
    one column `n`, from `first` upwards.

    Options:

    what
        The kind of records, or the TPC-H table.
    rows
        Number of rows, for `records` and `integers`.
    scale
        Scale factor, for the tables of TPC-H; 1 is about 1 GB in all.
    first
        Number of the first record or integer.
    ascii
        Printable records, as gensort `-a`.
    skewed
        Records with skewed keys, as gensort `-s`.
    order
        Give the output an order: it comes as a stream.

    Example:

    >>> flow = eu.Flow()
    >>> _ = flow.chain(eu.generate("integers", rows=3, first=7, order=True), eu.collect())
    >>> flow.go().collected().to_pydict()
    {'n': [7, 8, 9]}
    """
