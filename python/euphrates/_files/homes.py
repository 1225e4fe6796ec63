"""The home of striped files: a folder, or one that stands for a cluster that serves disks."""

from __future__ import annotations

import os

from .._euphrates import served_home
from .._other_names.answers import answering
from ..errors import UsageError

TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Literal, TypeAlias

    ChannelSecurity: TypeAlias = Literal["tls", "token"]


@answering
def striped_home(
    cluster: str,
    *,
    token_file: str | os.PathLike[str],
    channel_security: ChannelSecurity = "tls",
    lost_after: float | None = None,
) -> str:
    """The home of the striped files that the workers of a cluster serve.

    It is a small folder of this machine that says how to reach the workers, and is the `home` of
    every function for striped files. Workers serve the disks of their homes if they are started
    with `--serve HOME`; one of them also needs `--serve-catalog`. A worker that says nothing for
    `lost_after` seconds (10, or 2 on one machine) is a lost disk.

    >>> home = eu.striped_home("at:10.0.0.1:4400", token_file="token")  # doctest: +SKIP
    >>> eu.open_striped("models/first", home=home).read()  # doctest: +SKIP
    """
    return served_home(cluster, os.fspath(token_file), channel_security, lost_after)


def home_for(
    home: str | os.PathLike[str] | None,
    cluster: str | None,
    token_file: str | os.PathLike[str] | None,
) -> str | None:
    """The home that is meant by the parameters of a function; `None` for the default.

    >>> from euphrates._files.homes import home_for
    >>> home_for("data", None, None)
    'data'
    """
    if cluster is None:
        if token_file is not None:
            raise UsageError("`token_file` is given without `cluster`")
        return None if home is None else os.fspath(home)
    if home is not None:
        raise UsageError("`home` and `cluster` are both given", remedy="leave one of them out")
    if token_file is None:
        raise UsageError("`cluster` is given without `token_file`")
    return striped_home(cluster, token_file=token_file)
