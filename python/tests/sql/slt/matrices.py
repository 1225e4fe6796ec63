"""The files that are made of matrices: the statements, and what an error in them says."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from . import matrix_casts, matrix_functions, matrix_operators, matrix_windows

Statements = Callable[[], Iterator[str]]

ALL: dict[str, tuple[Statements, str]] = {
    "matrices/casts": (matrix_casts.statements, r"(?i)cast|convert|fit|range|overflow|made"),
    "matrices/arithmetic": (matrix_operators.arithmetic, r"(?i)overflow|range|fit"),
    "matrices/comparison": (matrix_operators.comparison, r"(?i)compare"),
    "matrices/logic": (matrix_operators.logic, r"(?i)boolean"),
    "matrices/strings": (matrix_functions.strings, r"(?i)text"),
    "matrices/numbers": (matrix_functions.numbers, r"(?i)negative|overflow"),
    "matrices/dates": (matrix_functions.dates, r"(?i)range"),
    "matrices/windows": (matrix_windows.windows, r"(?i)argument"),
    "matrices/frames": (matrix_windows.frames, r"(?i)frame"),
    "matrices/aggregates": (matrix_windows.aggregates, r"(?i)argument"),
}
