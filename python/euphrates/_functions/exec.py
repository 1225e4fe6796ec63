"""The function `exec`. Derived from the modules by `make derive`; not to be edited."""

# mypy: disable-error-code="empty-body"
# `configures` makes the body.

from __future__ import annotations

from ..modules import ModuleCall, configures

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from os import PathLike
    from typing import Any
    from .._config import Var


@configures("exec")
def exec(
    command: str | PathLike[str] | Sequence[str | PathLike[str]] | Var,
    *,
    input: str | PathLike[str] | Var = "csv",
    output: str | PathLike[str] | None | Var = None,
    columns: Mapping[str, Any] | None | Var = None,
    order: bool | Var = False,
    delimiter: str | PathLike[str] | None | Var = None,
    header: bool | None | Var = None,
) -> ModuleCall:
    """Runs a program: rows go in on its standard input, and come out on its output.

    `exec("grep -v foo", input="lines")`. The program is any that reads and writes `csv`,
    `json_lines`, `arrow_ipc` (as a stream), `records` or `lines`. One copy of it runs; with
    `count`, as many as that, each with a part of the rows. If it exits with another status than
    0, or is killed, the flow fails with the last lines it wrote to its standard error. A
    program that does not read all its input is well. It is killed when the flow is stopped,
    with all it has started.

    Options:

    command
        A program and its arguments, or one string for the shell.
    input
        How the rows are written for it: `csv`, `json_lines`, `arrow_ipc`, `records` or `lines`.
    output
        How what it writes is read; as the input if absent.
    columns
        Names and types of what it writes, like `{"id": "int64"}`; as the input if absent.
        `records` and `lines` know theirs.
    order
        Keep the order in which it writes.
    delimiter
        CSV: the character between fields, in and out; a comma if absent.
    header
        CSV: whether the first line names the columns, in and out; it does if absent.

    Example:

    >>> flow = eu.Flow()
    >>> cities = eu.from_arrow({"line": ["Ur", "Mari", "Uruk"]})
    >>> _ = flow.chain(cities, eu.exec("grep ^U", input="lines"), eu.collect())
    >>> flow.go().collected().to_pydict()
    {'line': [b'Ur', b'Uruk']}
    """
