"""What flows leave for later ones: the files that `only_new` has processed, and the cache."""

from __future__ import annotations

import os
from collections.abc import Sequence

from .. import _euphrates
from .._other_names.answers import answering


@answering
def forget(name: str, files: Sequence[str | os.PathLike[str]] | None = None) -> int:
    """Forgets files that were processed under a name, or all of them, so that the next run reads
    them again. Returns how many.

    >>> with open("day.csv", "w") as file:
    ...     _ = file.write("n\\n1\\n")
    >>> new = eu.scan("day.csv", only_new="days")
    >>> new.to_pydict(), new.to_pydict()
    ({'n': [1]}, {'n': []})
    >>> eu.forget("days", ["day.csv"])
    1
    >>> new.to_pydict()
    {'n': [1]}
    """
    given = None if files is None else [os.fspath(file) for file in files]
    return _euphrates.forget(name, given)


@answering
def cache_clear() -> int:
    """Frees what this process keeps of remote files (`go(cache="4GiB")`). Returns the bytes. The
    workers of a cluster keep their own until the cluster is closed.

    >>> eu.cache_clear()
    0
    """
    return _euphrates.cache_clear()
