"""Names of striped files for paths: names have letters, digits, `_`, `-` and `.` only.

Any other byte is written as `-.` and two hexadecimal digits, so that paths like `.zarray` and
`year=2024/x` are kept. A part that would begin so has a `_` before.
"""

from __future__ import annotations

import string

_PLAIN = set((string.ascii_letters + string.digits + "_-.").encode())
_ESCAPE = "-."


def name_of(path: str) -> str:
    """The name for a path.

    >>> from euphrates._files.names import name_of
    >>> name_of("runs/year=2024/.zarray")
    'runs/year-.3D2024/_-.2Ezarray'
    """
    return "/".join(_encoded(part) for part in path.split("/"))


def path_of(name: str) -> str:
    """The path of a name.

    >>> from euphrates._files.names import path_of
    >>> path_of("runs/year-.3D2024/_-.2Ezarray")
    'runs/year=2024/.zarray'
    """
    return "/".join(_decoded(part) for part in name.split("/"))


def _encoded(part: str) -> str:
    raw = part.encode("utf-8", "surrogateescape")
    text = ""
    for at, byte in enumerate(raw):
        is_plain = byte in _PLAIN
        if at == 0 and byte in b".-":
            is_plain = False
        if raw[at : at + 2] == b"-." or (at == 0 and raw[:3] == b"_-."):
            is_plain = False
        text += chr(byte) if is_plain else f"{_ESCAPE}{byte:02X}"
    return "_" + text if text.startswith(_ESCAPE) else text


def _decoded(part: str) -> str:
    first, *rest = (part[1:] if part.startswith("_" + _ESCAPE) else part).split(_ESCAPE)
    raw = first.encode()
    for piece in rest:
        try:
            raw += bytes.fromhex(piece[:2]) + piece[2:].encode()
        except ValueError:
            return part
    return raw.decode("utf-8", "surrogateescape")
