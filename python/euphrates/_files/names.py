"""Names of striped files for paths, as flows make them for `euphrates://` addresses."""

from __future__ import annotations

from .._euphrates import striped_name, striped_path


def name_of(path: str) -> str:
    """The name for a path.

    >>> from euphrates._files.names import name_of
    >>> name_of("runs/year=2024/.zarray")
    'runs/year-.3D2024/_-.2Ezarray'
    """
    return striped_name(path.encode("utf-8", "surrogateescape"))


def path_of(name: str) -> str:
    """The path of a name.

    >>> from euphrates._files.names import path_of
    >>> path_of("runs/year-.3D2024/_-.2Ezarray")
    'runs/year=2024/.zarray'
    """
    return striped_path(name).decode("utf-8", "surrogateescape")
